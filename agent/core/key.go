package core

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Key is one quota as the agent holds it. Take runs on any goroutine; everything else
// belongs to the core and is called by its owner only.
type Key struct {
	ID quota.Key

	dim    atomic.Pointer[Dimension] // of the catalogue in force; what Take reads of it is defaults
	leases atomic.Pointer[[]*Lease]  // soonest deadline first
	denial atomic.Pointer[denial]
	view   atomic.Pointer[view]
	// lowSent is set by the taker that finds the newest lease low, and cleared when the core
	// has dealt with it: however many takers pass the watermark, one of them tells.
	lowSent atomic.Bool

	index    int  // in the core's list; gone once forgotten
	dirty    bool // in line for the next Sync
	spends   int  // items of the exact lane in line or in flight
	ask      *ask
	closing  []*Lease
	unleased []*unleased
	waiters  []*Waiter
	parked   []*Waiter // for whom this agent's own leases are on their way back (see parkSpend)

	heard      int64 // highest generation of the view's window that a notice told of
	refresh    bool  // the next Sync names the key, to learn its state
	exactUntil Instant
	nextAsk    Instant // not before, after a lease that came too late
	needHint   int64
	demand     demand
	lastUse    Instant
	lastTotal  int64 // total at the last look, to notice use that left no other trace
	past       int64 // taken from leases that are gone, for totals
}

// ask is the one request for a lease that a key may have in flight.
type ask struct {
	id         ID
	want, need int64
	firstSent  Instant
	sent       bool
}

// unleased is use without a lease in one window, against an id of the agent's (3.13).
type unleased struct {
	id     ID
	window windowID
	taken  int64
	acked  int64
	step   int64 // most that a report may grow by, once the ledger refused more; 0: not yet
}

type windowID struct{ start, end int64 }

// Taken is what a fast take answers: allowed, missed (see the core), or a remembered denial.
type Taken struct {
	Allowed   bool
	Denied    bool
	Low       bool // the caller tells the core
	Reason    quota.Reason
	Remaining int64
	Limit     int64
	Largest   int64
	RetryIn   Instant
	Reset     Instant
	Window    time.Duration
	Version   int64
}

// Take spends cost from a lease in hand, or finds a remembered denial, without a lock.
func (k *Key) Take(now Instant, cost int64) Taken {
	if leases := k.leases.Load(); leases != nil {
		for i, l := range *leases {
			if now >= l.deadline {
				continue
			}
			left, ok := l.bucket.take(cost)
			if !ok || cost == 0 && left == 0 { // a peek asks whether a take would pass
				continue
			}
			t := k.answer(now, left)
			t.Allowed = true
			if left <= l.low && i == len(*leases)-1 && cost > 0 && !k.lowSent.Load() && k.lowSent.CompareAndSwap(false, true) {
				t.Low = true
			}
			return t
		}
	}
	if d := k.denial.Load(); d.covers(now, max(cost, 1)) {
		t := k.answer(now, 0)
		t.Denied, t.Reason, t.Largest = true, d.reason, d.largest
		if d.retryAt > now {
			t.RetryIn = d.retryAt - now
		}
		if t.Limit > 0 && cost > t.Limit && d.reason != quota.UnknownTenant {
			// No wait would help: it is above the whole limit.
			t.Reason, t.Largest, t.RetryIn = quota.TooLarge, t.Limit, 0
		}
		if d.reason == quota.UnknownTenant {
			t.Limit, t.Remaining = 0, 0 // the dimension's limit is not this tenant's
		}
		return t
	}
	return Taken{}
}

// answer fills in what is known of the key beside the verdict. What has no limit has no
// remaining either.
func (k *Key) answer(now Instant, inHand int64) Taken {
	dim := k.dim.Load()
	t := Taken{Remaining: max(0, inHand), Limit: dim.Limit, Version: dim.version}
	if v := k.view.Load(); v != nil {
		t.Limit, t.Version, t.Window = v.limit, v.policyVersion, v.length
		if v.windowEnd > now {
			t.Reset = v.windowEnd - now
		}
		if v.windowEnd == 0 || v.windowEnd > now {
			t.Remaining += min(v.headroom, math.MaxInt64-t.Remaining)
		}
	}
	if t.Limit < 0 {
		t.Remaining = 0
	}
	return t
}

// left is what can be taken at this moment, all live leases together.
func (k *Key) left(now Instant) int64 {
	var sum int64
	for _, l := range k.held() {
		if now < l.deadline {
			sum += l.left()
		}
	}
	return sum
}

func (k *Key) held() []*Lease {
	if p := k.leases.Load(); p != nil {
		return *p
	}
	return nil
}

// EachLease calls what for every lease that is held, or was and has not been settled, with what
// was taken of it so far. Its owner may call it, and counts use by it, grant by grant.
func (k *Key) EachLease(what func(id ID, taken int64)) {
	for _, l := range k.held() {
		what(l.id, l.taken())
	}
	for _, l := range k.closing {
		what(l.id, l.taken())
	}
}

// total is all that was ever taken from leases of this key.
func (k *Key) total() int64 {
	sum := k.past
	for _, l := range k.held() {
		sum += l.taken()
	}
	for _, l := range k.closing {
		sum += l.taken()
	}
	return sum
}

// idle reports that the key holds nothing and owes nothing.
func (k *Key) idle() bool {
	return len(k.held()) == 0 && len(k.closing) == 0 && len(k.waiters) == 0 && len(k.parked) == 0 && k.spends == 0 && k.ask == nil && !k.owesUnleased()
}

func (k *Key) owesUnleased() bool {
	for _, u := range k.unleased {
		if u.acked < u.taken {
			return true
		}
	}
	return false
}
