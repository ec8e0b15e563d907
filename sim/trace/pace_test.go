package trace

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/quotalease/quotalease/ledger/quota"
)

func TestDue(t *testing.T) {
	t.Parallel()
	first := time.Unix(1_700_000_000, 0)
	for _, c := range []struct {
		after time.Duration
		speed float64
		want  time.Duration
	}{
		{0, 1, 0},
		{10 * time.Second, 1, 10 * time.Second},
		{10 * time.Second, 10, time.Second},
		{10 * time.Second, 0.5, 20 * time.Second},
		{10 * time.Second, 0, 0},
		{-10 * time.Second, 1, 0},
		{72 * time.Hour, 4320, time.Minute},
		{10 * time.Second, 1e-300, math.MaxInt64},
		{10 * time.Second, math.SmallestNonzeroFloat64, math.MaxInt64},
		{math.MaxInt64, 1, math.MaxInt64},
	} {
		if got := Due(first, first.Add(c.after), c.speed); got != c.want {
			t.Errorf("%v after the first at speed %v is due at %v, want %v", c.after, c.speed, got, c.want)
		}
	}
}

func TestDueKeepsTheOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		first := time.Unix(0, 0)
		gap := rapid.Int64Range(0, math.MaxInt64)
		a, b := gap.Draw(t, "a"), gap.Draw(t, "b")
		speed := rapid.Float64Min(0).Draw(t, "speed")
		early := Due(first, first.Add(time.Duration(min(a, b))), speed)
		late := Due(first, first.Add(time.Duration(max(a, b))), speed)
		if early < 0 || early > late {
			t.Fatalf("due at %v and %v", early, late)
		}
	})
}

// pacing is the machine's clock and Sleep, for use in a bubble of fake time.
func pacing(speed float64) Pacing { return Pacing{Speed: speed, Now: time.Now, Sleep: Sleep} }

func TestPaceEmitsWhenDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := eventsOf("a/x 0", "a/x 1", "a/x 2", "a/x 3", "a/x 4") // a second apart
		start := time.Now()
		var at []time.Duration
		var done []int
		p := pacing(2)
		p.Progress = func(n, total int) { done = append(done, n*10+total) }
		err := Pace(t.Context(), events, p, func(e Event) error {
			at = append(at, time.Since(start))
			if e.Cost == 1 {
				time.Sleep(1200 * time.Millisecond) // a slow request makes the next two late
			}
			return nil
		})
		ms := time.Millisecond
		if want := []time.Duration{0, 500 * ms, 1700 * ms, 1700 * ms, 2000 * ms}; err != nil || !slices.Equal(at, want) {
			t.Errorf("emitted at %v, %v, want %v", at, err, want)
		}
		if want := []int{15, 25, 35, 45, 55}; !slices.Equal(done, want) {
			t.Errorf("progress %v", done)
		}
	})
}

func TestPaceWithoutPausesNeedsNoClock(t *testing.T) {
	t.Parallel()
	events, _ := loadFile(t, filepath.Join("testdata", "access.log"))
	var got []Event
	err := Pace(t.Context(), events, Pacing{}, func(e Event) error {
		got = append(got, e)
		return nil
	})
	if err != nil || !slices.Equal(got, events) {
		t.Errorf("%d of %d events, %v", len(got), len(events), err)
	}
}

func TestPaceEndsWithItsContextOrTheFirstTrouble(t *testing.T) {
	t.Parallel()
	events := eventsOf("a/x 0", "a/x 1", "a/x 2")
	broken := errors.New("agent is gone")
	count := 0
	emit := func(Event) error { count++; return nil }
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		start := time.Now()
		err := Pace(ctx, events, pacing(1), emit)
		if !errors.Is(err, context.DeadlineExceeded) || count != 2 || time.Since(start) != 1500*time.Millisecond {
			t.Errorf("after %v and %d events: %v", time.Since(start), count, err)
		}
		count = 0
		if err := Pace(ctx, events, Pacing{}, emit); !errors.Is(err, context.DeadlineExceeded) || count != 0 {
			t.Errorf("with a context that has ended: %d events, %v", count, err)
		}
	})
	err := Pace(t.Context(), events, Pacing{}, func(e Event) error {
		if e.Cost == 1 {
			return broken
		}
		return nil
	})
	if !errors.Is(err, broken) || err.Error() != "replay event 2 of 3: agent is gone" {
		t.Errorf("got %v", err)
	}
}

func TestPaceRefusesSpeedsThatAreNone(t *testing.T) {
	t.Parallel()
	for _, speed := range []float64{-1, math.NaN(), math.Inf(1), math.Inf(-1)} {
		err := Pace(t.Context(), nil, pacing(speed), func(Event) error { return nil })
		if _, ok := errors.AsType[*quota.FieldError](err); !ok {
			t.Errorf("speed %v: %v", speed, err)
		}
	}
}
