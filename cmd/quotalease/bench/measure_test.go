package bench

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const ms = time.Millisecond

// clockwork is a meter whose clock moves only as subjects work.
type clockwork struct {
	mu  sync.Mutex // guards at
	at  time.Time
	cpu time.Duration
}

func (c *clockwork) meter() meter {
	return meter{
		now: func() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.at },
		cpu: func() (time.Duration, error) { return c.cpu, nil },
	}
}

func (c *clockwork) work(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func TestASampleIsOfWhatWasDone(t *testing.T) {
	t.Parallel()
	var lasted []time.Duration
	for i := range 200 {
		lasted = append(lasted, time.Duration(200-i)*ms)
	}
	got := sampleOf(lasted, 4, 2*time.Second, 800*ms)
	want := Sample{PerSecond: 400, P50ms: 100, P99ms: 198, CPUus: 1000}
	if got != want {
		t.Errorf("200 calls of 4 in 2 s: %+v, want %+v", got, want)
	}
	if got := sampleOf(nil, 4, 0, 0); got != (Sample{}) {
		t.Errorf("of nothing: %+v", got)
	}
}

func TestMediansAreOfEachNumberByItself(t *testing.T) {
	t.Parallel()
	got := medianOf([]Sample{{1, 30, 5, 7}, {3, 10, 4, 7}, {2, 20, 900, 7}})
	if want := (Sample{2, 20, 5, 7}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := spreadOf([]Sample{{PerSecond: 80}, {PerSecond: 100}, {PerSecond: 130}}); got != 0.5 {
		t.Errorf("from 80 to 130 around 100: spread %v, want half", got)
	}
	if got := spreadOf(nil); got != 0 {
		t.Errorf("spread of nothing: %v", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		of := rapid.SliceOfN(rapid.Float64Range(0, 1e6), 1, 9).Draw(t, "rounds")
		m := median(of)
		below, above := 0, 0
		for _, v := range of {
			if v < m {
				below++
			}
			if v > m {
				above++
			}
		}
		if 2*below > len(of) || 2*above > len(of) {
			t.Fatalf("median of %v: %v", of, m)
		}
	})
}

func TestRoundsAreInterleaved(t *testing.T) {
	t.Parallel()
	c := &clockwork{}
	var order []string
	made := func(name string, each time.Duration) subject {
		return subject{name, func(context.Context) (*opened, error) {
			return &opened{workers: 1, per: 1, close: func(context.Context) error { order = append(order, "end "+name); return nil },
				do: func(context.Context, int) error { order = append(order, name); c.work(each); return nil }}, nil
		}}
	}
	s := scene{"some", []subject{made("a", 10*ms), made("b", 5*ms), made("c", 20*ms)}}
	results, err := c.meter().play(t.Context(), s, 2, 20*ms, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Compact(order); !slices.Equal(got, []string{"a", "b", "c", "a", "b", "c", "b", "c", "a", "end a", "end b", "end c"}) {
		t.Errorf("order: %v", got)
	}
	for i, want := range []float64{100, 200, 50} {
		if r := results[i]; r.Median.PerSecond != want || len(r.Rounds) != 2 || r.Scene != "some" {
			t.Errorf("%+v, want %v/s in each of 2 rounds", r, want)
		}
	}
}

func TestACallThatFailsEndsTheSceneAndClosesAll(t *testing.T) {
	t.Parallel()
	broken, closed, calls := errors.New("broken"), 0, 0
	s := scene{"some", []subject{{"a", func(context.Context) (*opened, error) {
		return &opened{workers: 1, per: 1, close: func(context.Context) error { closed++; return nil },
			do: func(context.Context, int) error {
				if calls++; calls == 3 {
					return broken
				}
				return nil
			}}, nil
	}}}}
	c := &clockwork{}
	if _, err := c.meter().play(t.Context(), s, 1, ms, func(string) {}); !errors.Is(err, broken) || closed != 1 {
		t.Errorf("%v, closed %d times; want what broke, and once", err, closed)
	}
}
