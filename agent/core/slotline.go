package core

import (
	"slices"

	"github.com/quotalease/quotalease/ledger/quota"
)

// maxLine is how many callers wait in one line. Who comes later is denied at once.
const maxLine = 10_000

// serveLine lets the first in line start, if there are slots for it.
func (c *Core) serveLine(now Instant, k *Key) bool {
	w := k.inLine()
	if w == nil || k.slots.idle(now) < w.Cost {
		return false
	}
	g := w.group
	w.over, g.waiter, g.turn = true, nil, k
	k.some().waiters = slices.DeleteFunc(k.waiters, func(o *Waiter) bool { return o == w })
	c.attempt(now, g, false)
	g.turn = nil
	return true
}

// denyLine answers the first in line whom a remembered denial concerns and who does not wait
// for better times: it lacks what was denied, or stands behind someone who does.
func (c *Core) denyLine(now Instant, k *Key) bool {
	d := k.denial.Load()
	if d == nil {
		return false
	}
	idle, blocked := k.slots.idle(now), false
	for _, w := range k.waiters {
		if w.group == nil || w.over || !blocked && !d.covers(now, w.Cost-idle) {
			continue
		}
		if w.group.Wait > 0 && !d.hopeless() {
			blocked = true
			continue
		}
		c.finish(now, w, Outcome{Taken: k.noSlots(now, d)})
		return true
	}
	return false
}

// hopeless reports a denial that no slot that comes free would change.
func (d *denial) hopeless() bool {
	return d.reason == quota.UnknownTenant || d.reason == quota.TooLarge
}

// noSlots is the answer to a caller who is denied. When work will end nobody knows.
func (k *Key) noSlots(now Instant, d *denial) Taken {
	t := k.answer(now, k.slots.idle(now))
	t.Denied, t.Reason, t.Largest = true, d.reason, d.largest
	if d.reason == quota.UnknownTenant {
		t.Limit, t.Remaining = 0, 0
	}
	return t
}

// beginPart starts a group's work on slots. It returns false with an answer if the group is
// done for, and without one if it has to wait in line.
func (c *Core) beginPart(now Instant, g *Group, p *part, last bool) (o Outcome, answered, ok bool) {
	k := p.key
	first := g.turn == k || k.inLine() == nil
	if first {
		if holds, ok := k.slots.start(now, k, p.cost); ok {
			p.holds = holds
			p.taken = k.answer(now, k.slots.idle(now))
			p.taken.Allowed = true
			return o, false, true
		}
	}
	if v := k.view(); k.current(now, v) && v.limit >= 0 && p.cost > v.limit {
		t := k.noSlots(now, &denial{reason: quota.TooLarge, largest: v.limit})
		if v.limit == 0 {
			t.Reason = quota.Exhausted
		}
		return Outcome{Taken: t, Key: k.ID()}, true, false
	}
	lacks := p.cost
	if first {
		lacks -= k.slots.idle(now)
	}
	d := k.denial.Load()
	known := d.covers(now, lacks)
	switch {
	case known && d.hopeless():
		return Outcome{Taken: k.noSlots(now, d), Key: k.ID()}, true, false
	case !g.leaving && g.Wait > 0 && len(k.waiters) < maxLine && (!last || k.slots.mayFree(now)):
		return o, false, false
	case known:
		return Outcome{Taken: k.noSlots(now, d), Key: k.ID()}, true, false
	case !last && len(k.waiters) < maxLine:
		return o, false, false
	}
	if o = c.passFree(now, g, p); o.Allowed {
		return o, false, true
	}
	if o.Denied {
		o.Taken = k.noSlots(now, &denial{reason: k.whyNoSlots(lacks)})
	}
	return o, true, false
}

// current reports that what the ledger said of a key is not old: a limit may have been raised.
func (k *Key) current(now Instant, v *view) bool {
	return v != nil && now-k.learned < k.dim().TTL && k.heard.generation <= v.generation
}

// mayFree reports that work runs here whose end would let others start, ledger or not.
func (s *slotSet) mayFree(now Instant) bool {
	return slices.ContainsFunc(s.leases, func(l *slotLease) bool { return l.usable(now) && l.inUse > 0 })
}

// whyNoSlots is why a caller's patience ended in vain, as far as this agent knows.
func (k *Key) whyNoSlots(lacks int64) quota.Reason {
	if v := k.view(); v != nil && v.headroom < lacks {
		return quota.Exhausted
	}
	return quota.Cold
}

// checkSlots refuses a group whose slots nobody could give back, and a permit for none.
func (c *Core) checkSlots(g *Group, takes []KeyCost) *quota.FieldError {
	slots := slices.ContainsFunc(takes, func(t KeyCost) bool { return c.dimension(t.Key.Dimension).Kind == quota.Concurrency })
	field := "dimension"
	if g.Operation != "" {
		field = "operation"
	}
	switch {
	case slots && g.Permit == "":
		return &quota.FieldError{Field: field, Allowed: "one without a concurrency limit: slots are acquired and released"}
	case !slots && g.Permit != "":
		return &quota.FieldError{Field: field, Allowed: "one with a concurrency limit: anything else is taken"}
	}
	return nil
}
