package local

import (
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Algorithm is how a local limit counts.
type Algorithm string

// The algorithms. What each lets through at once is in DOORS.md.
const (
	TokenBucket    Algorithm = "token_bucket"
	LeakyBucket    Algorithm = "leaky_bucket" // a shaping queue: what fits waits its turn
	FixedWindow    Algorithm = "fixed_window"
	SlidingLog     Algorithm = "sliding_log"
	SlidingCounter Algorithm = "sliding_counter"
	Concurrency    Algorithm = "concurrency" // slots and a bounded queue
)

// Algorithms are all of them.
var Algorithms = []Algorithm{TokenBucket, LeakyBucket, FixedWindow, SlidingLog, SlidingCounter, Concurrency}

// Attribute is what a limit may count by.
type Attribute string

// The attributes. An address is never stored: a keyed hash of it is.
const (
	Route   Attribute = "route"
	Tenant  Attribute = "tenant"
	Actor   Attribute = "actor"
	APIKey  Attribute = "api_key"
	Address Attribute = "address"
)

// Attributes are all of them, in the order in which keys are made.
var Attributes = []Attribute{Route, Tenant, Actor, APIKey, Address}

// Caps. They bound memory and how long a caller can be kept.
const (
	MaxUnits    quota.Units = 1 << 62 // of a rate, a burst or a window: what a token bucket can add up
	MaxLog      quota.Units = 10_000  // of a sliding log, which remembers every one
	MaxLogged   int64       = 10_000_000
	MaxSlots    quota.Units = 1_000_000
	MaxQueue    int64       = 1_000_000
	MaxShaping              = 20 * time.Second // through a full leaky bucket: less than doors wait
	MaxAge                  = time.Hour
	MaxKeys     int64       = 10_000_000
	DefaultIdle             = 10 * time.Minute
	DefaultMax  int64       = 100_000
)

// Limit is one local limit. It is read-only once it is in use.
type Limit struct {
	Name        string
	Algorithm   Algorithm
	Rate        quota.Rate  // all but concurrency; of windows: the limit and the window
	Capacity    quota.Units // token_bucket: the burst; leaky_bucket: the queue; concurrency: slots
	CountDenied bool        // sliding_log: what was denied counts, too
	Queue       Queue       // concurrency
	Key         []Attribute // in the order of Attributes; empty: one for all
	IPv6Prefix  int         // addresses that agree on so many bits are one
	CountCost   bool        // what it costs; else how often it is asked for
	StartFull   bool        // nothing counts as used at the start
	Idle        time.Duration
	MaxKeys     int64
}

// Queue bounds who waits for a slot. Without a Count nobody does.
type Queue struct {
	Count int64
	Bytes int64 // of all requests in it together; 0: not looked at
	Age   time.Duration
}

// Most is the largest cost that can pass.
func (l *Limit) Most() quota.Units {
	switch l.Algorithm {
	case TokenBucket, LeakyBucket, Concurrency:
		return l.Capacity
	}
	return l.Rate.Units
}

// Window is the time in which Most can be had anew, where that is one; else 0.
func (l *Limit) Window() time.Duration {
	switch l.Algorithm {
	case FixedWindow, SlidingLog, SlidingCounter:
		return l.Rate.Per
	}
	return 0
}

// Validate returns a *quota.FieldError for what no limit can be.
func (l *Limit) Validate() error {
	bad := func(field, allowed string) error { return &quota.FieldError{Field: field, Allowed: allowed} }
	if err := quota.ValidateDimension(l.Name); err != nil {
		return err
	}
	if !slices.Contains(Algorithms, l.Algorithm) {
		return bad("algorithm", fmt.Sprintf("one of %v", Algorithms))
	}
	if l.Algorithm != Concurrency && (l.Rate.Units < 0 || l.Rate.Units > MaxUnits || l.Rate.Per <= 0) {
		return bad("rate", fmt.Sprintf("0 to %d units in a time above 0", MaxUnits))
	}
	if l.Capacity < 0 || l.Capacity > MaxUnits || l.Algorithm == Concurrency && l.Capacity > MaxSlots {
		return bad("capacity", "a whole number of 0 or more")
	}
	if l.Algorithm == SlidingLog && (l.Rate.Units > MaxLog || int64(l.Rate.Units)*l.MaxKeys > MaxLogged) {
		return bad("rate", fmt.Sprintf("at most %d in a sliding log, and %d in all of its keys", MaxLog, MaxLogged))
	}
	if l.Algorithm == LeakyBucket && l.shapesTooLong() {
		return bad("capacity", "a queue that empties within "+MaxShaping.String())
	}
	if q := l.Queue; q.Count < 0 || q.Count > MaxQueue || q.Bytes < 0 || q.Age < 0 || q.Age > MaxAge {
		return bad("queue", fmt.Sprintf("at most %d, for at most %s", MaxQueue, MaxAge))
	}
	for _, a := range l.Key {
		if !slices.Contains(Attributes, a) {
			return bad("key", fmt.Sprintf("any of %v", Attributes))
		}
	}
	if l.IPv6Prefix < 1 || l.IPv6Prefix > 128 {
		return bad("ipv6_prefix", "1 to 128")
	}
	if l.Idle <= 0 || l.MaxKeys < 1 || l.MaxKeys > MaxKeys {
		return bad("max_keys", fmt.Sprintf("1 to %d, dropped after a time above 0", MaxKeys))
	}
	return nil
}

// shapesTooLong reports a leaky bucket that takes longer than MaxShaping to empty.
func (l *Limit) shapesTooLong() bool {
	hi, lo := bits.Mul64(uint64(l.Capacity), uint64(l.Rate.Per))
	mostHi, mostLo := bits.Mul64(uint64(l.Rate.Units), uint64(MaxShaping))
	return l.Rate.Units > 0 && (hi > mostHi || hi == mostHi && lo > mostLo)
}

// sameCount reports that what was used under one limit means the same under the other.
func (l *Limit) sameCount(o *Limit) bool {
	return l.Algorithm == o.Algorithm && l.CountCost == o.CountCost && slices.Equal(l.Key, o.Key) && l.IPv6Prefix == o.IPv6Prefix
}
