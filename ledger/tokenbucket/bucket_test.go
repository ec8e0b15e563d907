package tokenbucket_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
	"github.com/quotalease/quotalease/ledger/tokenbucket"
)

const ms = time.Millisecond

func perSecond(rate, burst quota.Units) tokenbucket.Config {
	return tokenbucket.Config{Rate: rate, Per: time.Second, Burst: burst}
}

func newBucket(t testing.TB, config tokenbucket.Config, now time.Duration, full bool) *tokenbucket.Bucket {
	t.Helper()
	b, err := tokenbucket.New(config, now, full)
	if err != nil {
		t.Fatal(err)
	}
	return &b
}

func take(t testing.TB, b *tokenbucket.Bucket, now time.Duration, cost quota.Units) tokenbucket.Answer {
	t.Helper()
	answer, err := b.Take(now, cost)
	if err != nil {
		t.Fatalf("take %d at %v: %v", cost, now, err)
	}
	return answer
}

// want checks a take against what the caller should see.
func want(t testing.TB, b *tokenbucket.Bucket, now time.Duration, cost quota.Units, allowed bool, left quota.Units, retryIn time.Duration) {
	t.Helper()
	got := take(t, b, now, cost)
	expected := tokenbucket.Answer{Allowed: allowed, Left: left, RetryIn: retryIn, Largest: b.Config().Burst}
	if got != expected {
		t.Errorf("take %d at %v: %+v, want %+v", cost, now, got, expected)
	}
}

func wantField(t testing.TB, err error, message string) {
	t.Helper()
	var field *quota.FieldError
	if !errors.As(err, &field) || err.Error() != message {
		t.Errorf("refused with %v, want %q", err, message)
	}
}

func TestR1_1RefillAndDeductAreOneStep(t *testing.T) {
	t.Parallel()
	b := newBucket(t, perSecond(10, 20), 0, true)
	want(t, b, 5*time.Second, 7, true, 13, 0)
	want(t, b, 5*time.Second, 7, true, 6, 0)
	want(t, b, 5*time.Second, 7, false, 6, 100*ms)
	want(t, b, 5*time.Second, 6, true, 0, 0) // the refusal charged nothing
}

func TestR1_2AnyIntervalAdmitsAtMostBurstPlusRate(t *testing.T) {
	t.Parallel()
	b := newBucket(t, perSecond(10, 20), 0, true)
	admitted := 0
	for range 30 {
		if take(t, b, 0, 1).Allowed {
			admitted++
		}
	}
	if admitted != 20 {
		t.Fatalf("%d at once, want 20", admitted)
	}
	for now := time.Duration(0); now <= time.Second; now += ms {
		if take(t, b, now, 1).Allowed {
			admitted++
		}
	}
	if admitted != 30 {
		t.Errorf("%d within the next second, want 10", admitted-20)
	}
}

func TestR1_3CostAboveCapacityIsTooLarge(t *testing.T) {
	t.Parallel()
	b := newBucket(t, perSecond(1, 10), 0, true)
	if got, expected := take(t, b, 0, 20), (tokenbucket.Answer{Left: 10, TooLarge: true, Largest: 10}); got != expected {
		t.Errorf("cost 20 of 10: %+v, want %+v", got, expected)
	}
	want(t, b, 0, 10, true, 0, 0)
}

func TestR1_4AClockThatGoesBackAddsNothing(t *testing.T) {
	t.Parallel()
	b := newBucket(t, perSecond(10, 10), 10*time.Second, true)
	want(t, b, 10*time.Second, 10, true, 0, 0)
	// 1 s back, and the way back costs a second before the first token comes.
	want(t, b, 9*time.Second, 1, false, 0, 1100*ms)
	want(t, b, 10*time.Second, 1, false, 0, 100*ms)
	want(t, b, 10*time.Second+99*ms, 1, false, 0, ms)
	want(t, b, 10*time.Second+100*ms, 1, true, 0, 0)
}

