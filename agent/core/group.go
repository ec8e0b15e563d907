package core

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Group is a caller who takes several keys, all or none (DESIGN 5). It names a tenant's
// dimensions, or an operation, which policy resolves, or keys of any tenants. Keys with leases come first, in one order; nothing is
// held while one of them is waited for. The exact lane comes last, in one Spend, and what was
// taken from leases is held until its answer comes.
type Group struct {
	Tenant    string
	Takes     []DimensionCost // costs of 1 or more
	Keys      []KeyCost       // of several tenants, costs of 1 or more; then there are no Takes
	Operation string
	Times     int64         // of the operation, 1 or more
	Permit    string        // of slots: the id by which they are given back
	Hold      time.Duration // of slots: a permit lapses so long after the last sign of life; 0: as policy says
	Wait      time.Duration // of slots: how long the caller is willing to wait in line
	Done      func(Outcome) // once, unless the caller leaves by GiveUpAll, which returns it
	Ended     func()        // once, when the permit's work has ended or lapsed; nil: nobody asks

	parts  []part
	outage *outage // the operation's; nil: each dimension's own
	waiter *Waiter // in line for the one key that is missing
	exact  bool    // something went to the exact lane
	again  bool    // and will not be parked a second time
	over   bool

	merged  []KeyCost // what it takes of each key
	permit  *permit   // that it was given; nil: none, or it was a repeat
	turn    *Key      // whose line it is the first of
	leaving bool      // its patience is over
}

// maxCost is the largest cost of one take, as at every door.
const maxCost = quota.MaxCost

// DimensionCost is what a group takes of one dimension.
type DimensionCost struct {
	Dimension string
	Cost      int64
}

// KeyCost is what a group takes of one key.
type KeyCost struct {
	Key  quota.Key
	Cost int64
}

// part is one key of a group.
type part struct {
	key   *Key
	cost  int64
	lease *Lease // which the units came from, while they are held
	taken Taken  // what the take from it answered
	lane  bool   // to be spent one by one
	spend *spend // in line or in flight
	spent ID     // the id it was spent under
	free  bool   // it passes without a lease, as reason says
	holds []hold // of a concurrency limit: the slots it has
}

// Exact reports that the group was sent to the exact lane.
func (g *Group) Exact() bool { return g.exact }

// Patience is the longest that policy lets a caller of the group wait for a lease.
func (g *Group) Patience() (wait Instant) {
	for _, p := range g.parts {
		wait = max(wait, p.key.dim().ColdWait)
	}
	return wait
}

// WantAll takes a group in. It may answer at once.
func (c *Core) WantAll(now Instant, g *Group) {
	switch {
	case c.stopping || c.dims == nil && c.Failing():
		c.finishAll(now, g, Outcome{Unavailable: true})
		return
	case c.dims == nil:
		c.earlyGroups = append(c.earlyGroups, g)
		return
	}
	takes, bad := c.resolve(g)
	if bad != nil {
		c.finishAll(now, g, Outcome{Bad: bad})
		return
	}
	if g.Permit != "" {
		if o, answered := c.repeatPermit(now, g, takes); answered {
			c.answerAll(g, o)
			return
		}
	}
	g.merged = takes
	for _, t := range takes {
		dim := c.dimension(t.Key.Dimension)
		k := c.admit(now, t.Key, dim)
		if k == nil || (k.slots != nil) != (dim.Kind == quota.Concurrency) {
			c.finishAll(now, g, Outcome{Unavailable: true})
			return
		}
		k.some().busy++
		g.parts = append(g.parts, part{key: k, cost: t.Cost})
	}
	c.attempt(now, g, false)
}

