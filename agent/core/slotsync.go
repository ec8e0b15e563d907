package core

import (
	"slices"

	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// sentSlots is what a Sync said of a lease of slots, as a report or as a renewal.
type sentSlots struct {
	key   *Key
	lease *slotLease
	said  slotUse
	seq   int64
	sent  Instant
	final bool
}

// addSlots puts what there is to say of a key's slots into the request. A message that is lost
// is not repeated: the next one has a sequence of its own, says how things stand then, and
// counts from its own sending.
func (s *syncInFlight) addSlots(now Instant, k *Key) {
	for _, l := range k.slots.all() {
		if len(s.request.Reports) >= maxReports || len(s.request.Renewals) >= maxAsks {
			return
		}
		renews := l.renewable() && now >= l.renewAt
		if !renews && l.use() == l.known && !l.over() || l.amount == 0 && l.use() == l.known {
			continue
		}
		l.seq++
		said := sentSlots{key: k, lease: l, said: l.use(), seq: l.seq, sent: now, final: l.amount > 0 && l.over()}
		if renews {
			s.renewals = append(s.renewals, said)
			s.request.Renewals = append(s.request.Renewals, &pb.Renewal{
				GrantId: l.id.Bytes(), Key: wireKey(k.ID()), Seq: l.seq, InUse: l.inUse, Returned: l.back,
			})
			continue
		}
		if l.amount == 0 {
			said.said.inUse = min(l.inUse, l.known.inUse+l.most(k))
		}
		s.reports = append(s.reports, sentReport{key: k, slots: &said})
		s.request.Reports = append(s.request.Reports, &pb.Report{
			GrantId: l.id.Bytes(), Key: wireKey(k.ID()), Window: &pb.Window{}, Seq: l.seq, InUse: said.said.inUse,
			Returned: l.back, Final: said.final, Unleased: l.amount == 0,
		})
	}
}

// most is what a report of use without a lease may rise by at once (3.13).
func (l *slotLease) most(k *Key) int64 {
	u := unleased{step: l.step}
	return u.most(k)
}

// slotsHeard takes in the ledger's answer to a report on slots.
func (c *Core) slotsHeard(r sentReport, result *pb.ReportResult) {
	x, k := r.slots, r.key
	l := x.lease
	if f := result.GetFault(); f != nil {
		c.faults[f.GetCode()]++
		if step := x.said.inUse - l.known.inUse; l.amount == 0 && f.GetCode() == "report_step" && step > 1 {
			l.step = step / 2
			return
		}
		k.slots.drop(l) // to repeat what the ledger refuses would never end
		return
	}
	l.known = x.said
	switch {
	case x.final:
		k.slots.drop(l)
	case l.amount == 0:
	case result.GetState() != pb.GrantState_GRANT_STATE_LIVE:
		l.retire()
		l.closed = true
	case result.GetRevoked():
		l.retire()
	}
}

// slotsRenewed takes in the ledger's answer to a renewal. What is in use it always keeps; if it
// leaves no more than that, nothing new starts on the lease.
func (c *Core) slotsRenewed(x sentSlots, d *pb.Decision) {
	l := x.lease
	if f := d.GetFault(); f != nil {
		c.faults[f.GetCode()]++
		l.retire()
		l.closed = true
		return
	}
	if d.GetSeq() != x.seq {
		// Another answer than the one to this, or one that a later message overtook: it has
		// prolonged nothing. The next renewal is sent at once, and is later than both.
		l.seq = max(l.seq, d.GetSeq())
		return
	}
	l.known = x.said
	switch {
	case d.GetState() != pb.GrantState_GRANT_STATE_LIVE:
		l.retire()
		l.closed = true
		return
	case d.GetRevoked(), d.GetAmount() == 0:
		l.retire()
	}
	// What remains is less than the ttl where a copy of this agent said the same before it did.
	ttl := min(micros(d.GetTtlUs()), micros(d.GetRemainingUs()))
	if d.GetAmount() > 0 { // else a copy of this agent gave it all back, and nothing was prolonged
		l.deadline = max(l.deadline, x.sent+ttl)
	}
	l.renewAt = x.sent + c.drawRenewal(ttl)
}

// drop forgets a lease whose last word was said. Work that still runs on it is nobody's any more.
func (s *slotSet) drop(l *slotLease) {
	s.leases = slices.DeleteFunc(slices.Clone(s.leases), func(o *slotLease) bool { return o == l })
	if s.unleased == l {
		s.unleased = nil
	}
}

// installSlots puts a granted lease of slots to use. It ends a ttl after its ask was first
// sent, and lives on by its renewals.
func (c *Core) installSlots(now Instant, k *Key, a *ask, d *pb.Decision) {
	ttl := micros(d.GetTtlUs())
	l := &slotLease{id: a.id, amount: d.GetAmount(), deadline: a.firstSent + ttl, renewAt: a.firstSent + c.drawRenewal(ttl)}
	l.known.inUse = a.need // to the ledger it is in use from the grant on
	k.slots.leases = append(k.slots.leases, l)
	l.closed = d.GetState() != pb.GrantState_GRANT_STATE_LIVE
	if l.closed || d.GetRevoked() || l.deadline-now < c.rtt || c.stopping {
		l.retire()
		k.some().nextAsk = now + c.Jitter(2*c.rtt)
		return
	}
	if was := k.denial.Load(); was != nil && !was.drained {
		k.denial.Store(nil)
	}
	k.soon()
	if d.GetLast() {
		c.drain(now, k, d.GetWindow(), d.GetGeneration())
	}
}

// shareSlots gives back what is idle while others are in need. For a while what falls idle
// follows at once.
func (c *Core) shareSlots(now Instant, k *Key) { k.some().modest = now + k.dim().TTL/8 }

// loseSlots is reincarnate's part for slots: the leases are the original's, and what runs here
// runs without one.
func (c *Core) loseSlots(now Instant, k *Key) {
	running := k.slots.running()
	*k.slots = slotSet{started: k.slots.started}
	if running == 0 {
		return
	}
	k.slots.unleased = &slotLease{id: c.newID(now), inUse: running, retired: true, closed: true}
	for _, p := range c.permitHeap {
		for i := range p.holds {
			if p.holds[i].key == k {
				p.holds[i].lease = k.slots.unleased
			}
		}
	}
}

// unbegun makes the callers who have slots while the rest of what they take is spent start anew:
// no work of theirs runs yet, and the slots are the original's. So is what was spent for them,
// under ids that both of them know: it is not taken back.
func (c *Core) unbegun() (groups []*Group) {
	for _, s := range slices.Concat(c.spends, c.spending) {
		if g := s.group; g != nil && g.holdsSlots() {
			groups = append(groups, g)
			g.letGo(c)
		}
	}
	return groups
}

// end retires every lease of a key that policy no longer knows.
func (s *slotSet) end() {
	for _, l := range s.leases {
		l.retire()
	}
}