func TestR1_5RetryAfterIsWhenTheCostFits(t *testing.T) {
	t.Parallel()
	b := newBucket(t, perSecond(1, 3), 0, true)
	for _, step := range []struct {
		at         time.Duration
		allowed    bool
		left       quota.Units
		retryIn    time.Duration
		retryAfter int64
	}{
		{0, true, 2, 0, 0},
		{100 * ms, true, 1, 0, 0},
		{200 * ms, true, 0, 0, 0},
		{300 * ms, false, 0, 700 * ms, 1},
		{500 * ms, false, 0, 500 * ms, 1},
		{1300 * ms, true, 0, 0, 0},
		{1400 * ms, false, 0, 600 * ms, 1},
		{3500 * ms, true, 1, 0, 0},
	} {
		want(t, b, step.at, 1, step.allowed, step.left, step.retryIn)
		if got := tokenbucket.RetryAfterSeconds(step.retryIn); !step.allowed && got != step.retryAfter {
			t.Errorf("at %v: Retry-After %d, want %d", step.at, got, step.retryAfter)
		}
	}
}

func TestRetryAfterSecondsRoundsUp(t *testing.T) {
	t.Parallel()
	for d, seconds := range map[time.Duration]int64{
		-time.Second: 1, 0: 1, 1: 1, time.Second: 1, time.Second + 1: 2, 1900 * ms: 2, 40 * time.Second: 40, math.MaxInt64: 9223372037,
	} {
		if got := tokenbucket.RetryAfterSeconds(d); got != seconds {
			t.Errorf("%v: %d, want %d", d, got, seconds)
		}
	}
}

func TestR1_6KeysAreIndependent(t *testing.T) {
	t.Parallel()
	alice, bob := newBucket(t, perSecond(1, 3), 0, true), newBucket(t, perSecond(1, 3), 0, true)
	want(t, alice, 0, 1, true, 2, 0)
	want(t, alice, 100*ms, 1, true, 1, 0)
	want(t, alice, 200*ms, 1, true, 0, 0)
	want(t, bob, 250*ms, 1, true, 2, 0)
	want(t, alice, 300*ms, 1, false, 0, 700*ms)
	want(t, bob, 400*ms, 1, true, 1, 0)
	want(t, alice, 1300*ms, 1, true, 0, 0)
}

func TestR1_7DefaultsUsableByAnAPI(t *testing.T) {
	t.Parallel()
	b := newBucket(t, perSecond(2, 120), 0, true)
	for n := range quota.Units(120) {
		want(t, b, 0, 1, true, 119-n, 0)
	}
	want(t, b, 0, 1, false, 0, 500*ms)
	if got := tokenbucket.RetryAfterSeconds(500 * ms); got != 1 {
		t.Errorf("Retry-After %d, want 1", got)
	}
}

