package core

import (
	"slices"
	"strings"
	"time"

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
}

// Want takes a caller in. It may answer at once.
func (c *Core) Want(now Instant, w *Waiter) {
	if c.stopping {
		c.finish(w, Outcome{Unavailable: true})
		return
	}
	if c.dims == nil {
		if c.Failing() {
			c.finish(w, Outcome{Unavailable: true})
			return
		}
		c.early = append(c.early, w)
		return
	}
	dim, ok := c.dims[w.Key.Dimension]
	if !ok {
		c.finish(w, Outcome{Bad: c.unknownDimension()})
		return
	}
	k := c.Table.Find(w.Key)
	if k == nil {
		if len(c.keys) >= c.cfg.MaxKeys {
			c.finish(w, Outcome{Unavailable: true})
			return
		}
		k = c.newKey(now, w.Key, dim)
	}
	w.key = k
	k.lastUse = now
	if t := k.Take(now, w.Cost); t.Allowed || t.Denied {
		c.finish(w, Outcome{Taken: t})
		if t.Low {
			c.tend(now, k)
		}
		return
	}
	if c.Failing() {
		c.finish(w, c.without(now, k, w))
		return
	}
	switch {
	case w.Cost == 0:
		k.refresh = true
		k.waiters = append(k.waiters, w)
		c.mark(k)
	case c.exactLane(now, k, w.Cost):
		c.queueSpend(now, w)
	default:
		k.needHint = w.Cost
		k.waiters = append(k.waiters, w)
		c.tend(now, k)
	}
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
		k.waiters = slices.DeleteFunc(k.waiters, is)
		k.parked = slices.DeleteFunc(k.parked, is)
	}
}

func (c *Core) finish(w *Waiter, o Outcome) {
	if w.over {
		return
	}
	w.over = true
	w.Done(o)
}

// without answers a caller for whom no lease came: an outage follows the dimension's outage
// mode (DESIGN 6), a key that is merely cold its cold rule (DESIGN 5).
func (c *Core) without(now Instant, k *Key, w *Waiter) Outcome {
	t := k.answer(now, k.left(now))
	if c.cutOff(now) || c.stopping {
		out := Instant(0)
		if c.Failing() {
			out = now - max(c.contact, c.lostAt-k.dim.Load().beat())
		}
		if w.Cost > 0 && !c.stopping && c.contacted && k.dim.Load().open && out >= k.dim.Load().after && out < k.dim.Load().after+k.dim.Load().openFor {
			c.addUnleased(now, k, w.Cost)
			t.Allowed, t.Reason = true, quota.OpenMode
			return Outcome{Taken: t}
		}
		t.RetryIn = max(c.retryAt-now, 250*time.Millisecond)
		return Outcome{Taken: t, Unavailable: true}
	}
	if w.exact || w.Cost == 0 {
		return Outcome{Taken: t, Unavailable: true}
	}
	if owed := c.debts[k.ID]; w.Cost <= k.dim.Load().debt-owed && (owed > 0 || len(c.debts) < c.cfg.MaxKeys) {
		c.debts[k.ID] = owed + w.Cost
		c.addUnleased(now, k, w.Cost)
		t.Allowed, t.Reason = true, quota.Cold
		return Outcome{Taken: t}
	}
	t.Denied, t.Reason, t.RetryIn = true, quota.Cold, 2*c.rtt
	return Outcome{Taken: t}
}
