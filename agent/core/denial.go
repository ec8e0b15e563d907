package core

import (
	"math"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// denial is a "no" that is remembered: costs of at least cost are denied until it lapses or
// the account's generation grows.
type denial struct {
	cost       int64
	reason     quota.Reason
	until      Instant
	retryAt    Instant // 0: no moment is known
	window     int64   // its start
	generation int64
	largest    int64   // with too_large
	drained    bool    // nothing was left for anyone: the ledger will say when that changes
	settles    Instant // until then units may come back that were idle with others; 0: no longer
	edge       Instant // from then on the window may have ended; 0: it does not
}

func (d *denial) covers(now Instant, cost int64) bool {
	return d != nil && cost >= d.cost && now < d.until
}

// denies is the denial that answers a cost, if one does. That nothing is left for anyone is no
// answer to a cost that this agent holds itself, in pieces: they can be given for a lease of it.
func (k *Key) denies(now Instant, cost int64) *denial {
	d := k.denial.Load()
	if !d.covers(now, cost) || d.drained && k.left(now) >= cost {
		return nil
	}
	return d
}

// deny remembers a denial, which answers the callers that it covers.
func (c *Core) deny(now Instant, k *Key, cost int64, reason quota.Reason, from *pb.Decision) {
	window := from.GetWindow().GetStartUs()
	generation, stands := k.stands(window, from.GetGeneration())
	if !stands {
		return // the next ask decides
	}
	d := &denial{cost: cost, reason: reason, window: window, generation: generation,
		settles: c.settling(now, k, window, reason), edge: c.edge(from.GetWindow())}
	end := c.windowEnd(from.GetWindow())
	switch wait := micros(from.GetRetryInUs()); {
	case reason == quota.LeasedOut:
		d.until = c.retryLeasedOut(now, k, window)
		d.retryAt = d.until
	case wait > 0:
		d.until, d.retryAt = now+wait, now+wait
	case end < never:
		d.until, d.retryAt = end, end
	default:
		d.until = now + k.dim().TTL
	}
	d.until = min(d.until, end)
	if k.slots != nil {
		d.retryAt = 0 // when work will end nobody knows
	}
	if reason == quota.TooLarge {
		d.retryAt = 0
		if v := k.view(); v != nil {
			d.largest = v.limit
		}
	}
	k.denial.Store(d)
}

// retryLeasedOut is when to ask again for units that are in others' hands. They may be back
// at any moment, so the first time is soon; but who asks in vain asks ever more rarely, and
// not at all while the ledger's word stands that it will tell.
func (c *Core) retryLeasedOut(now Instant, k *Key, window int64) Instant {
	if d := k.denial.Load(); d != nil && d.drained && d.window == window && now < d.until {
		return d.until
	}
	ttl := k.dim().TTL
	wait := min(max(ttl/8, 20*time.Millisecond)<<min(k.vain, 3), max(ttl, 20*time.Millisecond))
	k.some().vain++
	return now + c.Jitter(wait)
}

// drain remembers that nothing is left of the account, so that no round trip is needed to
// learn it. It holds until the account grows, or for a ttl, should that news be lost.
func (c *Core) drain(now Instant, k *Key, w *pb.Window, generation int64) {
	generation, stands := k.stands(w.GetStartUs(), generation)
	if !stands {
		return
	}
	until := min(now+k.dim().TTL, c.windowEnd(w))
	if was := k.denial.Load(); was.covers(now, 1) && was.until >= until {
		return
	}
	d := &denial{cost: 1, reason: quota.LeasedOut, until: until, retryAt: until,
		window: w.GetStartUs(), generation: generation, drained: true,
		settles: c.settling(now, k, w.GetStartUs(), quota.LeasedOut), edge: c.edge(w)}
	if k.slots != nil { // what was granted of slots is in use, as a rule, and nobody knows for how long
		d.reason, d.retryAt = quota.Exhausted, 0
	}
	k.denial.Store(d)
}

// stands is the generation at which a "no" of an earlier one still holds, and whether it does:
// until the account has grown or, if the ledger says of a later generation that nothing is to be
// had even so, at that one. Most growth is room in the budget, which brings nobody a unit.
func (k *Key) stands(window, generation int64) (int64, bool) {
	heard := int64(0)
	if k.heard.window == window {
		heard = k.heard.generation
	}
	v := k.view()
	if v != nil && window < v.window.GetStartUs() {
		return 0, false
	}
	if v != nil && window == v.window.GetStartUs() && v.generation > generation {
		return v.generation, v.spent() && v.generation >= heard
	}
	return generation, heard <= generation
}

// spent reports that the ledger said of the account that not even one unit is to be had.
func (v *view) spent() bool { return v.reason == quota.Exhausted || v.reason == quota.LeasedOut }

// renewed keeps a remembered denial when the ledger says of a newer generation of its window that
// not even one unit is to be had; else it goes (see grew).
func (c *Core) renewed(k *Key, v *view) {
	d := k.denial.Load()
	if d != nil && v.spent() && d.window == v.window.GetStartUs() && (d.reason == quota.Exhausted || d.reason == quota.LeasedOut) {
		if v.generation > d.generation {
			again := *d
			again.cost, again.generation = min(d.cost, 1), v.generation
			k.denial.Store(&again)
		}
		return
	}
	c.grew(k, v.window.GetStartUs(), v.generation)
}

// grew forgets a denial that a newer generation of the account, or a newer window, has
// overtaken.
func (c *Core) grew(k *Key, window, generation int64) {
	d := k.denial.Load()
	if d == nil || d.reason == quota.UnknownTenant || window < d.window || window == d.window && generation <= d.generation {
		return
	}
	k.denial.Store(nil)
	k.signs.clear(lowSent)
	k.notInVain()
}

// sure makes of "nothing is left" what the ledger says of it now: that all was used, which no
// return of units changes, or still not.
func (c *Core) sure(now Instant, k *Key, v *view) {
	d := k.denial.Load()
	if k.slots != nil && d != nil && d.drained && v.reason != quota.Allowed {
		said := *d
		said.reason = v.reason
		k.denial.Store(&said)
	}
	if v.reason != quota.Exhausted || v.windowEnd == 0 || v.windowEnd <= now {
		return
	}
	if d == nil || !d.drained || d.window != v.window.GetStartUs() {
		return
	}
	k.denial.Store(&denial{cost: 1, reason: v.reason, until: v.windowEnd, retryAt: v.windowEnd,
		window: d.window, generation: max(d.generation, v.generation), edge: d.edge})
}

// never is later than any moment.
const never Instant = math.MaxInt64

// windowEnd is when a window ends, by the estimate of ledger time; never, if it is endless.
func (c *Core) windowEnd(w *pb.Window) Instant {
	if w.GetEndUs() == 0 {
		return never
	}
	return c.instant(w.GetEndUs())
}

// instant is when the ledger's clock will show, or showed, us.
func (c *Core) instant(us int64) Instant {
	return c.ledgerOn + time.UnixMicro(us).Sub(c.ledgerAt)
}