// resolve returns what a group takes, sorted, each key once.
func (c *Core) resolve(g *Group) ([]KeyCost, *quota.FieldError) {
	takes := g.Takes
	if g.Operation != "" {
		op := c.Operation(g.Operation)
		if op == nil {
			return nil, &quota.FieldError{Field: "operation", Allowed: "one that policy defines"}
		}
		takes, g.outage = op.Takes, op.outage
	}
	keys := make([]KeyCost, 0, len(takes)+len(g.Keys))
	for _, t := range takes {
		keys = append(keys, KeyCost{quota.Key{Tenant: g.Tenant, Dimension: t.Dimension}, t.Cost})
	}
	merged := keys[:0]
	for _, t := range append(keys, g.Keys...) {
		if c.dimension(t.Key.Dimension) == nil {
			return nil, c.unknownDimension()
		}
		cost := t.Cost
		if g.Operation != "" {
			if cost > maxCost/max(g.Times, 1) {
				return nil, &quota.FieldError{Field: "times", Allowed: fmt.Sprintf("such that no cost is above %d", maxCost)}
			}
			cost *= g.Times
		}
		i := slices.IndexFunc(merged, func(o KeyCost) bool { return o.Key == t.Key })
		if i < 0 {
			merged = append(merged, KeyCost{t.Key, cost})
		} else {
			merged[i].Cost += min(cost, math.MaxInt64-merged[i].Cost)
		}
	}
	slices.SortFunc(merged, CompareKeyCosts)
	return merged, c.checkSlots(g, merged)
}

// CompareKeyCosts is the one order in which the keys of a group are taken.
func CompareKeyCosts(x, y KeyCost) int {
	return cmp.Or(cmp.Compare(x.Key.Dimension, y.Key.Dimension), cmp.Compare(x.Key.Tenant, y.Key.Tenant))
}

// attempt tries a group, and answers it or puts it in line. The last time there is no more
// waiting: what is missing is as policy says.
func (c *Core) attempt(now Instant, g *Group, last bool) {
	if g.over {
		return
	}
	if o, done := c.try(now, g, last || c.Failing()); done {
		c.finishAll(now, g, o)
		return
	}
	for _, p := range g.parts {
		if p.taken.Low {
			c.tend(now, p.key)
		}
	}
	if g.exact && g.waiter != nil { // what it held while it was in the exact lane is there again
		c.tendOthers(now, g, g.waiter.key)
	}
}

// tendOthers serves those who wait for what a group put back, of every key but one.
func (c *Core) tendOthers(now Instant, g *Group, but *Key) {
	for _, p := range g.parts {
		if p.key != but && p.key.signs.has(queued) {
			c.tend(now, p.key)
		}
	}
}

// try returns the answer, or that there is none yet. Then the group holds nothing and is in
// line for a key, or it holds the units of its leases and is in the exact lane.
func (c *Core) try(now Instant, g *Group, last bool) (Outcome, bool) {
	for i := range g.parts {
		p := &g.parts[i]
		if p.lease != nil || p.holds != nil {
			continue
		}
		if p.key.slots != nil {
			o, answered, ok := c.beginPart(now, g, p, last)
			switch {
			case answered:
				return o, true
			case !ok:
				c.release(now, g)
				c.lineUp(now, g, p)
				return Outcome{}, false
			}
			continue
		}
		if p.lane = p.lane || c.exactLane(now, p.key, p.cost); p.lane {
			continue
		}
		t := p.key.keep().Take(now, p.cost)
		switch {
		case t.Allowed:
			p.taken, p.lease = t, t.lease
		case t.Denied:
			return Outcome{Taken: t, Key: p.key.ID()}, true
		case !last:
			c.release(now, g)
			c.lineUp(now, g, p)
			return Outcome{}, false
		default:
			if o := c.passFree(now, g, p); !o.Allowed {
				return o, true
			}
		}
	}
	return c.tryLane(now, g, last)
}

// tryLane spends what is left of a group, or, the last time, lets it pass or fail as policy
// says of an outage.
func (c *Core) tryLane(now Instant, g *Group, last bool) (Outcome, bool) {
	waits := false
	for i := range g.parts {
		p := &g.parts[i]
		if !p.lane {
			continue
		}
		switch t := p.key.keep().takeNow(now, p.cost); {
		case t.Denied:
			return Outcome{Taken: t, Key: p.key.ID()}, true
		case t.Allowed: // it has a lease all the same
			p.taken, p.lease, p.lane = t, t.lease, false
			continue
		}
		if !last {
			waits = true
			continue
		}
		if o := c.passFree(now, g, p); !o.Allowed {
			return o, true
		}
	}
	if waits {
		c.spendAll(now, g)
		return Outcome{}, false
	}
	return c.passed(now, g, g.tooLate(now)), true
}

