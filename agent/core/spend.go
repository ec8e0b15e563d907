package core

import (
	"slices"

	"github.com/gofrs/uuid/v5"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// spend is one item of the exact lane.
type spend struct {
	id     ID
	key    *Key
	cost   int64
	waiter *Waiter // nil once abandoned
	group  *Group  // whose item it is, with others beside it; nil once answered

	settles *reservation // the actual of; nil once answered
}

// maxSpends is how many items one Spend carries at most. While one is in flight the others
// gather, so that the ledger commits them together.
const maxSpends = 256

// queueSpend puts a caller in line for the exact lane.
func (c *Core) queueSpend(now Instant, w *Waiter) {
	s := &spend{id: c.newID(now), key: w.key, cost: w.Cost, waiter: w}
	w.spend, w.exact = s, true
	w.key.some().spends++
	c.spends = append(c.spends, s)
}

// abandon leaves an item without a caller. If it may have reached the ledger it is taken
// back: nobody was told that it was spent.
func (c *Core) abandon(s *spend) {
	if s.waiter != nil {
		s.waiter.spend = nil
	}
	s.waiter, s.group, s.settles = nil, nil, nil
	s.key.spends--
	if i := slices.Index(c.spends, s); i >= 0 {
		c.spends = slices.Delete(c.spends, i, i+1)
		return
	}
	c.takeBack(s.id, s.key)
}

// SpendWaiting reports that BuildSpend has something to send.
func (c *Core) SpendWaiting(now Instant) bool {
	return !c.spendOut && now >= c.retryAt && (len(c.spends) > 0 || len(c.refunds) > 0)
}

// BuildSpend returns the next request of the exact lane, or nil. validFor bounds how long an
// item may take to reach the ledger: an older one is void there.
func (c *Core) BuildSpend(now Instant, validFor Instant) *pb.SpendRequest {
	if !c.SpendWaiting(now) {
		return nil
	}
	c.spendOut = true
	n := min(len(c.spends), maxSpends)
	for n > 0 && n < len(c.spends) && c.spends[n].group != nil && c.spends[n].group == c.spends[n-1].group {
		n++ // a group goes whole
	}
	c.spending = slices.Clone(c.spends[:n])
	c.spends = slices.Clone(c.spends[n:])
	c.refunded = min(len(c.refunds), maxAsks)
	notAfter := c.LedgerTime(now + validFor).UnixMicro()
	req := &pb.SpendRequest{Hello: c.hello(), Refunds: c.refunds[:c.refunded]}
	var group int32
	for i, s := range c.spending {
		item := &pb.SpendItem{SpendId: s.id.Bytes(), Key: wireKey(s.key.ID()), Cost: s.cost, NotAfterUs: notAfter}
		if s.group != nil {
			if i == 0 || c.spending[i-1].group != s.group {
				group++
			}
			item.Group = group
		}
		req.Items = append(req.Items, item)
	}
	return req
}

// SpendDone takes in what came of the Spend in flight: a reply, or nil after an error, whose
// outcome is unknown: the callers are told of an outage and the items are taken back.
func (c *Core) SpendDone(now Instant, sent Instant, reply *pb.SpendReply) {
	items, refunded := c.spending, c.refunded
	c.spending, c.refunded, c.spendOut = nil, 0, false
	if reply == nil {
		c.failed(now, sent)
		for _, s := range items {
			switch w := s.waiter; {
			case w != nil:
				c.abandon(s)
				c.finish(now, w, c.without(now, s.key, w))
			case s.settles != nil:
				c.abandon(s) // what it was to replace stays charged
			}
		}
		c.loseGroups(now, items)
		return
	}
	c.answered(now, sent, reply.GetLedgerNowUs())
	c.failures, c.retryAt = 0, 0
	c.refunds = slices.Clone(c.refunds[refunded:])
	for _, st := range reply.GetKeys() {
		c.learn(now, st)
	}
	for i, d := range reply.GetDecisions() {
		switch {
		case i >= len(items) || items[i].id != uuid.FromBytesOrNil(d.GetGrantId()):
		case items[i].waiter != nil:
			c.answerSpend(now, items[i], d)
		case items[i].settles != nil:
			c.settledSpend(items[i], d)
		}
	}
	c.answerGroups(now, items, reply.GetDecisions())
}

// spent is how a cost passed the exact lane.
type spent struct {
	id     ID
	window *pb.Window
}

// answerSpend answers one caller of the exact lane.
func (c *Core) answerSpend(now Instant, s *spend, d *pb.Decision) {
	w, k := s.waiter, s.key
	s.waiter, w.spend = nil, nil
	k.spends--
	t := k.answer(now, k.released(now))
	switch reason := quota.Reason(d.GetReason()); {
	case d.GetFault() != nil:
		c.refused(now, k, d.GetFault())
		if again := k.Take(now, w.Cost); again.Allowed || again.Denied {
			c.finish(now, w, Outcome{Taken: again})
			c.tend(now, k)
			return
		}
		c.finish(now, w, Outcome{Taken: t, Unavailable: true})
	case d.GetAmount() > 0:
		c.exact[quota.BaseDimension(k.Dimension())] += s.cost
		t.Allowed = true
		c.finish(now, w, Outcome{Taken: t, spent: &spent{id: s.id, window: d.GetWindow()}})
	case reason == quota.LeasedOut && !w.again && c.leasable(now, k, w.Cost):
		w.again = true
		c.deny(now, k, s.cost, reason, d)
		k.line(w)
		c.tend(now, k)
	case reason == quota.LeasedOut && !w.again && (k.newest(now) != nil || len(k.closing) > 0 || k.ask != nil):
		c.parkSpend(now, k, w)
	case reason == quota.Exhausted || reason == quota.LeasedOut || reason == quota.TooLarge:
		c.deny(now, k, s.cost, reason, d)
		t.Denied, t.Reason, t.Largest = true, reason, largestFor(reason, t.Limit)
		if k.denial.Load().covers(now, s.cost) {
			t = k.takeNow(now, s.cost)
			if t.Allowed { // a lease came meanwhile: it is the caller's
				c.finish(now, w, Outcome{Taken: t})
				c.tend(now, k)
				return
			}
		}
		c.finish(now, w, Outcome{Taken: t})
	default:
		c.finish(now, w, Outcome{Taken: t, Unavailable: true})
	}
}

// leasable reports that a lease serves cost as well as the exact lane would, and that what is in hand
// would not, if it were one piece. Who was sent to that lane because the line was long gets back in
// it: leases that go back for one caller would leave all others without.
func (c *Core) leasable(now Instant, k *Key, cost int64) bool {
	v := k.view()
	return v != nil && cost <= v.leaseCap && k.left(now) < cost && !c.inLane(now, k)
}

// largestFor is what too_large says of the largest cost that can pass.
func largestFor(reason quota.Reason, limit int64) int64 {
	if reason != quota.TooLarge {
		return 0
	}
	return max(limit, 0)
}

// parkSpend answers "the units are out in leases" when some of them are in this very agent's
// hands: they go back first, also what an ask in flight may bring, then the caller's spend is
// tried once more.
func (c *Core) parkSpend(now Instant, k *Key, w *Waiter) {
	w.again = true
	k.some().parked = append(k.parked, w)
	for _, l := range k.held() {
		if l.begun {
			c.retire(k, l)
		}
	}
	c.speak(now, k)
}

// unpark sends parked callers on once the ledger has the leases back.
func (c *Core) unpark(now Instant, k *Key) {
	if len(k.parked) == 0 || len(k.closing) > 0 || k.ask != nil {
		return
	}
	parked := k.parked
	k.parked = nil
	for _, w := range parked {
		if w.group != nil {
			c.toLane(now, w)
			continue
		}
		c.queueSpend(now, w)
	}
}
