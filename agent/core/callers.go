package core

import (
	"slices"
	"strings"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Waiter is a caller who found nothing to take. Exactly one Outcome reaches Done, unless the
// caller leaves by GiveUp, which returns it.
type Waiter struct {
	Key  quota.Key
	Cost int64 // 0: a peek
	Done func(Outcome)

	key   *Key   // where it waits; nil while no catalogue is known
	spend *spend // its item in the exact lane, while one is
	group *Group // which waits for this key first
	exact bool   // it went to the exact lane
	again bool   // and will not be parked a second time
	over  bool
}

// Exact reports that the waiter was sent to the exact lane.
func (w *Waiter) Exact() bool { return w.exact }

// SpendID is the id of the waiter's item in the exact lane while it has one, else nil.
func (w *Waiter) SpendID() ID {
	if w.spend == nil {
		return ID{}
	}
	return w.spend.id
}

// Outcome is the answer to a Waiter.
type Outcome struct {
	Taken
	Unavailable bool              // an outage, never a denial
	Bad         *quota.FieldError // the request makes no sense
	Key         quota.Key         // of several, the one that decided

	spent *spent // how it passed the exact lane
}

// Want takes a caller in. It may answer at once.
func (c *Core) Want(now Instant, w *Waiter) {
	if c.stopping {
		c.finish(now, w, Outcome{Unavailable: true})
		return
	}
	if c.dims == nil {
		if c.Failing() {
			c.finish(now, w, Outcome{Unavailable: true})
			return
		}
		c.early = append(c.early, w)
		return
	}
	dim := c.dimension(w.Key.Dimension)
	if dim == nil {
		c.finish(now, w, Outcome{Bad: c.unknownDimension()})
		return
	}
	k := c.admit(now, w.Key, dim)
	if k == nil {
		c.finish(now, w, Outcome{Unavailable: true})
		return
	}
	w.key = k
	if w.Cost > 0 && (k.slots != nil || dim.Kind == quota.Concurrency) {
		c.finish(now, w, Outcome{Bad: &quota.FieldError{Field: "dimension", Allowed: "one without a concurrency limit: slots are acquired and released"}})
		return
	}
	if t := k.Take(now, w.Cost); t.Allowed || t.Denied {
		c.finish(now, w, Outcome{Taken: t})
		if t.Low {
			c.tend(now, k)
		}
		return
	}
	if c.Failing() {
		c.finish(now, w, c.without(now, k, w))
		return
	}
	d := k.denies(now, w.Cost)
	switch {
	case w.Cost > 0 && d != nil:
		c.holdOn(now, k, w, d)
	case w.Cost == 0:
		k.refresh = true
		k.line(w)
		c.mark(k)
	case c.exactLane(now, k, w.Cost), k.beyondLease(w.Cost):
		c.queueSpend(now, w)
	default:
		k.needHint = w.Cost
		k.line(w)
		c.tend(now, k)
	}
}

// beyondLease reports that no lease brings what this caller and those before it wait for: exposure
// alone forbids it, so one by one they go to the exact lane (3.5).
func (k *Key) beyondLease(cost int64) bool {
	v := k.view()
	return v != nil && v.leaseCap > 0 && k.waiting() > v.leaseCap-cost
}

// admit returns a key that is in use from now on, or nil if there are too many.
func (c *Core) admit(now Instant, id quota.Key, dim *Dimension) *Key {
	k := c.Table.Find(id)
	if k == nil {
		if len(c.keys) >= c.cfg.MaxKeys {
			return nil
		}
		k = c.newKey(now, id, dim)
	}
	k.lastUse = now
	return k
}

// line puts a caller in line for a key. Who puts units back looks for one after that, and this
// caller will look for units again: one of the two sees the other.
func (k *Key) line(w *Waiter) {
	k.some().waiters = append(k.waiters, w)
	k.signs.set(queued)
}

func (c *Core) unknownDimension() *quota.FieldError {
	names := make([]string, 0, len(c.dims))
	for name := range c.dims {
		names = append(names, name)
	}
	slices.Sort(names)
	if len(names) > 20 {
		names = append(names[:20], "...")
	}
	return &quota.FieldError{Field: "dimension", Allowed: "one that policy defines: " + strings.Join(names, ", ")}
}

// GiveUp is a caller's end of patience. It returns what the caller is told, and false if an
// outcome was on its way already.
func (c *Core) GiveUp(now Instant, w *Waiter) (Outcome, bool) {
	if w.over {
		return Outcome{}, false
	}
	c.leave(w)
	if w.key == nil {
		return Outcome{Unavailable: true}, true
	}
	return c.without(now, w.key, w), true
}

// Abandon withdraws a caller whom no answer interests any more.
func (c *Core) Abandon(w *Waiter) {
	if !w.over {
		c.leave(w)
	}
}

// leave takes a caller out of every line, and back what may have been spent for it.
func (c *Core) leave(w *Waiter) {
	w.over = true
	if w.spend != nil {
		c.abandon(w.spend)
	}
	is := func(o *Waiter) bool { return o == w }
	c.early = slices.DeleteFunc(c.early, is)
	if k := w.key; k != nil {
		r := k.some()
		r.waiters = slices.DeleteFunc(r.waiters, is)
		r.parked = slices.DeleteFunc(r.parked, is)
	}
}

func (c *Core) finish(now Instant, w *Waiter, o Outcome) {
	if w.over {
		return
	}
	w.over = true
	if w.group != nil {
		o.Key = w.Key
		c.finishAll(now, w.group, o)
		return
	}
	w.Done(o)
}
