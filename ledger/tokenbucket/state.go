package tokenbucket

import (
	"math"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// State is what a bucket remembers, in a form that can be stored: Spent units less Part/Per of
// one have been taken and have not come back, as of Now.
type State struct {
	Spent quota.Units
	Part  time.Duration // 0 to below Per
	Now   time.Duration
}

// State returns what Restore needs beside the config.
func (b *Bucket) State() State {
	return State{Spent: b.spent, Part: time.Duration(b.refilled), Now: b.now}
}

// Restore returns the bucket that a state was taken of. A spent below 0 and a part that is no
// part of a unit are nothing that a bucket can have come to: they count as 0.
func Restore(config Config, s State) (Bucket, error) {
	if err := config.Validate(); err != nil {
		return Bucket{}, err
	}
	b := Bucket{config: config, now: s.Now, spent: max(s.Spent, 0)}
	if b.spent > 0 && s.Part > 0 && s.Part < config.Per {
		b.refilled = uint64(s.Part)
	}
	return b, nil
}

// Charge takes n units whether they are there or not: the level may go below zero, and refills
// from there. A negative n is a *quota.FieldError; a sum outside the int64 range is
// quota.ErrOverflow. Either changes nothing but the time.
func (b *Bucket) Charge(now time.Duration, n quota.Units) error {
	if n < 0 {
		return &quota.FieldError{Field: "charge", Allowed: "0 or above"}
	}
	b.advance(now)
	sum, err := b.spent.Add(n)
	if err != nil {
		return err
	}
	b.spent = sum
	return nil
}

// Level is how many whole units are in the bucket at now; below zero, how many are owed.
func (b *Bucket) Level(now time.Duration) quota.Units {
	b.advance(now)
	return b.config.Burst - b.spent
}

// Until is how long the caller's clock must go on until n units are in the bucket, if nobody
// takes any: 0 if they are there, the largest Duration if they never will be.
func (b *Bucket) Until(now time.Duration, n quota.Units) time.Duration {
	level := b.Level(now)
	switch {
	case n <= level:
		return 0
	case n > b.config.Burst || b.config.Rate == 0:
		return math.MaxInt64
	}
	return b.retryIn(now, n-level)
}
