package tokenbucket_test

import (
	"math"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quotalease/quotalease/ledger/quota"
	"github.com/quotalease/quotalease/ledger/tokenbucket"
)

func drawConfig(t *rapid.T) tokenbucket.Config {
	units := rapid.OneOf(rapid.Int64Range(0, 20), rapid.Int64Range(0, 1e6), rapid.Int64Range(0, int64(tokenbucket.Max)))
	per := rapid.OneOf(rapid.SampledFrom([]int64{int64(time.Second), int64(time.Minute), int64(24 * time.Hour)}), rapid.Int64Range(1, 1e12))
	return tokenbucket.Config{
		Rate:  quota.Units(units.Draw(t, "rate")),
		Per:   time.Duration(per.Draw(t, "per")),
		Burst: quota.Units(units.Draw(t, "burst")),
	}
}

func drawCost(t *rapid.T, burst quota.Units) quota.Units {
	return quota.Units(rapid.OneOf(rapid.Int64Range(0, 5), rapid.Int64Range(0, int64(burst)), rapid.Int64Range(0, int64(quota.MaxUnits))).Draw(t, "cost"))
}

// drawStep is a step of the clock: mostly forwards, sometimes none, sometimes back.
func drawStep(t *rapid.T) time.Duration {
	return time.Duration(rapid.OneOf(rapid.Int64Range(0, 0), rapid.Int64Range(-1e9, 0), rapid.Int64Range(0, 1e9), rapid.Int64Range(0, 1e15)).Draw(t, "step"))
}

// ideal is a bucket of rational numbers.
type ideal struct {
	config tokenbucket.Config
	now    time.Duration
	level  *big.Rat
}

func whole(n quota.Units) *big.Rat { return new(big.Rat).SetInt64(int64(n)) }

func refill(c tokenbucket.Config, elapsed time.Duration) *big.Rat {
	r := new(big.Rat).SetFrac(big.NewInt(int64(c.Rate)), big.NewInt(int64(c.Per)))
	return r.Mul(r, new(big.Rat).SetInt64(int64(elapsed)))
}

func (i *ideal) advance(now time.Duration) {
	if now > i.now {
		i.level.Add(i.level, refill(i.config, now-i.now))
		i.now = now
	}
	i.clamp()
}

func (i *ideal) clamp() {
	if burst := whole(i.config.Burst); i.level.Cmp(burst) > 0 {
		i.level = burst
	}
}

func (i *ideal) take(now time.Duration, cost quota.Units) bool {
	i.advance(now)
	if cost == 0 {
		return true
	}
	if whole(cost).Cmp(i.level) > 0 {
		return false
	}
	i.level.Sub(i.level, whole(cost))
	return true
}

// left is the level in whole units, 0 if it is below.
func (i *ideal) left() quota.Units {
	if i.level.Sign() <= 0 {
		return 0
	}
	return quota.Units(new(big.Int).Quo(i.level.Num(), i.level.Denom()).Int64())
}

func TestMatchesAnIdealBucket(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		config := drawConfig(t)
		now := time.Duration(rapid.Int64Range(-1e15, 1e15).Draw(t, "start"))
		full := rapid.Bool().Draw(t, "full")
		b, err := tokenbucket.New(config, now, full)
		if err != nil {
			t.Fatal(err)
		}
		model := &ideal{config: config, now: now, level: new(big.Rat)}
		if full {
			model.level = whole(config.Burst)
		}
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				now += drawStep(t)
				cost := drawCost(t, model.config.Burst)
				answer, err := b.Take(now, cost)
				if err != nil {
					t.Fatal(err)
				}
				if allowed := model.take(now, cost); answer.Allowed != allowed || answer.Left != model.left() {
					t.Fatalf("take %d at %d: %+v, want allowed %t, left %d", cost, now, answer, allowed, model.left())
				}
				checkRefusal(t, b, now, cost, answer)
			},
			"refund": func(t *rapid.T) {
				now += drawStep(t)
				n := drawCost(t, model.config.Burst)
				if err := b.Refund(now, n); err != nil {
					t.Fatal(err)
				}
				model.advance(now)
				model.level.Add(model.level, whole(n))
				model.clamp()
			},
			"reconfigure": func(t *rapid.T) {
				now += drawStep(t)
				next := drawConfig(t)
				next.Per = model.config.Per // a new per rounds the part of a unit down
				if err := b.Reconfigure(now, next); err != nil {
					t.Fatal(err)
				}
				model.advance(now)
				model.level.Add(model.level, whole(next.Burst)).Sub(model.level, whole(model.config.Burst))
				model.config = next
			},
		})
	})
}

