package local

import (
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

const ms = time.Millisecond

// aLimit is a limit with everything that Validate wants.
func aLimit(a Algorithm, units quota.Units, per time.Duration) *Limit {
	return &Limit{Name: "l", Algorithm: a, Rate: quota.Rate{Units: units, Per: per}, Capacity: units, StartFull: true,
		IPv6Prefix: 64, Idle: time.Hour, MaxKeys: 1000}
}

// row is one request and what becomes of it.
type row struct {
	at    time.Duration
	cost  quota.Units
	want  bool
	retry time.Duration
}

func run(t *testing.T, c core, rows []row) {
	t.Helper()
	for i, r := range rows {
		cost := max(r.cost, 1)
		a := c.take(r.at, cost, forever)
		if a.Allowed != r.want || a.RetryIn != r.retry {
			t.Errorf("request %d at %v: allowed %v, retry in %v; want %v, %v", i, r.at, a.Allowed, a.RetryIn, r.want, r.retry)
		}
	}
}

func at(min, sec int) time.Duration {
	return time.Duration(min)*time.Minute + time.Duration(sec)*time.Second
}

// REQUIREMENTS R1.8, number by number.
func TestR1_8TheFiveAlgorithmsInNumbers(t *testing.T) {
	t.Parallel()
	two := func(a Algorithm) core { return newCore(0, aLimit(a, 2, time.Second)) }
	for name, tc := range map[string]struct {
		core core
		rows []row
	}{
		"fixed window": {two(FixedWindow), []row{
			{900 * ms, 1, true, 0}, {950 * ms, 1, true, 0}, {1000 * ms, 1, true, 0}, {1050 * ms, 1, true, 0}, {1400 * ms, 1, false, 600 * ms}}},
		"token bucket": {two(TokenBucket), []row{
			{900 * ms, 1, true, 0}, {950 * ms, 1, true, 0}, {1000 * ms, 1, false, 400 * ms}, {1050 * ms, 1, false, 350 * ms}, {1400 * ms, 1, true, 0}}},
		"token bucket, three in one second": {two(TokenBucket), []row{
			{0, 1, true, 0}, {0, 1, true, 0}, {500 * ms, 1, true, 0}, {1000 * ms, 1, true, 0}}},
		"sliding log": {newCore(0, aLimit(SlidingLog, 2, time.Minute)), []row{
			{at(60, 1), 1, true, 0}, {at(60, 30), 1, true, 0}, {at(60, 50), 1, false, 11 * time.Second}, {at(61, 40), 1, true, 0}, {at(61, 45), 1, true, 0}}},
		"sliding log that counts what it denied": {newCore(0, counting(aLimit(SlidingLog, 2, time.Minute))), []row{
			{at(60, 1), 1, true, 0}, {at(60, 30), 1, true, 0}, {at(60, 50), 1, false, 40 * time.Second}, {at(61, 40), 1, true, 0}, {at(61, 45), 1, false, 55 * time.Second}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, tc.core, tc.rows)
		})
	}
}

func counting(l *Limit) *Limit { l.CountDenied = true; return l }

// Limit 7 a minute, 5 in the minute before, 3 in this one, 30 % of it over: 3 + 5*0.7 = 6.5,
// which counts as 6.
func TestR1_8TheSlidingCounterRoundsDown(t *testing.T) {
	t.Parallel()
	c := newCounter(0, aLimit(SlidingCounter, 7, time.Minute))
	for range 5 {
		c.take(30*time.Second, 1, forever)
	}
	now := 78 * time.Second
	for range 3 {
		if a := c.take(now, 1, forever); !a.Allowed {
			t.Fatalf("the first three of this minute: %+v", a)
		}
	}
	if a := c.take(now, 0, forever); a.Left != 1 {
		t.Errorf("the estimate leaves %d, want 1", a.Left)
	}
	if a := c.take(now, 1, forever); !a.Allowed || a.Left != 0 {
		t.Errorf("6 + 1 <= 7: %+v", a)
	}
	a := c.take(now, 1, forever)
	if a.Allowed || a.RetryIn == 0 {
		t.Errorf("the next: %+v", a)
	}
	if b := c.clone().take(now+a.RetryIn-1, 1, forever); b.Allowed || b.RetryIn != 1 {
		t.Errorf("a nanosecond before the time that was named: %+v", b)
	}
	if b := c.take(now+a.RetryIn, 1, forever); !b.Allowed {
		t.Errorf("at the time that was named: %+v", b)
	}
}

