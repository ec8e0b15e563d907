package local

import (
	"math"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
	"github.com/quotalease/quotalease/ledger/tokenbucket"
)

// Answer says what a limit gave.
type Answer struct {
	Allowed  bool
	TooLarge bool          // it can never pass
	Left     quota.Units   // whole units, 0 or more
	RetryIn  time.Duration // denied: until the same would pass, if nobody else asks; 0: no moment is known
	Delay    time.Duration // allowed: how long to wait for its turn (leaky_bucket)

	mark int64 // by which the core knows it, should it be given back
}

// core counts what one key used. Time is a reading of any clock that counts on; one that goes
// back adds nothing. A core belongs to whoever locks it.
type core interface {
	// take refills and deducts in one step. A cost of 0 is a look. patience is the longest Delay
	// that the caller accepts.
	take(now time.Duration, cost quota.Units, patience time.Duration) Answer
	// giveBack undoes an allowed take as far as its units still count.
	giveBack(now time.Duration, cost quota.Units, mark int64)
	// reconfigure changes the limit. What was used stays used.
	reconfigure(now time.Duration, l *Limit)
	// rest reports that nothing used counts any more, so that the key may be forgotten.
	rest(now time.Duration) bool
	clone() core
}

// forever is a patience that ends nothing.
const forever time.Duration = math.MaxInt64

// newCore returns a core that begins at now. Unless the limit starts full, all of it counts as
// used then: whatever was used before a restart, the two together stay within the limit.
func newCore(now time.Duration, l *Limit) core {
	switch l.Algorithm {
	case TokenBucket:
		return &bucket{newBucket(now, l, l.StartFull)}
	case LeakyBucket:
		q := &leaky{Bucket: newBucket(now, l, true)}
		if !l.StartFull && l.Capacity > 0 {
			_ = q.Charge(now, 1) // one may have left a moment ago; 1 is no bad charge
		}
		return q
	case FixedWindow:
		return newFixed(now, l)
	case SlidingLog:
		return newLog(now, l)
	}
	return newCounter(now, l)
}

func newBucket(now time.Duration, l *Limit, full bool) tokenbucket.Bucket {
	b, err := tokenbucket.New(bucketConfig(l), now, full)
	if err != nil { // Validate has seen it
		panic(err)
	}
	return b
}

func bucketConfig(l *Limit) tokenbucket.Config {
	c := tokenbucket.Config{Rate: l.Rate.Units, Per: l.Rate.Per, Burst: l.Capacity}
	if c.Rate == 0 {
		c.Burst = 0 // a rate of 0 denies everything
	}
	return c
}

// bucket is the token bucket: at most Capacity at once, and Capacity + Rate*t over any time t.
type bucket struct{ tokenbucket.Bucket }

func (b *bucket) take(now time.Duration, cost quota.Units, _ time.Duration) Answer {
	a, _ := b.Take(now, cost) // costs are never negative
	return Answer{Allowed: a.Allowed, TooLarge: a.TooLarge, Left: a.Left, RetryIn: a.RetryIn}
}

func (b *bucket) giveBack(now time.Duration, cost quota.Units, _ int64) { _ = b.Refund(now, cost) }
func (b *bucket) reconfigure(now time.Duration, l *Limit) {
	_ = b.Reconfigure(now, bucketConfig(l)) // Validate has seen it
}
func (b *bucket) rest(now time.Duration) bool { return b.Level(now) == b.Config().Burst }
func (b *bucket) clone() core                 { c := *b; return &c }

// leaky is the leaky bucket as a queue: what was taken leaves at Rate, in order, and each caller
// is told how long it waits for its turn. What does not fit into Capacity is denied. What leaves
// is never above 1 + Rate*t over any time t, where each costs 1.
//
// It is the token bucket seen from the other side: what a bucket would have to refill is what is
// still in the queue.
type leaky struct {
	tokenbucket.Bucket
	taken int64 // how many were let in, and not given back from the end
}

func (q *leaky) take(now time.Duration, cost quota.Units, patience time.Duration) Answer {
	burst := q.Config().Burst
	ahead := q.Until(now, burst)
	if level := q.Level(now); cost > 0 && cost <= level && ahead > patience {
		return Answer{Left: level, RetryIn: ahead - patience}
	}
	a, _ := q.Take(now, cost) // costs are never negative
	out := Answer{Allowed: a.Allowed, TooLarge: a.TooLarge, Left: a.Left, RetryIn: a.RetryIn}
	if a.Allowed && cost > 0 {
		q.taken++
		out.Delay, out.mark = ahead, q.taken
	}
	return out
}

// giveBack gives up a place at the end of the queue. One with others behind it passes unused:
// those have been told their times.
func (q *leaky) giveBack(now time.Duration, cost quota.Units, mark int64) {
	if mark == q.taken {
		q.taken--
		_ = q.Refund(now, cost) // costs are never negative
	}
}

func (q *leaky) reconfigure(now time.Duration, l *Limit) {
	_ = q.Reconfigure(now, bucketConfig(l)) // Validate has seen it
}
func (q *leaky) rest(now time.Duration) bool { return q.Level(now) == q.Config().Burst }
func (q *leaky) clone() core                 { c := *q; return &c }
