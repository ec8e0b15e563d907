package local

import (
	"math/bits"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// grid divides time into windows of one length, counted from the clock's zero.
type grid struct {
	per    time.Duration
	now    time.Duration // the latest reading
	window int64         // which contains it
}

func (g *grid) index(now time.Duration) int64 {
	n := int64(now / g.per)
	if now%g.per < 0 {
		n--
	}
	return n
}

// advance goes on to now and returns how many windows have begun since.
func (g *grid) advance(now time.Duration) int64 {
	if now <= g.now {
		return 0
	}
	g.now = now
	n := g.index(now) - g.window
	g.window += n
	return n
}

// elapsed is how much of the window is over.
func (g *grid) elapsed() time.Duration { return g.now - time.Duration(g.window)*g.per }

// behind is how far a caller's clock has to go to be where this one is.
func (g *grid) behind(now time.Duration) time.Duration { return max(g.now-now, 0) }

// fixed is the fixed window: Rate.Units in each window, so up to twice as many within any time
// that is one window long.
type fixed struct {
	grid
	limit quota.Units
	used  quota.Units // in the window
}

func newFixed(now time.Duration, l *Limit) *fixed {
	f := &fixed{grid: grid{per: l.Rate.Per, now: now}, limit: l.Rate.Units}
	f.window = f.index(now)
	if !l.StartFull {
		f.used = f.limit
	}
	return f
}

func (f *fixed) advance(now time.Duration) {
	if f.grid.advance(now) > 0 {
		f.used = 0
	}
}

func (f *fixed) take(now time.Duration, cost quota.Units, _ time.Duration) Answer {
	f.advance(now)
	a := Answer{Left: max(f.limit-f.used, 0), mark: f.window}
	switch {
	case cost > f.limit:
		a.TooLarge = true
	case cost > 0 && cost > a.Left:
		a.RetryIn = f.per - f.elapsed() + f.behind(now)
	default:
		f.used += cost
		a.Allowed, a.Left = true, a.Left-cost
	}
	return a
}

func (f *fixed) giveBack(_ time.Duration, cost quota.Units, mark int64) {
	if mark == f.window {
		f.used = max(f.used-cost, 0)
	}
}

func (f *fixed) reconfigure(now time.Duration, l *Limit) {
	f.advance(now)
	f.limit, f.per = l.Rate.Units, l.Rate.Per
	f.window = f.index(f.now)
}

func (f *fixed) rest(now time.Duration) bool { f.advance(now); return f.used == 0 }
func (f *fixed) clone() core                 { c := *f; return &c }

// counter is the sliding-window counter: it counts by fixed windows and takes of the last one
// what would still be in a window that ends now, had it been used evenly. That is an estimate,
// so now and then more or less than Rate.Units pass in a window.
type counter struct {
	grid
	limit    quota.Units
	cur, was quota.Units // used in this window and the one before
}

func newCounter(now time.Duration, l *Limit) *counter {
	c := &counter{grid: grid{per: l.Rate.Per, now: now}, limit: l.Rate.Units}
	c.window = c.index(now)
	if !l.StartFull {
		c.cur = c.limit
	}
	return c
}

func (c *counter) advance(now time.Duration) {
	switch c.grid.advance(now) {
	case 0:
	case 1:
		c.was, c.cur = c.cur, 0
	default:
		c.was, c.cur = 0, 0
	}
}

// share is what of n is left in the window's rest, rounded down, and whether that cut something.
func (c *counter) share(n quota.Units) (quota.Units, bool) {
	hi, lo := bits.Mul64(uint64(n), uint64(c.per-c.elapsed()))
	q, rest := bits.Div64(hi, lo, uint64(c.per))
	return quota.Units(q), rest > 0
}

func (c *counter) take(now time.Duration, cost quota.Units, _ time.Duration) Answer {
	c.advance(now)
	old, _ := c.share(c.was)
	a := Answer{Left: max(c.limit-c.cur-old, 0), mark: c.window}
	switch {
	case cost > c.limit:
		a.TooLarge = true
	case cost > 0 && cost > a.Left:
		a.RetryIn = c.retryIn(cost) + c.behind(now)
	default:
		c.cur += cost
		a.Allowed, a.Left = true, a.Left-cost
	}
	return a
}

// retryIn is when the estimate has fallen far enough for a cost that is no more than the limit.
func (c *counter) retryIn(cost quota.Units) time.Duration {
	if room := c.limit - cost - c.cur; room >= 0 {
		return c.decay(c.was, room) - c.elapsed()
	}
	return c.per - c.elapsed() + c.decay(c.cur, c.limit-cost)
}

// decay is how far into a window what was used in the one before counts for no more than room.
func (c *counter) decay(used, room quota.Units) time.Duration {
	if used <= room {
		return 0
	}
	// The first moment e with used*(per-e)/per < room+1.
	hi, lo := bits.Mul64(uint64(room)+1, uint64(c.per))
	q, rest := bits.Div64(hi, lo, uint64(used))
	if rest == 0 {
		q--
	}
	return c.per - time.Duration(q)
}

func (c *counter) giveBack(_ time.Duration, cost quota.Units, mark int64) {
	switch c.window - mark {
	case 0:
		c.cur = max(c.cur-cost, 0)
	case 1:
		c.was = max(c.was-cost, 0)
	}
}

// reconfigure keeps what counts now, which is rounded up, as if it had been used in the window.
func (c *counter) reconfigure(now time.Duration, l *Limit) {
	c.advance(now)
	c.limit = l.Rate.Units
	if c.per == l.Rate.Per {
		return
	}
	old, more := c.share(c.was)
	if more {
		old++
	}
	c.cur, c.was, c.per = c.cur+old, 0, l.Rate.Per
	c.window = c.index(c.now)
}

func (c *counter) rest(now time.Duration) bool { c.advance(now); return c.cur == 0 && c.was == 0 }
func (c *counter) clone() core                 { o := *c; return &o }
