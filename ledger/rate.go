package ledger

import (
	"math/bits"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
	"github.com/quotalease/quotalease/ledger/tokenbucket"
)

// Rate keys
//
// A rate key's headroom is the level of a token bucket (3.9). A grant or a spend is taken from
// it when it is decided, so that nothing is counted twice when use is reported: what is in an
// agent's hands is bounded by the budget, O <= B. Over any interval t that is
// use <= burst + rate*t + B, because what is used in it was out when it began (O), or granted
// in it out of a bucket that held at most burst.
//
// What a live lease returns goes back to the bucket. What comes back after a lease has closed
// does not: it is no longer in O, so that it would lift an interval above its bound.
//
// Where the bucket is empty, a grant may be a trickle: its units are not to be used before they
// would have come into the bucket. The level goes below zero by it, and what all trickles hold
// back is never less than that.

// horizon is how far ahead of its bucket a trickle may reach.
const horizon = 2 * time.Second

// metered reports that a bucket limits the account.
func (a *Account) metered() bool { return a.Kind == quota.RateLimit && !a.Limit.Unlimited }

// bucketConfig never fails to validate: what policy would refuse gives nothing.
func (t Terms) bucketConfig() tokenbucket.Config {
	c := tokenbucket.Config{
		Rate: min(max(t.Rate.Units, 0), tokenbucket.Max), Per: t.Rate.Per,
		Burst: min(max(t.Limit.Units, 0), tokenbucket.Max),
	}
	if c.Per <= 0 {
		c.Rate, c.Per = 0, time.Second
	}
	return c
}

// bucketOf is a stored bucket under some terms. Its clock begins at Bucket.At.
func bucketOf(s Bucket, t Terms) tokenbucket.Bucket {
	b, err := tokenbucket.Restore(t.bucketConfig(), tokenbucket.State{Spent: s.Spent, Part: s.Part})
	if err != nil {
		panic("a config made to be valid is not: " + err.Error())
	}
	return b
}

// bucket is the account's bucket as of Bucket.At.
func (a *Account) bucket() tokenbucket.Bucket { return bucketOf(a.Bucket, a.Terms) }

func (a *Account) keepBucket(b tokenbucket.Bucket) {
	s := b.State()
	a.Bucket.Spent, a.Bucket.Part = s.Spent, s.Part
}

// Refilled is the account as it is at now: of a rate key, with what has come back since its
// bucket was last written. Time never goes back for a bucket.
func (a Account) Refilled(now time.Time) Account {
	if !a.metered() || !now.After(a.Bucket.At) {
		return a
	}
	if !a.Bucket.At.IsZero() {
		b := a.bucket()
		b.Level(now.Sub(a.Bucket.At))
		a.keepBucket(b)
	}
	a.Bucket.At = now
	return a
}

// refill brings an account's bucket to its clock, before anything is compared with its level:
// what time brings is no growth that anybody is told of. A reading that cannot be trusted
// brings nothing.
func (b *Book) refill(a *Account) {
	if b.loaded.ClockSuspect && a.Clock.IsZero() {
		return
	}
	if a.metered() {
		*a = a.Refilled(b.nowAt(a))
	}
}

// reconfigure carries the bucket over to new terms: what is spent stays spent. A key that was
// not limited by a rate until now starts with a full bucket, or where it stood when it last was.
func (a *Account) reconfigure(was Terms) {
	switch {
	case !a.metered():
	case was.Kind != quota.RateLimit:
		a.Bucket = Bucket{}
	case was.Limit.Unlimited:
		a.Bucket.Part = 0
	default:
		b := bucketOf(a.Bucket, was)
		if err := b.Reconfigure(0, a.bucketConfig()); err != nil {
			panic("a config made to be valid is not: " + err.Error())
		}
		a.keepBucket(b)
	}
}

// drawn is by how much the change of a grant lowers the level of its bucket; below zero, what
// it gives back.
func drawn(was, after *Grant) Units {
	switch after.Kind {
	case KindSpend:
		return after.use() - was.use()
	case KindLease, KindUnleased:
	default:
		return 0
	}
	_, before := was.consumed()
	_, excess := after.consumed()
	n := excess - before + after.Amount - was.Amount
	if was.State == Live {
		n -= after.Back - was.Back
	}
	return n
}