// Leaky bucket 10/s, queue 100.
func TestR1_8ALeakyBucketLetsOneLeaveEvery100Ms(t *testing.T) {
	t.Parallel()
	l := aLimit(LeakyBucket, 10, time.Second)
	l.Capacity = 100
	q := newCore(0, l)
	for i := range 100 {
		now := time.Duration(i) * ms / 100
		a := q.take(now, 1, forever)
		// Which leave one per 100 ms, from the first on.
		if !a.Allowed || now+a.Delay != time.Duration(i)*100*ms {
			t.Fatalf("request %d leaves at %v (%+v), want %v", i, now+a.Delay, a, time.Duration(i)*100*ms)
		}
	}
	if a := q.take(ms, 1, forever); a.Allowed || a.RetryIn != 99*ms {
		t.Errorf("the 101st: %+v, want one that is dropped and fits in 99 ms", a)
	}
	if a := q.take(100*ms, 1, forever); !a.Allowed || a.Delay != 9900*ms {
		t.Errorf("once one has left: %+v", a)
	}
}

// A caller who does not wait so long is told at once, and takes no place.
func TestAShapedCallerWhoseTimeIsTooShortTakesNoPlace(t *testing.T) {
	t.Parallel()
	q := newCore(0, aLimit(LeakyBucket, 10, time.Second))
	q.take(0, 1, 0)
	if a := q.take(0, 1, 60*ms); a.Allowed || a.RetryIn != 40*ms {
		t.Errorf("its turn is in 100 ms and it waits 60: %+v", a)
	}
	if a := q.take(40*ms, 1, 60*ms); !a.Allowed || a.Delay != 60*ms {
		t.Errorf("40 ms later: %+v", a)
	}
}

// A place at the end of the queue is given up; one with others behind it passes unused, because
// those have been told their times.
func TestAPlaceInTheMiddleOfTheQueuePassesUnused(t *testing.T) {
	t.Parallel()
	q := newCore(0, aLimit(LeakyBucket, 10, time.Second))
	first, second := q.take(0, 1, forever), q.take(0, 1, forever)
	q.giveBack(0, 1, first.mark)
	if a := q.take(0, 0, forever); a.Left != 8 {
		t.Errorf("%d places are left, want 8: there is one behind it", a.Left)
	}
	q.giveBack(0, 1, second.mark)
	if a := q.take(0, 1, forever); !a.Allowed || a.Delay != 100*ms {
		t.Errorf("the last place, given up and taken again: %+v", a)
	}
}

// every runs a test for each algorithm that counts use.
func every(t *testing.T, test func(t *testing.T, a Algorithm)) {
	t.Helper()
	for _, a := range Algorithms {
		if a == Concurrency {
			continue
		}
		t.Run(string(a), func(t *testing.T) {
			t.Parallel()
			test(t, a)
		})
	}
}

func TestR1_3CostAboveCapacityIsTooLarge(t *testing.T) {
	t.Parallel()
	every(t, func(t *testing.T, a Algorithm) {
		l := aLimit(a, 10, time.Second)
		c := newCore(0, l)
		if got := c.take(0, 20, forever); got.Allowed || !got.TooLarge || got.RetryIn != 0 || l.Most() != 10 {
			t.Errorf("20 of 10: %+v, largest %d", got, l.Most())
		}
		if got := c.take(0, 10, forever); !got.Allowed {
			t.Errorf("10 of 10: %+v", got)
		}
	})
}

