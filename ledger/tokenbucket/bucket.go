package tokenbucket

import (
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Max is the largest rate and burst. Below it, what is spent and what is asked for can be
// added up without leaving the int64 range.
const Max quota.Units = 1 << 62

// Config is a rate of Rate units per Per, and a burst of Burst units. A rate or burst of 0
// denies every cost; there is no number for "unlimited".
type Config struct {
	Rate  quota.Units
	Per   time.Duration
	Burst quota.Units
}

// Validate returns a *quota.FieldError for rate, per or burst.
func (c Config) Validate() error {
	switch {
	case c.Rate < 0 || c.Rate > Max:
		return &quota.FieldError{Field: "rate", Allowed: fmt.Sprintf("0 to %d", Max)}
	case c.Per <= 0:
		return &quota.FieldError{Field: "per", Allowed: "above 0"}
	case c.Burst < 0 || c.Burst > Max:
		return &quota.FieldError{Field: "burst", Allowed: fmt.Sprintf("0 to %d", Max)}
	}
	return nil
}

// Answer says what a take was given.
type Answer struct {
	Allowed bool
	// Left is the number of whole units in the bucket afterwards, 0 or more.
	Left quota.Units
	// RetryIn is how long the caller's clock must go on until the same take would pass, if
	// nobody else takes. It is 0 when the take was allowed and when no wait would help:
	// the cost is too large, or the rate is 0. A wait above the largest Duration (292 years)
	// is stated as that.
	RetryIn time.Duration
	// TooLarge is set when the cost is above the burst. It can never pass; a caller may
	// split it into costs of at most Largest.
	TooLarge bool
	// Largest is the largest cost that a full bucket allows: the burst.
	Largest quota.Units
}

// Bucket is a token bucket. The zero value has rate and burst 0. A Bucket is not safe for
// concurrent use.
//
// What has been spent and not yet refilled is spent - refilled/per units, 0 <= refilled <
// per; refilled is 0 when spent is. It may exceed the burst after a cut: the level is then
// below zero, and refills from there.
type Bucket struct {
	config   Config
	now      time.Duration // the latest reading that any call has brought
	spent    quota.Units
	refilled uint64 // in units of 1/per: of the next unit, what has come back
}

// New returns a bucket that is full or empty at now.
func New(config Config, now time.Duration, full bool) (Bucket, error) {
	if err := config.Validate(); err != nil {
		return Bucket{}, err
	}
	b := Bucket{config: config, now: now}
	if !full {
		b.spent = config.Burst
	}
	return b, nil
}

// Config returns the rate and burst in force.
func (b *Bucket) Config() Config { return b.config }

// Take refills the bucket up to now and takes cost from it, if it is there. Taking 0 is a
// look: it is always allowed and charges nothing. A negative cost is a *quota.FieldError
// and changes nothing.
func (b *Bucket) Take(now time.Duration, cost quota.Units) (Answer, error) {
	if cost < 0 {
		return Answer{}, &quota.FieldError{Field: "cost", Allowed: "0 or above"}
	}
	b.advance(now)
	level := b.config.Burst - b.spent
	answer := Answer{Left: max(level, 0), Largest: b.config.Burst}
	switch {
	case cost > b.config.Burst:
		answer.TooLarge = true
	case cost == 0:
		answer.Allowed = true
	case cost > level:
		answer.RetryIn = b.retryIn(now, cost-level)
	default:
		b.spent += cost
		answer.Allowed, answer.Left = true, level-cost
	}
	return answer, nil
}

// Refund puts n units back, up to the burst. A negative n is a *quota.FieldError and changes
// nothing. Whoever refunds sees to it that each refund is made once.
func (b *Bucket) Refund(now time.Duration, n quota.Units) error {
	if n < 0 {
		return &quota.FieldError{Field: "refund", Allowed: "0 or above"}
	}
	b.advance(now)
	b.giveBack(uint64(n), b.refilled)
	return nil
}

// Reconfigure changes rate and burst from now on. What was spent stays spent, so nothing is
// refilled and the same config again changes nothing. A bad config is a *quota.FieldError
// and leaves the bucket as it was.
func (b *Bucket) Reconfigure(now time.Duration, config Config) error {
	if err := config.Validate(); err != nil {
		return err
	}
	b.advance(now)
	if b.refilled > 0 {
		// The part of a unit that has come back, in units of the new 1/per. It is rounded
		// down, by less than one of those, so that changing to and fro gains nothing.
		hi, lo := bits.Mul64(b.refilled, uint64(config.Per))
		b.refilled, _ = bits.Div64(hi, lo, uint64(b.config.Per))
	}
	b.config = config
	return nil
}

// advance refills the bucket up to now. An older reading than the latest adds nothing and
// does not set the bucket back, or the same time would be refilled twice.
func (b *Bucket) advance(now time.Duration) {
	if now <= b.now {
		return
	}
	// Two readings may lie further apart than a Duration holds, but not than a uint64.
	elapsed := uint64(now) - uint64(b.now)
	b.now = now
	if b.spent == 0 {
		return
	}
	hi, lo := bits.Mul64(uint64(b.config.Rate), elapsed)
	lo, carry := bits.Add64(lo, b.refilled, 0)
	hi += carry
	per := uint64(b.config.Per)
	if hi >= per { // the quotient is beyond 64 bits, and so beyond anything spent
		b.spent, b.refilled = 0, 0
		return
	}
	b.giveBack(bits.Div64(hi, lo, per))
}

// giveBack lowers what was spent by whole units and sets the part of the next.
func (b *Bucket) giveBack(units, part uint64) {
	if units >= uint64(b.spent) {
		b.spent, b.refilled = 0, 0
		return
	}
	b.spent -= quota.Units(units)
	b.refilled = part
}

// retryIn returns the time from now until missing more units, less what is refilled of the
// first, have come back, rounded up to the nanosecond.
func (b *Bucket) retryIn(now time.Duration, missing quota.Units) time.Duration {
	if b.config.Rate == 0 {
		return 0
	}
	rate := uint64(b.config.Rate)
	hi, lo := bits.Mul64(uint64(missing), uint64(b.config.Per))
	lo, borrow := bits.Sub64(lo, b.refilled, 0)
	hi -= borrow
	lo, carry := bits.Add64(lo, rate-1, 0)
	hi += carry
	if hi >= rate {
		return math.MaxInt64
	}
	wait, _ := bits.Div64(hi, lo, rate)
	// A caller whose clock is behind has that way to go first.
	wait, carry = bits.Add64(wait, uint64(b.now)-uint64(now), 0)
	if carry > 0 || wait > math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(wait)
}

// RetryAfterSeconds returns a wait as Retry-After states it: in whole seconds, rounded up,
// and at least 1.
func RetryAfterSeconds(d time.Duration) int64 {
	seconds := int64(d / time.Second)
	if d%time.Second > 0 {
		seconds++
	}
	return max(seconds, 1)
}
