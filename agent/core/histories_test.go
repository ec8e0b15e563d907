package core

import (
	"container/heap"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"google.golang.org/protobuf/proto"

	"github.com/quotalease/quotalease/controlplane"
	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/memory"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// Random histories: real cores against the real control plane over the ledger in memory, with
// a hostile network between them, in virtual time and from one seed. What callers were allowed
// is counted beside it and compared with the books after every event.

const (
	historyBusy = 14 * time.Second // faults and callers
	historyCalm = 9 * time.Second  // then neither: everything must come to rest
)

// The minute ends in the middle of the busy part.
var historyEpoch = time.Date(2026, 11, 29, 12, 0, 52, 0, time.UTC)

const historyPolicy = `
dimensions:
  - {name: hard, kind: period, limit: %d, period: {every: minute}, class: hard, overshoot: 40%%, lease: {ttl: 2s, grace: 500ms}}
  - {name: bounded, kind: period, limit: %d, period: {every: minute}, class: bounded, overshoot: 30%%, lease: {ttl: 2s, grace: 500ms}, cold: {wait: 10ms, then: debt, units: 2}}
  - {name: best, kind: period, limit: %d, period: {every: minute}, class: best_effort, overshoot: 50%%, lease: {ttl: 2s, grace: 500ms}, outage: {mode: open, after: 1s, for: 1h}}
  - {name: exact, kind: period, limit: %d, period: {every: minute}, class: exact}
`

var historyDimensions = []string{"hard", "bounded", "best", "exact"}

// historyLimits are the policies that a history moves between; it starts with the first.
var historyLimits = [][]any{
	{30, 40, 40, 12}, {12, 10, 60, 20}, {50, 70, 20, 5}, {20, 25, 10, 0}, {0, 40, 30, 30}, {100, 90, 80, 70}, {31, 41, 41, 13},
}

// truth is what callers were really allowed in one account.
type truth struct {
	leased int64 // from leases and by the exact lane
	open   int64 // without a lease: outage mode open, and cold debts
	slack  int64 // what copies of an agent could spend twice
}

type history struct {
	rng    *rand.Rand
	now    time.Duration
	events eventQueue
	serial int

	docs  []*policy.Document
	store *memory.Store
	log   *policy.MemoryLog
	cp    *controlplane.ControlPlane
	cut   bool // the control plane cannot be reached
	calm  bool

	members []*member
	truths  map[ledger.AccountID]*truth
	expires map[ID]time.Time // of every lease decided, by the ledger's clock
	bare    map[ID]int64     // unleased use the ledger took in, by id
	bareIn  map[ID]ledger.AccountID
	spentIn map[ID]quota.Window // of approved spends
	journal int64               // events turned into notices
	lossy   bool                // an agent was lost or copied: sums may only be bounded
	fault   string              // the first promise broken
	callers []*caller           // all there ever were
	did     map[string]int      // how often something happened: no history is idle talk
}

// member is one agent.
type member struct {
	*history
	core     *Core
	offset   Instant       // of its clock
	wakes    time.Duration // it sleeps until then
	dead     bool
	syncing  bool
	spending bool
	pumpAt   time.Duration
	taken    map[*Lease]int64
	syncs    int
	decided  map[*Waiter]quota.Window // the window of an approved spend, while its reply is taken in

	decidedPart map[*part]quota.Window // the same of a group's
	asked       map[string]*pb.Ask     // in flight, by dimension and window
}

type caller struct {
	w       *Waiter
	answers int
	gone    bool // it left before
}

func newHistory(seed uint64, docs []*policy.Document) (*history, error) {
	h := &history{
		rng: rand.New(rand.NewPCG(seed, 7)), docs: docs, did: map[string]int{},
		truths: map[ledger.AccountID]*truth{}, expires: map[ID]time.Time{}, bare: map[ID]int64{},
		bareIn: map[ID]ledger.AccountID{}, spentIn: map[ID]quota.Window{},
	}
	h.store, h.log = memory.New(h.ledgerNow), policy.NewMemoryLog(h.ledgerNow)
	if err := h.apply(docs[0]); err != nil {
		return nil, err
	}
	cfg := controlplane.DefaultConfig()
	cfg.Store, cfg.Reader, cfg.Keeper, cfg.Policies = h.store, h.store, h.store, h.log
	cfg.Now, cfg.Random = h.ledgerNow, seeded(seed)
	var err error
	if h.cp, err = controlplane.New(cfg); err != nil {
		return nil, err
	}
	if err := h.cp.Refresh(context.Background()); err != nil {
		return nil, err
	}
	for range 2 + h.rng.IntN(2) {
		h.join(seeded(h.rng.Uint64()))
	}
	return h, nil
}

func (h *history) ledgerNow() time.Time { return historyEpoch.Add(h.now) }

func readHistoryPolicies(t *testing.T) (docs []*policy.Document) {
	t.Helper()
	for _, limits := range historyLimits {
		doc, err := policy.Parse([]policy.File{{Name: "p.yaml", Text: fmt.Appendf(nil, historyPolicy, limits...)}}, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, doc)
	}
	return docs
}

func (h *history) apply(doc *policy.Document) error {
	version, _, err := policy.Apply(context.Background(), h.log, doc, policy.SourceCLI, "tester", "history")
	if err == nil {
		h.store.SetPolicyVersion(version)
	}
	return err
}

func (h *history) join(seed io.Reader) {
	m := &member{history: h, offset: time.Duration(h.rng.Int64N(int64(time.Hour))), taken: map[*Lease]int64{}, asked: map[string]*pb.Ask{}, pumpAt: -1}
	m.core = New(Config{Name: "a", Region: "eu", Random: seed, Wall: h.ledgerNow().Add(time.Duration(h.rng.IntN(3)-1) * time.Minute), Start: m.clock()})
	h.members = append(h.members, m)
	h.after(0, m.pump)
}

func (h *history) after(d time.Duration, do func()) {
	h.serial++
	heap.Push(&h.events, event{h.now + d, h.serial, do})
}

func (h *history) broken(format string, args ...any) {
	if h.fault == "" {
		h.fault = fmt.Sprintf("at %s: ", h.now) + fmt.Sprintf(format, args...)
	}
}

// runUntil lets everything happen that is due by then.
func (h *history) runUntil(end time.Duration) {
	for len(h.events) > 0 && h.events[0].at <= end && h.fault == "" {
		e := heap.Pop(&h.events).(event)
		h.now = max(h.now, e.at)
		e.do()
	}
	h.now = end
}

func (m *member) clock() Instant { return m.now + m.offset }
func (m *member) awake() bool    { return !m.dead && m.now >= m.wakes }

// pump is the agent's loops: time passes, and what is due is sent.
func (m *member) pump() {
	if m.dead {
		return
	}
	if !m.awake() {
		m.after(m.wakes-m.now+m.late(), m.pump)
		return
	}
	m.core.Tick(m.clock())
	if !m.syncing {
		if req := m.core.BuildSync(m.clock()); req != nil {
			m.syncs++
			m.sendSync(req)
		}
	}
	if !m.spending {
		if req := m.core.BuildSpend(m.clock(), time.Second); req != nil {
			m.sendSpend(req)
		}
	}
	m.observe()
	next := m.core.NextSync()
	if at, ok := m.core.NextTick(); ok {
		next = min(next, at)
	}
	if at := max(next-m.offset, m.now+time.Millisecond) + m.late(); m.pumpAt <= m.now || at < m.pumpAt {
		m.pumpAt = at
		m.after(at-m.now, m.pump)
	}
}

// deliver runs do at the agent once it is awake, and lets the agent act on it.
func (m *member) deliver(d time.Duration, do func()) {
	m.after(d, func() {
		switch {
		case m.dead:
		case !m.awake():
			m.deliver(m.wakes-m.now+m.late(), do)
		default:
			do()
			m.observe()
			m.pump()
		}
	})
}

// delay is a way through the network; false is a message lost.
func (h *history) delay() (time.Duration, bool) {
	d := time.Duration(1+h.rng.IntN(8)) * time.Millisecond
	if h.calm {
		return d, true
	}
	switch h.rng.IntN(25) {
	case 0:
		return 0, false
	case 2:
		d += time.Duration(h.rng.IntN(4000)) * time.Millisecond
	case 3:
		d += time.Duration(h.rng.IntN(300)) * time.Millisecond
	}
	return d, true
}

// exchange carries a request there (perhaps twice, perhaps not at all) and one answer back. done
// is called once, with nil after a timeout.
func (m *member) exchange(answer func() (proto.Message, error), done func(proto.Message)) {
	over := false
	finish := func(reply proto.Message) {
		if !over {
			over = true
			done(reply)
		}
	}
	copies := 1
	if !m.calm && m.rng.IntN(8) == 0 {
		copies = 2
	}
	for range copies {
		there, ok := m.delay()
		if !ok {
			continue
		}
		m.after(there, func() {
			if m.cut {
				if m.rng.IntN(2) == 0 {
					m.deliver(time.Millisecond, func() { finish(nil) })
				}
				return
			}
			reply, err := answer()
			m.check()
			if back, ok := m.delay(); ok && err == nil {
				m.deliver(back, func() { finish(reply) })
			} else if err != nil {
				m.deliver(back, func() { finish(nil) })
			}
		})
	}
	m.deliver(700*time.Millisecond, func() { finish(nil) })
}

func (m *member) sendSync(req *pb.SyncRequest) {
	m.syncing = true
	sent := proto.CloneOf(req)
	m.asksOnce(sent)
	m.exchange(func() (proto.Message, error) {
		reply, err := m.cp.Desk().Sync(context.Background(), proto.CloneOf(sent))
		m.note(reply)
		for i, r := range sent.GetReports() {
			if id := uuid.FromBytesOrNil(r.GetGrantId()); r.GetUnleased() && err == nil && reply.GetResults()[i].GetFault() == nil {
				m.bare[id] = max(m.bare[id], r.GetTaken())
				key := quota.Key{Tenant: r.GetKey().GetTenant(), Dimension: r.GetKey().GetDimension()}
				m.bareIn[id] = ledger.AccountID{Key: key, Window: windowOf(r.GetWindow())}
			}
		}
		return reply, err
	}, func(reply proto.Message) {
		m.syncing = false
		got, _ := reply.(*pb.SyncReply)
		if got.GetNewIncarnation() {
			m.did["reincarnate"]++
			clear(m.asked)
		}
		for _, d := range got.GetDecisions() {
			m.answeredAsk(d.GetGrantId())
		}
		m.core.SyncDone(m.clock(), got)
	})
}

func (m *member) sendSpend(req *pb.SpendRequest) {
	m.spending = true
	sent, at := proto.CloneOf(req), m.clock()
	m.exchange(func() (proto.Message, error) {
		reply, err := m.cp.Desk().Spend(context.Background(), proto.CloneOf(sent))
		for _, d := range reply.GetDecisions() {
			if d.GetAmount() > 0 {
				m.spentIn[uuid.FromBytesOrNil(d.GetGrantId())] = windowOf(d.GetWindow())
			}
		}
		return reply, err
	}, func(reply proto.Message) {
		m.spending = false
		got, _ := reply.(*pb.SpendReply)
		m.decided = map[*Waiter]quota.Window{}
		for i, s := range m.core.spending {
			if s.waiter != nil && i < len(got.GetDecisions()) && got.GetDecisions()[i].GetAmount() > 0 {
				m.decided[s.waiter] = m.spentIn[s.id]
			}
		}
		m.noteParts(got)
		m.core.SpendDone(m.clock(), at, got)
		m.decided, m.decidedPart = nil, nil
	})
}

// note takes down what the ledger decided. What an agent says is never refused, but for steps
// that only the ledger can know the size of.
func (h *history) note(reply *pb.SyncReply) {
	for _, d := range reply.GetDecisions() {
		if d.GetAmount() > 0 {
			h.expires[uuid.FromBytesOrNil(d.GetGrantId())] = time.UnixMicro(d.GetExpiresAtUs())
		}
		if code := d.GetFault().GetCode(); code != "" && !h.lossy {
			h.broken("an ask is refused: %s", d.GetFault())
		}
	}
	for _, r := range reply.GetResults() {
		if code := r.GetFault().GetCode(); code != "" && code != "report_step" && !h.lossy {
			h.broken("a report is refused: %s", r.GetFault())
		}
	}
}

func windowOf(w *pb.Window) quota.Window {
	return quota.NewWindow(time.UnixMicro(w.GetStartUs()), time.UnixMicro(w.GetEndUs()))
}

// observe notices what was spent from leases since the last event: never after a deadline.
func (m *member) observe() {
	for _, k := range m.core.keys {
		for _, list := range [][]*Lease{k.held(), k.closing} {
			for _, l := range list {
				if n, was := l.taken(), m.taken[l]; n != was {
					if m.taken[l] = n; n < was {
						continue // put back, or refunded
					}
					if !m.ledgerNow().Before(m.expires[l.id]) {
						m.broken("a lease was spent at %s, it ended at %s", m.ledgerNow(), m.expires[l.id])
					}
					if !windowOf(l.window).Contains(m.ledgerNow()) {
						m.broken("a lease of %s was spent at %s", windowOf(l.window), m.ledgerNow())
					}
				}
			}
		}
	}
}