// meter moves the level of a rate key's bucket with one of its grants.
func (a *Account) meter(was, after *Grant) error {
	if !a.metered() {
		return nil
	}
	b := a.bucket()
	n := drawn(was, after)
	if n < 0 {
		if err := b.Refund(0, -n); err != nil {
			return err
		}
	} else if err := b.Charge(0, n); err != nil {
		return err
	}
	a.keepBucket(b)
	return nil
}

// lettable is the most that a lease of a rate key can be: what is in the bucket or, if that
// does not cover the need, what will have come within the horizon.
func (a *Account) lettable(need Units) Units {
	level := a.Headroom()
	if level < need {
		b := a.bucket()
		level = b.Level(horizon)
	}
	return max(0, min(level, a.Exposure()))
}

// trickle says when the units of a grant that the bucket does not hold may be used: none before
// delay, by when what is owed already has come, and then evenly over drip, by when the grant's
// own have. Both are 0 if the bucket holds them. They are rounded up to what stores keep.
func (a *Account) trickle(amount Units) (delay, drip time.Duration) {
	b := a.bucket()
	if amount <= b.Level(0) {
		return 0, 0
	}
	delay = upToMicrosecond(b.Until(0, 0))
	return delay, max(upToMicrosecond(b.Until(0, amount))-delay, time.Microsecond)
}

func upToMicrosecond(d time.Duration) time.Duration {
	if over := d % time.Microsecond; over > 0 {
		d += time.Microsecond - over
	}
	return d
}

// retryIn is how long it takes until the bucket of a rate key holds n units, if nobody takes
// any; 0 if that is now, or not known.
func (a *Account) retryIn(n Units) time.Duration {
	if !a.metered() || n <= a.Headroom() {
		return 0
	}
	b := a.bucket()
	wait := b.Until(0, n)
	if wait > longestWait {
		return 0
	}
	return wait
}

// longestWait is what is told as a time at all.
const longestWait = 100 * 365 * 24 * time.Hour

// leaseClass is what a lease records as its class. An unconfirmed remainder of a rate key counts
// as spent in every class (3.9), as that of a hard lease does.
func (a *Account) leaseClass() quota.Class {
	if a.Kind == quota.RateLimit {
		return quota.Hard
	}
	return a.Class
}

// largestStep is the limit by which a report's step of use is measured (3.13): what a window
// can hold or, of a rate key, what can pass within a ttl.
func (a *Account) largestStep() quota.Limit {
	if a.Kind != quota.RateLimit || a.Limit.Unlimited {
		return a.InForce()
	}
	c := a.bucketConfig()
	hi, lo := bits.Mul64(uint64(c.Rate), uint64(max(a.TTL, 0)))
	if hi >= uint64(c.Per) {
		return quota.LimitOf(quota.MaxUnits)
	}
	within, _ := bits.Div64(hi, lo, uint64(c.Per))
	if within > uint64(quota.MaxUnits-a.Limit.Units) {
		return quota.LimitOf(quota.MaxUnits)
	}
	return quota.LimitOf(a.Limit.Units + Units(within))
}

// fasterThan compares the rates of two terms of a rate key.
func (t Terms) fasterThan(was Terms) bool {
	if t.Kind != quota.RateLimit || was.Kind != quota.RateLimit {
		return false
	}
	x, y := t.bucketConfig(), was.bucketConfig()
	hi, lo := bits.Mul64(uint64(x.Rate), uint64(y.Per))
	thenHi, thenLo := bits.Mul64(uint64(y.Rate), uint64(x.Per))
	return hi > thenHi || hi == thenHi && lo > thenLo
}

// bucketFaults are the contradictions inside an account's bucket. What has come and gone by a
// moment cannot be recomputed, so only the ranges are checked.
func (a *Account) bucketFaults() []fault {
	if a.Kind != quota.RateLimit {
		return nil
	}
	s, per := a.Bucket, a.bucketConfig().Per
	var found []fault
	if s.Spent < 0 {
		found = append(found, fault{"bucket spent", s.Spent, 0})
	}
	if s.Part < 0 || s.Part >= per || s.Part > 0 && s.Spent <= 0 {
		found = append(found, fault{"bucket part", Units(s.Part), 0})
	}
	if s.At.After(a.Clock) {
		found = append(found, fault{"bucket time", Units(s.At.UnixMicro()), Units(a.Clock.UnixMicro())})
	}
	return found
}
