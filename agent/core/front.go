package core

import (
	"math"
	"time"
)

// front is what a take reads of its key: what is held, and what answers say beside the verdict.
// It lies together, so that a take from a key that nobody took from lately waits for few lines of
// memory, and is replaced as a whole: a reader has one state of the key, never parts of two.
type front struct {
	leases []*Lease // soonest deadline first; of few, in the array that follows
	few    [2]*Lease

	limit      int64 // -1: unlimited
	version    int64 // of policy
	headroom   int64
	windowEnd  Instant // 0: not known, or endless
	length     time.Duration
	nextEnd    Instant
	nextLength time.Duration

	// What the above is made of: the dimension by the catalogue in force and, once the ledger told of
	// the key, what it said, which goes before.
	dim  *Dimension
	view *view
}

// show replaces the front by one of these parts.
func (k *Key) show(leases []*Lease, dim *Dimension, v *view) {
	f := &front{leases: leases, dim: dim, view: v, limit: dim.Limit, version: dim.version}
	if n := copy(f.few[:], leases); n == len(leases) {
		f.leases = f.few[:n]
	}
	if v != nil {
		f.limit, f.version, f.headroom = v.limit, v.policyVersion, v.headroom
		f.windowEnd, f.length, f.nextEnd, f.nextLength = v.windowEnd, v.length, v.nextEnd, v.nextLength
	}
	k.front.Store(f)
}

func (k *Key) hold(leases []*Lease) { f := k.front.Load(); k.show(leases, f.dim, f.view) }
func (k *Key) see(v *view)          { f := k.front.Load(); k.show(f.leases, f.dim, v) }
func (k *Key) follow(d *Dimension)  { f := k.front.Load(); k.show(f.leases, d, f.view) }

func (k *Key) held() []*Lease  { return k.front.Load().leases }
func (k *Key) view() *view     { return k.front.Load().view }
func (k *Key) dim() *Dimension { return k.front.Load().dim }

// answer says what is known beside the verdict. What has no limit has no remaining either.
//
// The results are single values because a struct of more than four fields is not kept in registers,
// and to copy it soon after it was written costs as much as the rest of a take.
func (f *front) answer(now Instant, inHand int64) (limit, remaining, version int64, reset Instant, window time.Duration) {
	remaining, window = max(0, inHand), f.length
	switch {
	case f.windowEnd > now:
		reset = f.windowEnd - now
	case f.nextEnd > now: // that one is over, and nobody had to be asked since
		reset, window = f.nextEnd-now, f.nextLength
	}
	if f.windowEnd == 0 || f.windowEnd > now {
		remaining += min(f.headroom, math.MaxInt64-remaining)
	}
	if f.limit < 0 {
		remaining = 0
	}
	return f.limit, remaining, f.version, reset, window
}
