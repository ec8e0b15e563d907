package tokenbucket_test

import (
	"math"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
	"github.com/quotalease/quotalease/ledger/tokenbucket"
)

func TestC6LongIdle(t *testing.T) {
	t.Parallel()
	const days = 24 * time.Hour
	b := newBucket(t, perSecond(1e6, 1e6), 0, true)
	want(t, b, 0, 1e6, true, 0, 0)
	want(t, b, 300*days, 0, true, 1e6, 0)

	b = newBucket(t, perSecond(tokenbucket.Max, tokenbucket.Max), 0, false)
	want(t, b, 300*days, tokenbucket.Max, true, 0, 0)

	slow := newBucket(t, tokenbucket.Config{Rate: 1, Per: math.MaxInt64, Burst: tokenbucket.Max}, 0, false)
	want(t, slow, math.MaxInt64, 0, true, 1, 0)
	want(t, slow, math.MaxInt64, 2, false, 1, math.MaxInt64)
	want(t, slow, math.MaxInt64, tokenbucket.Max, false, 1, math.MaxInt64)
}

func TestA3RefundsAreClamped(t *testing.T) {
	t.Parallel()
	b := newBucket(t, perSecond(1, 10), 0, false)
	if err := b.Refund(0, 1); err != nil {
		t.Fatal(err)
	}
	want(t, b, 0, 0, true, 1, 0)
	for _, n := range []quota.Units{10, quota.MaxUnits} {
		if err := b.Refund(500*ms, n); err != nil {
			t.Fatal(err)
		}
		want(t, b, 500*ms, 0, true, 10, 0)
	}
	want(t, b, 500*ms, 10, true, 0, 0)
	want(t, b, 500*ms, 1, false, 0, time.Second) // no part of a unit above the burst was kept

	before := *b
	wantField(t, b.Refund(time.Hour, -1), "refund: 0 or above")
	if *b != before {
		t.Errorf("bucket %+v, was %+v", *b, before)
	}
}

func TestA4ZeroDeniesEverything(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	noRate := newBucket(t, perSecond(0, 10), 0, false)
	want(t, noRate, year, 1, false, 0, 0)
	want(t, noRate, year, 0, true, 0, 0)

	for name, b := range map[string]*tokenbucket.Bucket{
		"burst 0":          newBucket(t, perSecond(10, 0), 0, true),
		"rate and burst 0": newBucket(t, perSecond(0, 0), 0, true),
		"zero value":       {},
	} {
		if got, expected := take(t, b, year, 1), (tokenbucket.Answer{TooLarge: true}); got != expected {
			t.Errorf("%s: %+v, want %+v", name, got, expected)
		}
		want(t, b, year, 0, true, 0, 0)
		if err := b.Refund(year, 5); err != nil {
			t.Errorf("%s: refund: %v", name, err)
		}
		if got := take(t, b, year, 0).Left; got != 0 {
			t.Errorf("%s: a refund left %d", name, got)
		}
	}

	stopped := newBucket(t, perSecond(1, 10), 0, true)
	want(t, stopped, 0, 10, true, 0, 0)
	if err := stopped.Reconfigure(0, perSecond(0, 10)); err != nil {
		t.Fatal(err)
	}
	want(t, stopped, year, 1, false, 0, 0)
}

func TestA5CostZeroIsALook(t *testing.T) {
	t.Parallel()
	empty, full := newBucket(t, perSecond(1, 10), 0, false), newBucket(t, perSecond(1, 10), 0, true)
	for range 3 {
		want(t, empty, 0, 0, true, 0, 0)
		want(t, full, 0, 0, true, 10, 0)
	}
	want(t, empty, 1500*ms, 0, true, 1, 0)
	want(t, empty, 2000*ms, 2, true, 0, 0) // looking half way through a unit lost none of it
	want(t, full, 0, 10, true, 0, 0)
}

