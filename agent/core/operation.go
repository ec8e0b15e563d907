package core

import (
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// Operation is what a caller asks to do, and which quotas that draws on.
type Operation struct {
	Takes  []DimensionCost
	Waits  bool    // who is denied may wait its turn
	outage *outage // nil: each dimension its own
}

// outage is what policy says of a loss of contact.
type outage struct {
	open   bool          // go on and count
	extend bool          // go on from the emergency allowance; neither: deny
	after  time.Duration // not before so long without contact
	span   time.Duration // open: and for so long at most
	rate   float64       // extend: units a second of all agents together
	budget int64         // extend: what all agents together may have in a window
}

func readOutage(o *pb.Outage) outage {
	out := outage{
		open: o.GetMode() == "open", extend: o.GetMode() == "extend", after: micros(o.GetAfterUs()),
		span: micros(o.GetForUs()), budget: o.GetBudget(),
	}
	if per := micros(o.GetRate().GetPerUs()); per > 0 {
		out.rate = float64(o.GetRate().GetUnits()) / per.Seconds()
	}
	return out
}

// Operation returns an operation of the catalogue in force, or nil. Any goroutine may call it.
func (c *Core) Operation(name string) *Operation {
	if ops := c.operations.Load(); ops != nil {
		return (*ops)[name]
	}
	return nil
}

func readOperations(c *pb.Catalogue) map[string]*Operation {
	ops := make(map[string]*Operation, len(c.GetOperations()))
	for _, o := range c.GetOperations() {
		op := &Operation{Waits: o.GetDefer() != nil}
		for _, t := range o.GetTakes() {
			op.Takes = append(op.Takes, DimensionCost{Dimension: t.GetDimension(), Cost: t.GetCost()})
		}
		if o.GetOutage().GetMode() != "" {
			out := readOutage(o.GetOutage())
			op.outage = &out
		}
		ops[o.GetName()] = op
	}
	return ops
}

// verdict is what a caller is told for whom no lease came: an outage follows its outage mode
// (DESIGN 6), a key that is merely cold its cold rule (DESIGN 5). It charges nothing.
func (c *Core) verdict(now Instant, k *Key, cost int64, lane bool, out outage) Outcome {
	dim := k.dim()
	t := k.answer(now, k.left(now))
	if c.cutOff(now) || c.stopping {
		var lost Instant
		if c.Failing() {
			lost = now - max(c.contact, c.lostAt-dim.beat())
		}
		open := out.open && dim.Class != quota.Exact && lost >= out.after && lost < out.after+out.span
		if open && cost > 0 && !c.stopping {
			t.Allowed, t.Reason = true, quota.OpenMode
			return Outcome{Taken: t}
		}
		t.RetryIn = 0
		if out.extend && cost > 0 && !c.stopping && lost >= out.after {
			var ok bool
			if t, ok = k.spendExtended(now, cost, t); ok {
				return Outcome{Taken: t}
			}
		}
		t.RetryIn = max(c.retryAt-now, t.RetryIn, 250*time.Millisecond)
		return Outcome{Taken: t, Unavailable: true}
	}
	if d := k.denies(now, cost); d != nil && cost > 0 && k.slots == nil {
		return Outcome{Taken: k.denied(now, cost, d)}
	}
	if lane || cost == 0 {
		return Outcome{Taken: t, Unavailable: true}
	}
	if at, ok := k.releases(now, cost); ok {
		return Outcome{Taken: k.dripping(now, at)}
	}
	if owed := c.debts[k.ID()]; cost <= dim.debt-owed && (owed > 0 || len(c.debts) < c.cfg.MaxKeys) {
		t.Allowed, t.Reason = true, quota.Cold
		return Outcome{Taken: t}
	}
	t.Denied, t.Reason, t.RetryIn = true, quota.Cold, 2*c.rtt
	return Outcome{Taken: t}
}

// chargeFree charges what a verdict let pass.
func (c *Core) chargeFree(now Instant, k *Key, cost int64, reason quota.Reason) {
	switch reason {
	case quota.Extended:
		c.chargeExtended(now, k, cost)
		return
	case quota.Cold:
		c.debts[k.ID()] += cost
	}
	c.addUnleased(now, k, cost)
}

// without answers a caller for whom no lease came, and charges what passes all the same.
func (c *Core) without(now Instant, k *Key, w *Waiter) Outcome {
	o := c.verdict(now, k, w.Cost, w.exact, k.dim().outage)
	if o.Allowed {
		c.chargeFree(now, k, w.Cost, o.Reason)
	}
	return o
}

// disappoint ends a caller's wait because the ledger cannot be asked.
func (c *Core) disappoint(now Instant, w *Waiter, k *Key) {
	if w.group != nil {
		c.leaveLines(w.group)
		c.attempt(now, w.group, true)
		return
	}
	c.finish(now, w, c.without(now, k, w))
}
