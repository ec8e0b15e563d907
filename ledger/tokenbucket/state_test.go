package tokenbucket_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quotalease/quotalease/ledger/quota"
	"github.com/quotalease/quotalease/ledger/tokenbucket"
)

func TestRestoredBucketsGoOnAlike(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		config := drawConfig(t)
		b, err := tokenbucket.New(config, 0, rapid.Bool().Draw(t, "full"))
		if err != nil {
			t.Fatal(err)
		}
		now := time.Duration(0)
		for range rapid.IntRange(1, 10).Draw(t, "takes") {
			now += drawStep(t)
			if _, err := b.Take(now, drawCost(t, config.Burst)); err != nil {
				t.Fatal(err)
			}
		}
		// Stored at its own time, as the ledger does, so that all later readings count from there.
		s := b.State()
		shift := s.Now
		s.Now = 0
		again, err := tokenbucket.Restore(config, s)
		if err != nil {
			t.Fatal(err)
		}
		now = max(now, shift) + max(drawStep(t), 0)
		cost := drawCost(t, config.Burst)
		want, _ := b.Take(now, cost)
		if got, _ := again.Take(now-shift, cost); got != want {
			t.Fatalf("take %d at %d: %+v, want %+v as before it was stored", cost, now, got, want)
		}
	})
}

func TestRestoreTakesNoNonsense(t *testing.T) {
	t.Parallel()
	config := perSecond(1, 10)
	full := newBucket(t, config, 0, true)
	for _, s := range []tokenbucket.State{{Spent: -5}, {Part: 5}, {Spent: math.MinInt64, Part: -1}} {
		b, err := tokenbucket.Restore(config, s)
		if err != nil || b != *full {
			t.Errorf("%+v: %+v, %v, want a full bucket", s, b, err)
		}
	}
	b, err := tokenbucket.Restore(config, tokenbucket.State{Spent: 5, Part: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	want(t, &b, 0, 6, false, 5, time.Second) // a whole unit is no part of one
	_, err = tokenbucket.Restore(tokenbucket.Config{}, tokenbucket.State{})
	wantField(t, err, "per: above 0")
}

func TestChargeGoesBelowZero(t *testing.T) {
	t.Parallel()
	b := newBucket(t, perSecond(10, 20), 0, true)
	if err := b.Charge(0, 50); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		now   time.Duration
		level quota.Units
		until time.Duration // one unit is there
	}{{0, -30, 3100 * ms}, {time.Second, -20, 2100 * ms}, {2950 * ms, -1, 150 * ms}, {3 * time.Second, 0, 100 * ms}, {3100 * ms, 1, 0}, {time.Hour, 20, 0}} {
		if got := b.Level(c.now); got != c.level {
			t.Errorf("level at %v: %d, want %d", c.now, got, c.level)
		}
		if got := b.Until(c.now, 1); got != c.until {
			t.Errorf("one unit at %v: in %v, want %v", c.now, got, c.until)
		}
	}
	before := *b
	wantField(t, b.Charge(time.Hour, -1), "charge: 0 or above")
	if err := b.Charge(time.Hour, quota.MaxUnits); err != nil {
		t.Fatal(err)
	}
	if err := b.Charge(time.Hour, 1); !errors.Is(err, quota.ErrOverflow) {
		t.Errorf("one above all that can be owed: %v", err)
	}
	if got := before.Until(time.Hour, 21); got != math.MaxInt64 {
		t.Errorf("more than the burst is there in %v, want never", got)
	}
	still := newBucket(t, perSecond(0, 20), 0, false)
	if got := still.Until(0, 1); got != math.MaxInt64 {
		t.Errorf("without a rate one unit is there in %v, want never", got)
	}
	if got := still.Until(0, 0); got != 0 {
		t.Errorf("nothing is there in %v, want at once", got)
	}
}
