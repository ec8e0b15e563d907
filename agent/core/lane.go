package core

import "github.com/quotalease/quotalease/ledger/quota"

// The exact lane serves what leases cannot: a cost above L alone, and a key as a whole when the
// ledger finds exposure too tight for a lease, or when L is below the smallest lease that would
// save anything, one that covers a usual cost. Agents come and go, and L with them, so a key
// returns to leases with hysteresis: not before about a ttl, and not while L is just enough
// again, unless it has been that for a ttl (3.5).
type lane struct {
	on    bool
	least Instant // not left before
	above Instant // since when L covers a usual cost; never: it does not
	turns int     // how often the key went there
}

// inLane reports that a key is served by the exact lane.
func (c *Core) inLane(now Instant, k *Key) bool {
	dim := k.dim()
	if dim.Class == quota.Exact {
		return true
	}
	l := &k.lane
	if !l.on || now < l.least {
		return l.on
	}
	ample := l.above != never && now-l.above >= dim.TTL
	if v := k.view(); v == nil || v.leaseCap/2 >= k.useful() {
		ample = true
	}
	l.on = !ample
	return l.on
}

// exactLane reports that a cost is to be spent one by one, not from a lease.
func (c *Core) exactLane(now Instant, k *Key, cost int64) bool {
	v := k.view()
	switch {
	case v == nil || v.leaseCap < 0:
	case cost > v.leaseCap:
		return true
	default:
		k.noteCost(cost)
	}
	return c.inLane(now, k)
}

// useful is the smallest lease that would save anything.
func (k *Key) useful() int64 { return max(1, int64(k.typical)) }

// noteCost learns what a key's callers usually spend. A cost above L never was a lease's matter.
func (k *Key) noteCost(cost int64) {
	if k.typical == 0 {
		k.typical = float64(cost)
	}
	k.typical += (float64(cost) - k.typical) / 4
}

// enterLane sends a key to the exact lane for about a ttl at least.
func (c *Core) enterLane(now Instant, k *Key) {
	l := &k.some().lane
	if !l.on {
		l.turns++
		l.above = now
	}
	l.on, l.least = true, now+c.Jitter(k.dim().TTL)
}

// hearCap takes in what L is now.
func (c *Core) hearCap(now Instant, k *Key, leaseCap int64) {
	switch {
	case leaseCap < k.useful():
		if !c.inLane(now, k) {
			c.enterLane(now, k)
		}
		k.some().lane.above = never
	case k.lane.above == never:
		k.lane.above = now
	}
}

// lineToLane sends a key's waiting callers to the exact lane.
func (c *Core) lineToLane(now Instant, k *Key) {
	waiters := k.some().waiters
	k.waiters = nil
	for _, w := range waiters {
		switch {
		case w.Cost == 0:
			k.line(w)
		case w.group != nil:
			c.toLane(now, w)
		default:
			c.queueSpend(now, w)
		}
	}
}
