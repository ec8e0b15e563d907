package local

import (
	"math/big"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quotalease/quotalease/ledger/quota"
)

// model says by exact fractions and whole histories what a core does by less.
type model interface {
	// take says whether a cost passes, and counts it if it does. now never falls.
	take(now time.Duration, cost int64) bool
	giveBack(now time.Duration, cost int64, taken time.Duration)
}

func modelOf(l *Limit) model {
	units, per := int64(l.Rate.Units), l.Rate.Per
	switch l.Algorithm {
	case TokenBucket:
		return &levelModel{rate: big.NewRat(units, int64(per)), level: big.NewRat(int64(l.Capacity), 1), most: int64(l.Capacity)}
	case LeakyBucket:
		return &queueModel{each: big.NewRat(int64(per), max(units, 1)), empty: new(big.Rat), most: int64(l.Capacity), stuck: units == 0}
	case FixedWindow:
		return &windowModel{limit: units, per: per, used: map[int64]int64{}}
	case SlidingLog:
		return &logModel{limit: units, per: per, denied: l.CountDenied}
	}
	return &windowModel{limit: units, per: per, used: map[int64]int64{}, sliding: true}
}

type levelModel struct {
	rate, level *big.Rat
	most        int64
	now         time.Duration
}

func (m *levelModel) advance(now time.Duration) {
	m.level.Add(m.level, new(big.Rat).Mul(m.rate, big.NewRat(int64(now-m.now), 1)))
	if m.now = now; m.level.Cmp(big.NewRat(m.most, 1)) > 0 {
		m.level.SetInt64(m.most)
	}
}

func (m *levelModel) take(now time.Duration, cost int64) bool {
	m.advance(now)
	c := big.NewRat(cost, 1)
	if m.level.Cmp(c) < 0 {
		return false
	}
	m.level.Sub(m.level, c)
	return true
}

func (m *levelModel) giveBack(now time.Duration, cost int64, _ time.Duration) {
	m.advance(now)
	m.level.Add(m.level, big.NewRat(cost, 1))
	m.advance(now)
}

// queueModel is a real queue: when it will be empty, and what is in it until then.
type queueModel struct {
	each, empty *big.Rat // ns each takes to leave; when the last has
	most        int64
	stuck       bool
}

func (m *queueModel) ahead(now time.Duration) *big.Rat {
	d := new(big.Rat).Sub(m.empty, big.NewRat(int64(now), 1))
	if d.Sign() < 0 {
		d.SetInt64(0)
	}
	return d
}

func (m *queueModel) take(now time.Duration, cost int64) bool {
	in := new(big.Rat).Quo(m.ahead(now), m.each)
	if m.stuck || in.Add(in, big.NewRat(cost, 1)).Cmp(big.NewRat(m.most, 1)) > 0 {
		return false
	}
	m.empty.Add(big.NewRat(int64(now), 1), new(big.Rat).Mul(in, m.each))
	return true
}

func (m *queueModel) giveBack(now time.Duration, cost int64, _ time.Duration) {
	m.empty.Sub(m.empty, new(big.Rat).Mul(big.NewRat(cost, 1), m.each))
}

// windowModel keeps every window that ever was.
type windowModel struct {
	limit   int64
	per     time.Duration
	used    map[int64]int64
	sliding bool
}

func (m *windowModel) take(now time.Duration, cost int64) bool {
	n := int64(now / m.per)
	sum := m.used[n]
	if m.sliding {
		before := new(big.Int).Mul(big.NewInt(m.used[n-1]), big.NewInt(int64(m.per-now%m.per)))
		sum += before.Div(before, big.NewInt(int64(m.per))).Int64()
	}
	if sum+cost > m.limit {
		return false
	}
	m.used[n] += cost
	return true
}

func (m *windowModel) giveBack(_ time.Duration, cost int64, taken time.Duration) {
	m.used[int64(taken/m.per)] -= cost
}

// logModel forgets nothing.
type logModel struct {
	limit  int64
	per    time.Duration
	denied bool
	all    []used
}

func (m *logModel) take(now time.Duration, cost int64) bool {
	var sum int64
	for _, u := range m.all {
		if now-u.at < m.per {
			sum += int64(u.cost)
		}
	}
	ok := sum+cost <= m.limit
	if ok || m.denied && cost <= m.limit {
		m.all = append(m.all, used{now, quota.Units(cost)})
	}
	return ok
}

func (m *logModel) giveBack(_ time.Duration, cost int64, taken time.Duration) {
	if i := slices.IndexFunc(m.all, func(u used) bool { return u.at == taken && int64(u.cost) == cost }); i >= 0 {
		m.all = slices.Delete(m.all, i, i+1)
	}
}