// checkRefusal waits exactly RetryIn with a copy of the bucket, and one nanosecond less.
func checkRefusal(t *rapid.T, b tokenbucket.Bucket, now time.Duration, cost quota.Units, answer tokenbucket.Answer) {
	config := b.Config()
	if answer.TooLarge != (cost > config.Burst) || answer.Largest != config.Burst {
		t.Fatalf("take %d of %d: %+v", cost, config.Burst, answer)
	}
	if wait := !answer.Allowed && !answer.TooLarge && config.Rate > 0; (answer.RetryIn > 0) != wait {
		t.Fatalf("take %d with %+v: %+v", cost, config, answer)
	}
	later := now + answer.RetryIn
	if answer.RetryIn == 0 || answer.RetryIn == math.MaxInt64 || later < now {
		return // no wait, or one beyond the range of the clock
	}
	early, onTime := b, b
	if a, _ := early.Take(later-1, cost); a.Allowed {
		t.Fatalf("take %d at %d: a wait of %d was too long", cost, now, answer.RetryIn)
	}
	if a, _ := onTime.Take(later, cost); !a.Allowed {
		t.Fatalf("take %d at %d: a wait of %d was too short: %+v", cost, now, answer.RetryIn, a)
	}
}

func TestR1_2NoIntervalIsAbove(t *testing.T) {
	t.Parallel()
	type admission struct {
		at   time.Duration
		cost quota.Units
	}
	rapid.Check(t, func(t *rapid.T) {
		config := drawConfig(t)
		b, err := tokenbucket.New(config, 0, true)
		if err != nil {
			t.Fatal(err)
		}
		var admitted []admission
		now, latest := time.Duration(0), time.Duration(0)
		for range rapid.IntRange(1, 40).Draw(t, "takes") {
			now += drawStep(t)
			latest = max(latest, now)
			cost := drawCost(t, config.Burst)
			if a, err := b.Take(now, cost); err == nil && a.Allowed {
				admitted = append(admitted, admission{latest, cost})
			}
		}
		for first := range admitted {
			sum := new(big.Rat)
			for _, a := range admitted[first:] {
				sum.Add(sum, whole(a.cost))
				bound := refill(config, a.at-admitted[first].at)
				if bound.Add(bound, whole(config.Burst)); sum.Cmp(bound) > 0 {
					t.Fatalf("%+v admitted %v in %v: %+v", config, sum, a.at-admitted[first].at, admitted[first:])
				}
			}
		}
	})
}

func TestReconfigureToAndFroGainsNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		config := drawConfig(t)
		b, err := tokenbucket.New(config, 0, false)
		if err != nil {
			t.Fatal(err)
		}
		now := max(drawStep(t), 0)
		look, err := b.Take(now, 0)
		if err != nil {
			t.Fatal(err)
		}
		next := look.Left + 1 // the first cost that is not there yet
		before, err := b.Take(now, next)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			for _, c := range []tokenbucket.Config{drawConfig(t), config} {
				if err := b.Reconfigure(now, c); err != nil {
					t.Fatal(err)
				}
			}
		}
		after, err := b.Take(now, next)
		if err != nil || after.Allowed || after.Left != before.Left || after.RetryIn < before.RetryIn {
			t.Fatalf("take %d: %+v, %v, before %+v", next, after, err, before)
		}
	})
}
