package core

import (
	"cmp"
	"slices"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// An agent that replaces another knows which keys were hot there. It asks for leases of them
// before anyone calls, so that those who are sent to it need not wait. Slots are not asked for
// ahead: idle ones would be missing where work could begin.

// WarmFor is the most that an agent is warming, from when it knows its policy.
const WarmFor = 5 * time.Second

// warming is the keys whose leases are asked for although nobody waits, and that have no answer
// yet.
type warming struct {
	keys  []quota.Key
	until Instant // 0: no policy is known yet
}

// Hot lists the keys that are spent fastest, the hottest first, n at most.
func (c *Core) Hot(now Instant, n int) []quota.Key {
	type heat struct {
		id   quota.Key
		rate float64
	}
	hotter := func(x, y heat) int {
		return cmp.Or(cmp.Compare(y.rate, x.rate), cmp.Compare(x.id.Dimension, y.id.Dimension), cmp.Compare(x.id.Tenant, y.id.Tenant))
	}
	var hot []heat
	for k := range c.each {
		if k.slots != nil || !k.usedLately(now) {
			continue
		}
		demand := k.demand // a copy: to look changes nothing
		demand.sample(now, k.total(), k.dim().TTL)
		if demand.perSecond() <= 0 {
			continue
		}
		hot = append(hot, heat{k.ID(), demand.perSecond()})
		if len(hot) == 2*n { // so that of a million keys only a few are ever sorted
			slices.SortFunc(hot, hotter)
			hot = hot[:n]
		}
	}
	slices.SortFunc(hot, hotter)
	ids := make([]quota.Key, 0, n)
	for _, h := range hot[:min(n, len(hot))] {
		ids = append(ids, h.id)
	}
	return ids
}

// Warm asks for leases of keys that were hot before this start. It is called once, before the
// first Sync.
func (c *Core) Warm(now Instant, ids []quota.Key) {
	c.warming.keys = slices.Clone(ids)
	c.warmUp(now)
}

// Warming is how many of these keys have no lease yet, and no answer that explains why not.
func (c *Core) Warming(now Instant) int {
	if w := c.warming; w.until == 0 || now < w.until {
		return len(w.keys)
	}
	return 0
}

// warmUp asks for the leases that are missing and not asked for.
func (c *Core) warmUp(now Instant) {
	w := &c.warming
	switch {
	case len(w.keys) == 0 || c.dims == nil:
		return
	case w.until == 0:
		w.until = now + WarmFor
	case now >= w.until || c.stopping:
		w.keys = nil
	}
	w.keys = slices.DeleteFunc(w.keys, func(id quota.Key) bool { return !c.asksToWarm(now, id) })
}

// asksToWarm sees to it that there is an ask for a lease, unless there is no point in one.
func (c *Core) asksToWarm(now Instant, id quota.Key) bool {
	dim := c.dimension(id.Dimension)
	if dim == nil || dim.Kind == quota.Concurrency || dim.Class == quota.Exact {
		return false
	}
	k := c.Table.Find(id)
	if k == nil {
		if k = c.admit(now, id, dim); k == nil {
			return false
		}
		// One that nobody comes for is let go with its lease, and no other is asked for.
		k.lastUse = now - dim.TTL/2
	}
	switch {
	case k.slots != nil || k.newest(now) != nil || k.denies(now, 1) != nil || c.inLane(now, k):
		return false
	case k.ask == nil:
		k.some().ask = &ask{id: c.newID(now), need: 1, want: c.want(now, k, 1, 0)}
		c.mark(k)
	}
	return true
}

// warmed notes that a key has its answer.
func (c *Core) warmed(k *Key) {
	c.warming.keys = slices.DeleteFunc(c.warming.keys, func(id quota.Key) bool { return id == k.ID() })
}