func drawLimit(t *rapid.T, a Algorithm) *Limit {
	l := aLimit(a, quota.Units(rapid.Int64Range(0, 12).Draw(t, "units")), time.Duration(rapid.Int64Range(1, 40).Draw(t, "per"))*rapid.SampledFrom([]time.Duration{1, 7, ms, time.Second}).Draw(t, "scale"))
	if a == TokenBucket || a == LeakyBucket {
		l.Capacity = quota.Units(rapid.Int64Range(0, 12).Draw(t, "capacity"))
		if l.Rate.Units == 0 {
			l.Capacity = 0
		}
	}
	if a == SlidingLog {
		l.CountDenied = rapid.Bool().Draw(t, "count denied")
	}
	return l
}

// Each algorithm decides as its model does, whatever is asked and given back, by a clock that
// jumps about; and the time that a denied caller is told is the first at which it passes.
func TestEachAlgorithmDecidesAsItsModel(t *testing.T) {
	t.Parallel()
	every(t, func(t *testing.T, a Algorithm) {
		rapid.Check(t, func(t *rapid.T) {
			l := drawLimit(t, a)
			c, m := newCore(0, l), modelOf(l)
			var clock, latest time.Duration
			for range rapid.IntRange(1, 60).Draw(t, "steps") {
				clock += time.Duration(rapid.Int64Range(-2, 8).Draw(t, "go")) * max(l.Rate.Per/8, 1)
				clock = max(clock, 0)
				latest = max(latest, clock)
				cost := rapid.Int64Range(1, 6).Draw(t, "cost")
				got, want := c.take(clock, quota.Units(cost), forever), m.take(latest, cost)
				if got.Allowed != want {
					t.Fatalf("%d at %v (%v): %+v, want %v", cost, clock, latest, got, want)
				}
				if got.TooLarge != (quota.Units(cost) > l.Most()) || got.Left < 0 || got.Left > l.Most() {
					t.Fatalf("%d of %d: %+v", cost, l.Most(), got)
				}
				switch {
				case got.Allowed && !l.CountDenied && rapid.IntRange(0, 4).Draw(t, "give back") == 0:
					c.giveBack(latest, quota.Units(cost), got.mark)
					m.giveBack(latest, cost, latest)
				case !got.Allowed && !got.TooLarge:
					checkRetry(t, c, clock, quota.Units(cost), got.RetryIn)
				}
			}
		})
	})
}

func checkRetry(t *rapid.T, c core, clock time.Duration, cost quota.Units, in time.Duration) {
	if in <= 0 {
		t.Fatalf("denied, and told %v", in)
	}
	if early := c.clone().take(clock+in-1, cost, forever); early.Allowed {
		t.Fatalf("told %v, and passes a nanosecond before", in)
	}
	if then := c.clone().take(clock+in, cost, forever); !then.Allowed {
		t.Fatalf("told %v, and then %+v", in, then)
	}
}

// What a limit promises over any time t, from every moment on: see the bursts in DOORS.md.
func TestR1_2NoAlgorithmLetsMoreThroughThanItsBurst(t *testing.T) {
	t.Parallel()
	every(t, func(t *testing.T, a Algorithm) {
		rapid.Check(t, func(t *rapid.T) {
			l := drawLimit(t, a)
			c := newCore(0, l)
			var passed []used // when it leaves, and how much
			var now time.Duration
			for range rapid.IntRange(1, 80).Draw(t, "steps") {
				if rapid.IntRange(0, 30).Draw(t, "restart") == 0 { // who waited in the old one's queue is gone
					passed = slices.DeleteFunc(passed, func(p used) bool { return p.at > now })
					l.StartFull = false
					c = newCore(now, l)
				}
				now += time.Duration(rapid.Int64Range(0, 6).Draw(t, "go")) * max(l.Rate.Per/8, 1)
				cost := quota.Units(1)
				if a != LeakyBucket { // whose bound is about what costs 1 each
					cost = quota.Units(rapid.Int64Range(1, 4).Draw(t, "cost"))
				}
				if got := c.take(now, cost, forever); got.Allowed {
					passed = append(passed, used{now + got.Delay, cost})
				}
			}
			for i := range passed {
				var sum int64
				for _, p := range passed[i:] {
					sum += int64(p.cost)
					if most := bound(l, p.at-passed[i].at); sum > most {
						t.Fatalf("%d within %v, at most %d", sum, p.at-passed[i].at, most)
					}
				}
			}
		})
	})
}

// bound is the most that may pass within a closed span of time.
func bound(l *Limit, span time.Duration) int64 {
	units := int64(l.Rate.Units)
	if l.Algorithm == LeakyBucket {
		span++ // its delays are rounded up to the nanosecond
	}
	refilled := new(big.Int).Div(new(big.Int).Mul(big.NewInt(units), big.NewInt(int64(span))), big.NewInt(int64(l.Rate.Per))).Int64()
	windows := int64(span / l.Rate.Per)
	switch l.Algorithm {
	case TokenBucket:
		return int64(l.Capacity) + refilled
	case LeakyBucket:
		return 1 + refilled
	case SlidingLog:
		return units * (windows + 1)
	}
	return units * (windows + 2)
}