func TestA6CostEqualToAndAboveCapacity(t *testing.T) {
	t.Parallel()
	b := newBucket(t, perSecond(10, 10), 0, true)
	want(t, b, 0, 1, true, 9, 0)
	want(t, b, 0, 10, false, 9, 100*ms)
	want(t, b, 100*ms-1, 10, false, 9, 1)
	want(t, b, 100*ms, 10, true, 0, 0)

	want(t, b, 600*ms, 0, true, 5, 0)
	for _, cost := range []quota.Units{11, quota.MaxUnits} {
		if got, expected := take(t, b, 600*ms, cost), (tokenbucket.Answer{Left: 5, TooLarge: true, Largest: 10}); got != expected {
			t.Errorf("cost %d: %+v, want %+v", cost, got, expected)
		}
	}
	want(t, b, 600*ms, 5, true, 0, 0) // others are unaffected
}

func TestA8VeryHighRates(t *testing.T) {
	t.Parallel()
	minute := newBucket(t, tokenbucket.Config{Rate: 1000, Per: time.Minute, Burst: 1000}, 0, true)
	for n := range quota.Units(1000) {
		want(t, minute, 0, 1, true, 999-n, 0)
	}
	want(t, minute, 0, 1, false, 0, 60*ms)

	fast := newBucket(t, perSecond(6000, 6000), 0, true)
	for n := range quota.Units(6000) {
		want(t, fast, 0, 1, true, 5999-n, 0)
	}
	want(t, fast, 0, 1, false, 0, 166_667) // a third of a nanosecond is rounded up
	want(t, fast, 166_666, 1, false, 0, 1)
	for now := time.Duration(0); now <= time.Second; now += 10_000 { // many looks lose nothing
		want(t, fast, now, 0, true, quota.Units(now*6000/time.Second), 0)
	}

	// Several units within one nanosecond.
	b := newBucket(t, tokenbucket.Config{Rate: 7e9, Per: time.Second, Burst: 100}, 0, false)
	want(t, b, 1, 0, true, 7, 0)
	want(t, b, 1, 8, false, 7, 1)
	// Far less than one unit within a nanosecond.
	b = newBucket(t, tokenbucket.Config{Rate: 1, Per: 24 * time.Hour, Burst: 1}, 0, false)
	for now := time.Duration(0); now < 24*time.Hour; now += time.Minute {
		want(t, b, now, 1, false, 0, 24*time.Hour-now)
	}
	want(t, b, 24*time.Hour, 1, true, 0, 0)
}

func TestNegativeCostIsRefused(t *testing.T) {
	t.Parallel()
	b := newBucket(t, perSecond(1, 10), 0, false)
	before := *b
	for _, cost := range []quota.Units{-1, math.MinInt64} {
		_, err := b.Take(time.Hour, cost)
		wantField(t, err, "cost: 0 or above")
	}
	if *b != before {
		t.Errorf("bucket %+v, was %+v", *b, before)
	}
}

func TestRefusedConfigs(t *testing.T) {
	t.Parallel()
	const upTo = "0 to 4611686018427387904"
	for _, tc := range []struct {
		config tokenbucket.Config
		want   string
	}{
		{perSecond(-1, 1), "rate: " + upTo},
		{perSecond(tokenbucket.Max+1, 1), "rate: " + upTo},
		{perSecond(quota.MaxUnits, 1), "rate: " + upTo},
		{perSecond(1, -1), "burst: " + upTo},
		{perSecond(1, quota.MaxUnits), "burst: " + upTo},
		{tokenbucket.Config{Rate: 1, Burst: 1}, "per: above 0"},
		{tokenbucket.Config{Rate: 1, Per: -time.Second, Burst: 1}, "per: above 0"},
	} {
		b, err := tokenbucket.New(tc.config, 0, true)
		wantField(t, err, tc.want)
		if b != (tokenbucket.Bucket{}) {
			t.Errorf("config %+v made %+v", tc.config, b)
		}
	}
}
