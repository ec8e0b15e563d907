package core

import (
	"slices"

	"github.com/gofrs/uuid/v5"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// spendAll puts the exact keys of a group in line, side by side: they go in one Spend, all or
// none.
func (c *Core) spendAll(now Instant, g *Group) {
	g.exact = true
	for i := range g.parts {
		p := &g.parts[i]
		if !p.lane {
			continue
		}
		p.spend = &spend{id: c.newID(now), key: p.key, cost: p.cost, group: g}
		p.key.some().spends++
		c.spends = append(c.spends, p.spend)
	}
}

// toLane sends a group that waits for a key on: that one is spent, not leased.
func (c *Core) toLane(now Instant, w *Waiter) {
	g := w.group
	w.over, g.waiter = true, nil
	for i := range g.parts {
		g.parts[i].lane = g.parts[i].lane || g.parts[i].key == w.key
	}
	c.attempt(now, g, false)
}

// spentAll answers a group by what the ledger decided on its items.
func (c *Core) spentAll(now Instant, g *Group, said map[ID]*pb.Decision) {
	var denier *part
	var no *pb.Decision
	for i := range g.parts {
		p := &g.parts[i]
		if p.spend == nil {
			continue
		}
		d := said[p.spend.id]
		if d.GetAmount() == 0 && (no == nil || no.GetReason() == string(quota.Cancelled)) {
			denier, no = p, d
		}
	}
	if denier == nil {
		c.groupSpent(now, g)
		return
	}
	for i := range g.parts {
		p := &g.parts[i]
		if p.spend == nil {
			continue
		}
		// A ledger that decided one by one has to take back what it approved of.
		if said[p.spend.id].GetAmount() > 0 {
			c.takeBack(p.spend.id, p.key)
		}
		p.spend.group, p.spend = nil, nil
		p.key.spends--
	}
	c.groupDenied(now, g, denier, no)
}

func (c *Core) groupSpent(now Instant, g *Group) {
	late := g.tooLate(now)
	for i := range g.parts {
		p := &g.parts[i]
		if p.spend == nil {
			continue
		}
		if late != nil {
			c.takeBack(p.spend.id, p.key)
			p.spend.group, p.spend = nil, nil
			p.key.spends--
			continue
		}
		p.spent = p.spend.id
		p.spend.group, p.spend = nil, nil
		p.key.spends--
		c.exact[quota.BaseDimension(p.key.Dimension())] += p.cost
		p.taken = p.key.answer(now, p.key.left(now))
	}
	c.finishAll(now, g, c.passed(now, g, late))
}

func (g *Group) holdsSlots() bool {
	return slices.ContainsFunc(g.parts, func(p part) bool { return len(p.holds) > 0 })
}

// letGo makes a group forget its slots and what it spends.
func (g *Group) letGo(c *Core) {
	for i := range g.parts {
		p := &g.parts[i]
		putDown(p.holds)
		p.holds = nil
		if p.spend == nil {
			continue
		}
		c.spends = slices.DeleteFunc(c.spends, func(s *spend) bool { return s == p.spend })
		p.spend.group, p.spend = nil, nil
		p.key.spends--
	}
}

// tooLate is a key of whose slots the group holds some that nothing may begin on any more: the
// exact lane took so long that their lease has ended. The ledger counts work on them as begun
// before that, and might take it for ended while it runs.
func (g *Group) tooLate(now Instant) *Key {
	for _, p := range g.parts {
		for _, h := range p.holds {
			if now >= h.lease.deadline {
				return p.key
			}
		}
	}
	return nil
}

// passed is the answer to a group that has everything, in time or too late.
func (c *Core) passed(now Instant, g *Group, late *Key) Outcome {
	if late == nil {
		return g.passed()
	}
	t := late.answer(now, 0)
	t.RetryIn = max(c.retryAt-now, 0)
	return Outcome{Taken: t, Unavailable: true, Key: late.ID()}
}

// groupDenied answers a group one of whose exact keys was refused.
func (c *Core) groupDenied(now Instant, g *Group, p *part, d *pb.Decision) {
	k := p.key
	o := Outcome{Taken: k.answer(now, k.released(now)), Key: k.ID()}
	switch reason := quota.Reason(d.GetReason()); {
	case d.GetFault() != nil:
		c.refused(now, k, d.GetFault())
		if denial := k.denial.Load(); denial.covers(now, p.cost) {
			o.Denied, o.Reason = true, denial.reason
		} else {
			o.Unavailable = true
		}
	case reason == quota.LeasedOut && !g.again && (k.newest(now) != nil || len(k.closing) > 0 || k.ask != nil):
		g.again = true
		c.release(now, g)
		g.waiter = &Waiter{Key: k.ID(), Cost: p.cost, key: k, group: g}
		c.parkSpend(now, k, g.waiter)
		c.tendOthers(now, g, k)
		return
	case reason == quota.Exhausted || reason == quota.LeasedOut || reason == quota.TooLarge:
		c.deny(now, k, p.cost, reason, d)
		o.Denied, o.Reason, o.Largest = true, reason, largestFor(reason, o.Limit)
		if denial := k.denial.Load(); denial.covers(now, p.cost) {
			o.RetryIn = max(denial.retryAt-now, 0)
		}
	default:
		o.Unavailable = true
	}
	c.finishAll(now, g, o)
}

// answerGroups gives each group of a Spend its decisions.
func (c *Core) answerGroups(now Instant, items []*spend, decisions []*pb.Decision) {
	said := map[ID]*pb.Decision{}
	for _, d := range decisions {
		said[uuid.FromBytesOrNil(d.GetGrantId())] = d
	}
	for _, s := range items {
		if s.group != nil { // not answered yet
			c.spentAll(now, s.group, said)
		}
	}
}

// loseGroups ends the wait of groups whose Spend nobody knows the outcome of.
func (c *Core) loseGroups(now Instant, items []*spend) {
	for _, s := range items {
		if g := s.group; g != nil {
			c.leaveLines(g)
			c.attempt(now, g, true)
		}
	}
}