// passFree lets a key of a group pass without a lease, if policy says so. It is charged when
// all the others passed too.
func (c *Core) passFree(now Instant, g *Group, p *part) Outcome {
	out := p.key.dim().outage
	if g.outage != nil {
		out = *g.outage
	}
	o := c.verdict(now, p.key, p.cost, p.lane, out)
	o.Key = p.key.ID()
	if o.Allowed {
		p.taken, p.free = o.Taken, true
	}
	return o
}

// passed is the answer to a group that has everything: it speaks of the key with the least
// left, and is marked if one of them passed without a lease.
func (g *Group) passed() Outcome {
	var o Outcome
	for i, p := range g.parts {
		tighter := p.taken.Limit >= 0 && (o.Limit < 0 || p.taken.Remaining < o.Remaining)
		if i == 0 || p.free && o.Reason == quota.Allowed || p.free == (o.Reason != quota.Allowed) && tighter {
			o = Outcome{Taken: p.taken, Key: p.key.ID()}
		}
	}
	o.Allowed = true
	return o
}

// lineUp makes a group wait for the first key that is missing. The others are asked for in the
// same Sync, so that a group of many cold keys waits no longer than one of them.
func (c *Core) lineUp(now Instant, g *Group, p *part) {
	k := p.key
	for i := range g.parts {
		if o := &g.parts[i]; o.key != k && o.key.slots == nil && !o.lane {
			c.fetch(now, o)
		}
	}
	g.waiter = &Waiter{Key: k.ID(), Cost: p.cost, key: k, group: g}
	k.needHint, k.lastUse = p.cost, now
	k.line(g.waiter)
	c.tend(now, k)
}

// release puts back what a group holds.
func (c *Core) release(now Instant, g *Group) {
	for i := range g.parts {
		p := &g.parts[i]
		if p.lease != nil {
			c.putBack(now, p.key, p.lease, p.cost)
		}
		holds := p.holds
		p.lease, p.free, p.holds = nil, false, nil
		if len(holds) > 0 {
			putDown(holds)
			c.tend(now, p.key)
		}
	}
}

// finishAll answers a group: what it has stays taken, or everything goes back.
func (c *Core) finishAll(now Instant, g *Group, o Outcome) {
	if g.over {
		return
	}
	c.close(now, g, o)
	if o.Allowed && g.Permit != "" {
		c.keepPermit(now, g, o)
	}
	g.Done(o)
	for _, p := range g.parts {
		c.tend(now, p.key)
	}
}

// answerAll answers a group that took nothing of its own.
func (c *Core) answerAll(g *Group, o Outcome) {
	g.over = true
	g.Done(o)
}

// close settles what a group took.
func (c *Core) close(now Instant, g *Group, o Outcome) {
	c.leaveLines(g)
	g.over = true
	if !o.Allowed {
		c.release(now, g)
	}
	for i := range g.parts {
		p := &g.parts[i]
		switch {
		case p.free && p.key.slots != nil:
			p.holds = []hold{c.startUnleased(now, p.key, p.cost, p.taken.Reason)}
		case p.free:
			c.chargeFree(now, p.key, p.cost, p.taken.Reason)
		}
		p.key.busy--
	}
}

// GiveUpAll is a caller's end of patience. It returns what the caller is told, and false if
// an outcome was on its way already.
func (c *Core) GiveUpAll(now Instant, g *Group) (Outcome, bool) {
	if g.over {
		return Outcome{}, false
	}
	var out Outcome
	g.Done = func(o Outcome) { out = o }
	c.leaveLines(g)
	g.leaving = true
	if len(g.parts) == 0 {
		out.Unavailable = true
		g.over = true
		return out, true
	}
	c.attempt(now, g, true)
	return out, true
}

// AbandonAll withdraws a group whom no answer interests any more.
func (c *Core) AbandonAll(now Instant, g *Group) {
	if !g.over {
		g.Done = func(Outcome) {}
		c.finishAll(now, g, Outcome{})
	}
}

// leaveLines takes a group out of every line, and back what may have been spent for it.
func (c *Core) leaveLines(g *Group) {
	c.earlyGroups = slices.DeleteFunc(c.earlyGroups, func(o *Group) bool { return o == g })
	if w := g.waiter; w != nil {
		g.waiter = nil
		c.leave(w)
	}
	for i := range g.parts {
		if s := g.parts[i].spend; s != nil {
			g.parts[i].spend = nil
			c.abandon(s)
		}
	}
}