func TestR1_4AClockThatGoesBackAddsNothing(t *testing.T) {
	t.Parallel()
	every(t, func(t *testing.T, a Algorithm) {
		c := newCore(0, aLimit(a, 10, time.Second))
		c.take(time.Hour, 10, forever)
		for _, now := range []time.Duration{time.Hour - 1, time.Hour - 10*time.Second, 0, -time.Hour} {
			got := c.take(now, 1, forever)
			if got.Allowed {
				t.Errorf("at %v, after an hour: %+v", now, got)
			}
			if b := c.clone().take(now+got.RetryIn, 1, forever); !b.Allowed {
				t.Errorf("at %v it was told %v, and then: %+v", now, got.RetryIn, b)
			}
		}
		if got := c.take(time.Hour, 1, forever); got.Allowed {
			t.Errorf("back at the hour: %+v", got)
		}
	})
}

// REQUIREMENTS R1.13: two agents, one after the other, let no more through than one.
func TestR1_13LocalLimitsStartEmpty(t *testing.T) {
	t.Parallel()
	every(t, func(t *testing.T, a Algorithm) {
		l := aLimit(a, 10, time.Second)
		l.StartFull = false
		c := newCore(300*ms, l)
		got := c.take(300*ms, 1, forever)
		if a == LeakyBucket {
			if !got.Allowed || got.Delay != 100*ms {
				t.Errorf("one may have left just before: %+v", got)
			}
			return
		}
		if got.Allowed || got.RetryIn <= 0 {
			t.Fatalf("at the start: %+v", got)
		}
		if again := c.take(300*ms+got.RetryIn, 1, forever); !again.Allowed {
			t.Errorf("at the time that was named: %+v", again)
		}
		if l.StartFull = true; !newCore(300*ms, l).take(300*ms, 10, forever).Allowed {
			t.Error("start: full lets the whole limit pass")
		}
	})
}

// REQUIREMENTS R1.14: what was used stays used.
func TestR1_14ChangingALimitDoesNotRefill(t *testing.T) {
	t.Parallel()
	every(t, func(t *testing.T, a Algorithm) {
		c := newCore(0, aLimit(a, 10, time.Second))
		c.take(100*ms, 10, forever)
		for _, units := range []quota.Units{10, 4, 10, 12} {
			c.reconfigure(100*ms, aLimit(a, units, time.Second))
			if got := c.take(100*ms, 0, forever); got.Left != max(units-10, 0) {
				t.Errorf("10 of %d are used, and %d left", units, got.Left)
			}
		}
		c.reconfigure(100*ms, aLimit(a, 10, time.Minute))
		if got := c.take(100*ms, 1, forever); got.Allowed {
			t.Errorf("a longer time refills nothing: %+v", got)
		}
	})
}

func TestWhatIsGivenBackCanBeTakenAgain(t *testing.T) {
	t.Parallel()
	every(t, func(t *testing.T, a Algorithm) {
		c := newCore(0, aLimit(a, 10, time.Second))
		c.take(100*ms, 3, forever)
		got := c.take(200*ms, 7, forever)
		if !got.Allowed {
			t.Fatal(got)
		}
		before := c.take(200*ms, 0, forever).Left
		c.giveBack(200*ms, 7, got.mark)
		if after := c.take(200*ms, 0, forever).Left; after != before+7 {
			t.Errorf("%d were left, 7 came back, and %d are", before, after)
		}
		late := c.take(300*ms, 5, forever)
		now := 5 * time.Second
		c.giveBack(now, 5, late.mark)
		if after := c.take(now, 0, forever).Left; after != 10 {
			t.Errorf("what came back long after its time makes %d of 10", after)
		}
		if !c.rest(now) {
			t.Error("nothing that was used counts any more")
		}
	})
}

func TestALimitOfZeroDeniesEverything(t *testing.T) {
	t.Parallel()
	every(t, func(t *testing.T, a Algorithm) {
		for _, full := range []bool{true, false} {
			l := aLimit(a, 0, time.Second)
			l.StartFull = full
			c := newCore(0, l)
			if got := c.take(time.Hour, 1, forever); got.Allowed || got.RetryIn != 0 {
				t.Errorf("start full %v: %+v", full, got)
			}
		}
	})
}
