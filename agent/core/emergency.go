package core

import (
	"slices"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// Outage mode extend goes on from an allowance that the ledger authorised beforehand, while
// there was contact: one for this window and one for the next (DESIGN 6). An agent that has
// none, because it has just started or came too late for the pot, does as mode closed says. It
// spends at its share of the rate that policy gives all agents together, and its share is that
// of the pot that it was given: alone with a hundredth of the pot, it goes on at a hundredth of
// the rate.

// extension is what an agent has of a key for outages.
type extension struct {
	leases []*Lease
	asks   []*ask  // on their way
	asked  []int64 // starts of the windows that were asked for
	nextAt Instant // not before, for the next window: by then N is known
	paced  Instant // what was spent is covered by the rate up to then
}

// burstOf is how much may be spent at once, as the time in which it comes in at the rate.
const burstOf = time.Second

// empty reports that nothing is held and nothing is on its way.
func (e *extension) empty() bool { return e == nil || len(e.leases) == 0 && len(e.asks) == 0 }

func (k *Key) allowances() []*Lease {
	if k.extend == nil {
		return nil
	}
	return k.extend.leases
}

func (k *Key) allowanceAsks() []*ask {
	if k.extend == nil {
		return nil
	}
	return k.extend.asks
}

// considerAllowance asks for what a key in use may need in an outage, and gives back what it
// will not need any more. It returns when to look again.
func (c *Core) considerAllowance(now Instant, k *Key) Instant {
	dim := k.dim()
	wanted := dim.outage.extend && dim.Kind == quota.Period && !c.stopping
	if k.extend == nil {
		if !wanted || c.ledgerErr == unknownErr {
			return never
		}
		k.some().extend = &extension{}
	}
	e, again := k.extend, never
	used := k.usedLately(now) || c.Failing()
	for _, l := range slices.Clone(e.leases) {
		if now >= l.deadline() || !wanted || !used {
			c.end(now, k, l)
			continue
		}
		again = min(again, l.deadline())
	}
	present := c.window(now, k)
	for _, a := range slices.Clone(e.asks) {
		if !wanted || !used || a.window.GetEndUs() <= present.start {
			e.drop(a)
			c.withdraw(k, &a)
		}
	}
	if !wanted || !k.usedLately(now) {
		e.asked = slices.DeleteFunc(e.asked, func(start int64) bool { return !e.covers(start) })
		return again
	}
	e.asked = slices.DeleteFunc(e.asked, func(start int64) bool { return start < present.start })
	if !slices.Contains(e.asked, present.start) {
		e.nextAt = now + c.Jitter(dim.TTL/2)
		c.askAllowance(now, k, present)
		return min(again, e.nextAt)
	}
	w := dim.Calendar.Next(dim.Calendar.WindowAt(c.LedgerTime(now)))
	next := windowID{start: unixMicros(w.Start), end: unixMicros(w.End)}
	switch {
	case slices.Contains(e.asked, next.start):
		return min(again, c.instant(next.start))
	case now < e.nextAt:
		return min(again, e.nextAt)
	}
	c.askAllowance(now, k, next)
	return again
}

// askAllowance asks for a window's allowance, once. How many others there are the ledger knows.
func (c *Core) askAllowance(now Instant, k *Key, w windowID) {
	e := k.extend
	e.asked = append(e.asked, w.start)
	e.asks = append(e.asks, &ask{
		id: c.newID(now), window: &pb.Window{StartUs: w.start, EndUs: w.end}, need: 1,
		want: max(k.dim().outage.budget, 1), emergency: true,
	})
	c.mark(k)
}

// covers reports that a window's allowance is held or on its way.
func (e *extension) covers(start int64) bool {
	return slices.ContainsFunc(e.leases, func(l *Lease) bool { return l.window.GetStartUs() == start }) ||
		slices.ContainsFunc(e.asks, func(a *ask) bool { return a.window.GetStartUs() == start })
}

func (e *extension) drop(a *ask) {
	e.asks = slices.DeleteFunc(e.asks, func(o *ask) bool { return o == a })
}

// decidedAllowance takes in the answer to such an ask, if it is one.
func (c *Core) decidedAllowance(now Instant, k *Key, id ID, d *pb.Decision) bool {
	for _, a := range k.allowanceAsks() {
		if a.id != id {
			continue
		}
		k.extend.drop(a)
		if f := d.GetFault(); f != nil {
			c.faults[f.GetCode()]++
		}
		if d.GetAmount() < 1 {
			return true
		}
		l := &Lease{
			id: a.id, window: c.shared.window(d.GetWindow()), amount: d.GetAmount(), emergency: true, begun: true, life: c.life, rest: &leaseRest{},
		}
		l.until.Store(int64(a.firstSent + micros(d.GetTtlUs())))
		if wait := micros(d.GetStartsInUs()); wait > 0 {
			l.rest.start = now + wait + wait/maxDrift
		}
		l.bucket.left.Store(l.amount)
		k.extend.leases = append(k.extend.leases, l)
		if d.GetState() != pb.GrantState_GRANT_STATE_LIVE || d.GetRevoked() || c.stopping {
			c.end(now, k, l)
		}
		return true
	}
	return false
}

// extended is the allowance that a cost can be spent from at this moment, or nil and how long
// the pace takes, if that is what forbids it.
func (k *Key) extended(now Instant, cost int64) (*Lease, time.Duration) {
	for _, l := range k.allowances() {
		if !l.live(now) || l.left() < cost {
			continue
		}
		if ahead := k.extend.paced - burstOf - now; ahead > 0 {
			return nil, ahead
		}
		return l, 0
	}
	return nil, 0
}

// chargeExtended spends from an allowance what extended said could be.
func (c *Core) chargeExtended(now Instant, k *Key, cost int64) {
	l, _ := k.extended(now, cost)
	if l == nil {
		return
	}
	l.bucket.take(cost, 0)
	out := k.dim().outage
	k.extend.paced = max(k.extend.paced, now) + out.pace(cost, l.amount)
	c.extended[quota.BaseDimension(k.Dimension())] += cost
}

// pace is how long a cost takes at the rate of someone who was given amount of the budget.
func (o outage) pace(cost, amount int64) time.Duration {
	share := float64(min(amount, o.budget)) / float64(max(o.budget, 1))
	if o.rate <= 0 || share <= 0 {
		return longestPace
	}
	return time.Duration(min(float64(cost)/(o.rate*share)*float64(time.Second), float64(longestPace)))
}

// longestPace bounds the arithmetic: no outage is that long.
const longestPace = 365 * 24 * time.Hour

// spendExtended answers from an allowance, if there is one.
func (k *Key) spendExtended(now Instant, cost int64, t Taken) (Taken, bool) {
	l, wait := k.extended(now, cost)
	if l == nil {
		t.RetryIn = wait
		return t, false
	}
	t.Allowed, t.Reason, t.lease = true, quota.Extended, l
	return t, true
}

// lose lets go of an allowance that has ended.
func (e *extension) lose(l *Lease) {
	if e != nil {
		e.leases = slices.DeleteFunc(slices.Clone(e.leases), func(o *Lease) bool { return o == l })
	}
}
