package core

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/quotalease/quotalease/ledger"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// asksOnce holds what an agent sends against 3.10: one ask in flight a key and window, a repeat word for
// word, and another one only after the first was answered or withdrawn.
func (m *member) asksOnce(req *pb.SyncRequest) {
	for _, c := range req.GetCancels() {
		m.answeredAsk(c.GetGrantId())
	}
	for _, a := range req.GetAsks() {
		about := fmt.Sprint(a.GetKey().GetDimension(), a.GetWindow().GetStartUs())
		if was := m.asked[about]; was != nil && !proto.Equal(was, a) {
			m.broken("asked %v while %v was in flight", a, was)
		}
		m.asked[about] = a
	}
}

func (m *member) answeredAsk(id []byte) {
	for about, a := range m.asked {
		if string(a.GetGrantId()) == string(id) {
			delete(m.asked, about)
		}
	}
}

// copy is a machine restored from a snapshot while the original runs on.
func (m *member) copy() {
	if m.dead || m.syncing || m.spending || len(m.core.spends) > 0 || len(m.core.cancels) > 0 {
		return
	}
	for _, k := range m.core.keys {
		if k.ask != nil || k.next != nil {
			return
		}
	}
	c := &member{history: m.history, offset: m.offset, taken: map[*Lease]int64{}, asked: map[string]*pb.Ask{}, pumpAt: -1}
	c.core = New(Config{Name: "a", Region: "eu", Random: seeded(m.rng.Uint64()), Wall: m.ledgerNow(), Start: m.clock()})
	c.core.incarnation, c.core.token = m.core.incarnation, slices.Clone(m.core.token)
	c.core.dims, c.core.version = m.core.dims, m.core.version
	c.core.contact, c.core.contacted = m.core.contact, m.core.contacted
	for _, k := range m.core.keys {
		twin := c.core.newKey(m.clock(), k.ID, m.core.dims[k.ID.Dimension])
		var leases []*Lease
		for _, l := range k.held() {
			t := &Lease{id: l.id, window: l.window, amount: l.amount, low: l.low, start: l.start, deadline: l.deadline, begun: l.begun, back: l.back, said: l.said, reported: l.reported}
			t.bucket.left.Store(l.left())
			leases = append(leases, t)
			c.taken[t] = t.taken()
			m.truth(ledger.AccountID{Key: k.ID, Window: windowOf(l.window)}).slack += l.left()
		}
		twin.leases.Store(&leases)
		c.core.tend(m.clock(), twin)
	}
	m.lossy = true
	m.members = append(m.members, c)
	m.after(0, c.pump)
}