func TestR1_14ReconfigureDoesNotRefill(t *testing.T) {
	t.Parallel()
	reconfigure := func(b *tokenbucket.Bucket, now time.Duration, c tokenbucket.Config) {
		t.Helper()
		if err := b.Reconfigure(now, c); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("raised: the difference and no more", func(t *testing.T) {
		b := newBucket(t, perSecond(1, 10), 0, true)
		want(t, b, 0, 10, true, 0, 0)
		reconfigure(b, 0, perSecond(1, 20))
		want(t, b, 0, 0, true, 10, 0)
	})
	t.Run("lowered below what is spent, and raised again", func(t *testing.T) {
		b := newBucket(t, perSecond(10, 100), 0, true)
		want(t, b, 0, 90, true, 10, 0)
		reconfigure(b, 0, perSecond(10, 50))
		want(t, b, 0, 1, false, 0, 4100*ms) // 40 over, then one
		for range 100 {
			reconfigure(b, 0, perSecond(10, 100))
			want(t, b, 0, 0, true, 10, 0)
			reconfigure(b, 0, perSecond(10, 50))
		}
		want(t, b, 4100*ms, 1, true, 0, 0)
	})
	t.Run("the old rate holds until the change, the new one after", func(t *testing.T) {
		b := newBucket(t, perSecond(10, 100), 0, false)
		reconfigure(b, 2*time.Second, perSecond(1, 100))
		want(t, b, 12*time.Second, 0, true, 30, 0)
	})
	t.Run("part of a unit survives a new per", func(t *testing.T) {
		b := newBucket(t, tokenbucket.Config{Rate: 1, Per: time.Second, Burst: 5}, 0, false)
		reconfigure(b, 500*ms, tokenbucket.Config{Rate: 1, Per: time.Minute, Burst: 5})
		want(t, b, 500*ms, 1, false, 0, 30*time.Second)
	})
	t.Run("a bad config changes nothing", func(t *testing.T) {
		b := newBucket(t, perSecond(10, 100), 0, false)
		before := *b
		wantField(t, b.Reconfigure(time.Second, perSecond(-1, 100)), "rate: 0 to 4611686018427387904")
		if *b != before {
			t.Errorf("bucket %+v, was %+v", *b, before)
		}
	})
}

func TestW5SamePolicyAgain(t *testing.T) {
	t.Parallel()
	b := newBucket(t, perSecond(1, 100), 0, true)
	want(t, b, 0, 97, true, 3, 0)
	before := *b
	for range 1000 {
		if err := b.Reconfigure(0, perSecond(1, 100)); err != nil {
			t.Fatal(err)
		}
	}
	if *b != before {
		t.Errorf("bucket %+v, was %+v", *b, before)
	}
	want(t, b, 0, 0, true, 3, 0)
}

func TestC1StaleNow(t *testing.T) {
	t.Parallel()
	b := newBucket(t, perSecond(10, 10), 10*time.Second, true)
	want(t, b, 10*time.Second, 10, true, 0, 0)
	for range 100 {
		want(t, b, 9*time.Second, 1, false, 0, 1100*ms)
		want(t, b, 10*time.Second, 1, false, 0, 100*ms)
		if err := b.Refund(9*time.Second, 0); err != nil {
			t.Fatal(err)
		}
		want(t, b, 10*time.Second, 1, false, 0, 100*ms)
		if err := b.Reconfigure(9*time.Second, perSecond(10, 10)); err != nil {
			t.Fatal(err)
		}
	}
	want(t, b, 10*time.Second, 1, false, 0, 100*ms)
}

func TestC5NegativeDurations(t *testing.T) {
	t.Parallel()
	b := newBucket(t, perSecond(10, 10), 0, true)
	want(t, b, -time.Second, 4, true, 6, 0) // what is there may be taken
	want(t, b, -time.Second, 7, false, 6, 1100*ms)
	want(t, b, 100*ms, 7, true, 0, 0) // and the bucket goes on, once the clock does

	b = newBucket(t, perSecond(10, 10), math.MinInt64, false)
	want(t, b, math.MaxInt64, 0, true, 10, 0) // 584 years are more than a Duration holds
	want(t, b, math.MinInt64, 10, true, 0, 0)
	want(t, b, math.MinInt64, 1, false, 0, math.MaxInt64)
}

// Not parallel: other tests' allocations would be counted.
func TestTakeDoesNotAllocate(t *testing.T) {
	b := newBucket(t, perSecond(1000, 1000), 0, true)
	now := time.Duration(0)
	if allocs := testing.AllocsPerRun(1000, func() {
		now += ms / 2
		take(t, b, now, 1)
		take(t, b, now, 2000)
	}); allocs != 0 {
		t.Errorf("%v allocations a take, want 0", allocs)
	}
}

func BenchmarkTake(b *testing.B) {
	bucket := newBucket(b, perSecond(1000, 1000), 0, true)
	now := time.Duration(0)
	b.ReportAllocs()
	for b.Loop() {
		now += ms / 2 // twice as fast as the rate: half pass, half are denied
		if _, err := bucket.Take(now, 1); err != nil {
			b.Fatal(err)
		}
	}
}
