package local

import (
	"slices"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// log is the sliding-window log: it remembers when what was used, so that never more than
// Rate.Units pass within any time that is one window long. What was used at t counts until t +
// window, not including that moment. It costs memory for each.
type log struct {
	limit       quota.Units
	per         time.Duration
	countDenied bool
	now         time.Duration // the latest reading
	used        []used        // a ring, oldest at first
	first, n    int
	sum         quota.Units
}

type used struct {
	at   time.Duration
	cost quota.Units
}

func newLog(now time.Duration, l *Limit) *log {
	g := &log{limit: l.Rate.Units, per: l.Rate.Per, countDenied: l.CountDenied, now: now}
	if !l.StartFull && g.limit > 0 {
		g.push(g.limit)
	}
	return g
}

func (g *log) at(i int) *used { return &g.used[(g.first+i)%len(g.used)] }

func (g *log) drop() {
	g.sum -= g.at(0).cost
	g.first = (g.first + 1) % len(g.used)
	g.n--
}

func (g *log) advance(now time.Duration) {
	g.now = max(g.now, now)
	for g.n > 0 && g.now-g.at(0).at >= g.per {
		g.drop()
	}
}

// push remembers use at the latest reading. What lies behind enough to fill the limit decides
// nothing any more, and is let go: so never more are kept than the limit says.
func (g *log) push(cost quota.Units) {
	g.sum += cost
	if g.n > 0 && g.at(g.n-1).at == g.now {
		g.at(g.n - 1).cost += cost
	} else {
		if g.n == len(g.used) {
			g.grow()
		}
		g.n++
		*g.at(g.n - 1) = used{g.now, cost}
	}
	g.trim()
}

func (g *log) trim() {
	for g.n > 1 && g.sum-g.at(0).cost >= g.limit {
		g.drop()
	}
}

func (g *log) grow() {
	more := make([]used, max(4, 2*len(g.used)))
	for i := range g.n {
		more[i] = *g.at(i)
	}
	g.used, g.first = more, 0
}

func (g *log) take(now time.Duration, cost quota.Units, _ time.Duration) Answer {
	g.advance(now)
	a := Answer{Left: max(g.limit-g.sum, 0), mark: int64(g.now)}
	switch {
	case cost > g.limit:
		a.TooLarge = true
	case cost == 0:
		a.Allowed = true
	case cost > a.Left:
		if g.countDenied {
			g.push(cost)
			a.Left = max(g.limit-g.sum, 0)
		}
		a.RetryIn = g.retryIn(cost) + max(g.now-now, 0)
	default:
		g.push(cost)
		a.Allowed, a.Left = true, a.Left-cost
	}
	return a
}

// retryIn is when enough of what counts now will count no more.
func (g *log) retryIn(cost quota.Units) time.Duration {
	left := g.sum
	for i := range g.n {
		left -= g.at(i).cost
		if left+cost <= g.limit {
			return g.at(i).at + g.per - g.now
		}
	}
	return 0
}

func (g *log) giveBack(_ time.Duration, cost quota.Units, mark int64) {
	for i := g.n - 1; i >= 0 && int64(g.at(i).at) >= mark; i-- {
		if int64(g.at(i).at) > mark {
			continue
		}
		cost = min(cost, g.at(i).cost)
		g.at(i).cost -= cost
		g.sum -= cost
		if g.at(i).cost > 0 {
			return
		}
		for ; i < g.n-1; i++ {
			*g.at(i) = *g.at(i + 1)
		}
		g.n--
		return
	}
}

func (g *log) reconfigure(now time.Duration, l *Limit) {
	g.advance(now) // by the old window: what has come back is not taken again
	g.limit, g.per, g.countDenied = l.Rate.Units, l.Rate.Per, l.CountDenied
	g.advance(now)
	g.trim()
}

func (g *log) rest(now time.Duration) bool { g.advance(now); return g.n == 0 }
func (g *log) clone() core {
	c := *g
	c.used = slices.Clone(g.used)
	return &c
}
