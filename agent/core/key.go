package core

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// Key is one quota as the agent holds it. Take runs on any goroutine; everything else
// belongs to the core and is called by its owner only.
type Key struct {
	ID quota.Key

	front  atomic.Pointer[front] // never nil
	denial atomic.Pointer[denial]
	// lowSent is set by the taker that finds the newest lease low, and cleared when the core
	// has dealt with it: however many takers pass the watermark, one of them tells.
	lowSent atomic.Bool
	// refused is set by a taker that was denied: a key whose callers are all turned away is in
	// use, too.
	refused atomic.Bool
	// queued is set while callers wait, for those who put units back without the core.
	queued atomic.Bool

	extend *extension // allowances for outages; nil: there was none
	slots  *slotSet   // of a concurrency limit; nil: it has units

	index    int  // in the core's list; gone once forgotten
	dirty    bool // in line for the next Sync
	spends   int  // items of the exact lane in line or in flight
	busy     int  // groups and reservations that may still give something back
	ask      *ask
	next     *ask // for the window after this one
	closing  []*Lease
	unleased []*unleased
	waiters  []*Waiter
	parked   []*Waiter // for whom this agent's own leases are on their way back (see parkSpend)

	heard     heard
	lead      lead
	vain      int     // asks in a row that found all units in others' hands
	deferred  bool    // in line for whatever Sync goes out next
	learned   Instant // when the ledger last told of its state
	refresh   bool    // the next Sync names the key, to learn its state
	lane      lane
	typical   float64 // cost, as the core sees it; 0: none yet
	nextAsk   Instant // not before, after a lease that came too late
	full      bool    // nextAsk is because exposure allows no more beside what was in hand
	modest    Instant // until then nothing is fetched ahead: others are in need
	needHint  int64
	demand    demand
	lastUse   Instant
	lastTotal int64 // total at the last look, to notice use that left no other trace
	past      int64 // taken from leases that are gone, for totals
}

// heard is the highest generation of the current window that a notice told of.
type heard struct{ window, generation int64 }

// ask is a request for a lease. A key may have one in flight for each of two windows.
type ask struct {
	id         ID
	window     *pb.Window // nil: the current one
	want, need int64
	waiting    int64 // what callers wait for when it is first sent
	firstSent  Instant
	sent       bool
	emergency  bool // for an allowance
}

// unleased is use without a lease in one window, against an id of the agent's (3.13).
type unleased struct {
	id     ID
	window windowID
	taken  int64
	acked  int64
	// Of taken, what came back, and what of that the ledger knows.
	refunded, ackedBack int64

	step int64 // most that a report may grow by, once the ledger refused more; 0: not yet
}

type windowID struct{ start, end int64 }

// Taken is what a fast take answers: allowed, missed (see the core), or a remembered denial.
type Taken struct {
	Allowed   bool
	Denied    bool
	Low       bool // the caller tells the core
	Reason    quota.Reason
	Remaining int64
	Limit     int64 // -1: unlimited
	Largest   int64
	RetryIn   Instant
	Reset     Instant
	Window    time.Duration
	Version   int64

	lease *Lease // which the units came from
}

// Spent is what a take found in hand: small enough to be returned in registers, which is what
// most takes need.
type Spent struct {
	Low bool // the caller tells the core

	front *front
	lease *Lease // which the units came from
	left  int64
}

// Answer is what is known of the key beside the verdict, at the moment of the take.
func (s Spent) Answer(now Instant) (limit, remaining, version int64, reset Instant, window time.Duration) {
	return s.front.answer(now, s.left)
}

// Spend takes cost from a lease in hand, if one covers it, without a lock.
func (k *Key) Spend(now Instant, cost int64) (s Spent, ok bool) {
	f := k.front.Load()
	for i, l := range f.leases {
		if !l.live(now) {
			continue
		}
		var kept int64
		if now < l.full { // asked here, since the call costs as much as the rest
			kept = l.unreleased(now)
		}
		left, ok := l.bucket.take(cost, kept)
		if !ok || cost == 0 && left <= kept { // a peek asks whether a take would pass
			continue
		}
		return Spent{front: f, lease: l, left: left - kept, Low: left <= l.low && cost > 0 && k.tells(now, f.leases[i+1:])}, true
	}
	return Spent{}, false
}

// tells reports that the taker who asks is the one to tell that the newest lease is low.
func (k *Key) tells(now Instant, behind []*Lease) bool {
	return !k.lowSent.Load() && newest(now, behind) && k.lowSent.CompareAndSwap(false, true)
}

// Take spends cost from a lease in hand, or finds a remembered denial, without a lock.
func (k *Key) Take(now Instant, cost int64) Taken {
	if s, ok := k.Spend(now, cost); ok {
		t := Taken{Allowed: true, Low: s.Low, lease: s.lease}
		t.know(s.Answer(now))
		return t
	}
	if cost == 0 { // a peek waits for nothing
		if d := k.denies(now, 1); d != nil {
			return k.denied(now, cost, d)
		}
	} else if d := k.answers(now, cost); d != nil && k.slots == nil { // slots are not taken
		return k.denied(now, cost, d)
	}
	if at, ok := k.releases(now, max(cost, 1)); ok && at-now > k.dim().ColdWait {
		return k.dripping(now, at)
	}
	return Taken{}
}

// Known is what is known of the key, for answers.
func (k *Key) Known(now Instant) Taken { return k.answer(now, k.released(now)) }

// denied is the answer that a remembered denial gives to cost.
func (k *Key) denied(now Instant, cost int64, d *denial) Taken {
	if !k.refused.Load() {
		k.refused.Store(true)
	}
	t := k.answer(now, k.released(now))
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

// releases is when a trickle in hand covers cost, if one does.
func (k *Key) releases(now Instant, cost int64) (at Instant, ok bool) {
	for _, l := range k.held() {
		if t, covers := l.releases(cost); covers && l.live(now) && t < l.deadline && (!ok || t < at) {
			at, ok = t, true
		}
	}
	return at, ok
}

// dripping denies until at, when a trickle will have released enough.
func (k *Key) dripping(now, at Instant) Taken {
	t := k.answer(now, 0)
	t.Denied, t.Reason, t.RetryIn = true, quota.Exhausted, max(at-now, 1)
	return t
}

// could reports that a take would be answered at once.
func (k *Key) could(now Instant, cost int64) bool {
	for _, l := range k.held() {
		if l.live(now) && l.left()-l.unreleased(now) >= cost {
			return true
		}
	}
	return k.answers(now, cost) != nil
}

// newest reports that none of the leases behind a key's current one has begun.
func newest(now Instant, behind []*Lease) bool {
	for _, l := range behind {
		if l.live(now) {
			return false
		}
	}
	return true
}

// Known is what is known of a key, in use or not, without a verdict.
func (c *Core) Known(now Instant, id quota.Key) Taken {
	if k := c.Table.Find(id); k != nil {
		return k.answer(now, k.left(now))
	}
	if dim, ok := c.Dimension(id.Dimension); ok {
		return Taken{Limit: dim.Limit, Version: dim.version}
	}
	return Taken{}
}

// answer fills in what is known of the key beside the verdict.
func (k *Key) answer(now Instant, inHand int64) (t Taken) {
	t.know(k.front.Load().answer(now, inHand))
	return t
}

func (t *Taken) know(limit, remaining, version int64, reset Instant, window time.Duration) {
	t.Limit, t.Remaining, t.Version, t.Reset, t.Window = limit, remaining, version, reset, window
}

// left is what is in hand for this moment's window, all live leases together; of a trickle
// also what is still to come.
func (k *Key) left(now Instant) int64 {
	var sum int64
	for _, l := range k.held() {
		if l.live(now) {
			sum += l.left()
		}
	}
	return sum
}

// released is what of it could be taken now.
func (k *Key) released(now Instant) int64 {
	var sum int64
	for _, l := range k.held() {
		if l.live(now) {
			sum += max(0, l.left()-l.unreleased(now))
		}
	}
	return sum
}

// newest is the current lease that ends last, or nil.
func (k *Key) newest(now Instant) *Lease {
	held := k.held()
	for i := len(held) - 1; i >= 0; i-- {
		if held[i].live(now) {
			return held[i]
		}
	}
	return nil
}

// EachLease calls what for every lease that is held, or was and has not been settled, with what
// was taken of it so far. Its owner may call it, and counts use by it, grant by grant.
func (k *Key) EachLease(what func(id ID, taken int64)) {
	for _, l := range k.held() {
		what(l.id, l.taken())
	}
	for _, l := range slices.Concat(k.closing, k.allowances()) {
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
		sum += l.leased()
	}
	return sum
}

// hasNews reports that the ledger does not know how things stand with what is held.
func (k *Key) hasNews() bool {
	unsaid := func(l *Lease) bool { return l.now() != l.reported }
	late := func(l *Lease) bool { return l.left() > 0 && unsaid(l) } // what a spent one has to say can wait
	if slices.ContainsFunc(k.held(), late) || slices.ContainsFunc(k.allowances(), unsaid) {
		return true
	}
	return k.slots != nil && slices.ContainsFunc(k.slots.leases, func(l *slotLease) bool { return l.use() != l.known })
}

// idle reports that the key holds nothing and owes nothing.
func (k *Key) idle() bool {
	return len(k.held()) == 0 && len(k.closing) == 0 && len(k.waiters) == 0 && len(k.parked) == 0 && k.spends == 0 && k.busy == 0 && k.ask == nil && k.next == nil && !k.owesUnleased() && (k.slots == nil || k.slots.empty()) && k.extend.empty()
}

func (k *Key) owesUnleased() bool {
	for _, u := range k.unleased {
		if u.owes() {
			return true
		}
	}
	return false
}

// view is what the ledger last said of a key, for answers.
type view struct {
	limit         int64 // -1: unlimited
	headroom      int64
	leaseCap      int64
	generation    int64
	policyVersion int64
	reason        quota.Reason // why a cost of 1 would be denied; empty: it would not
	window        *pb.Window
	windowEnd     Instant       // by the estimate of ledger time; 0: endless
	length        time.Duration // of the window
	next          *pb.Window    // the one after it; nil: none, or not told
	nextEnd       Instant
	nextLength    time.Duration
}

// owes reports that the ledger does not know all of it.
func (u *unleased) owes() bool { return u.acked < u.taken || u.ackedBack < u.refunded }

// MayExceed reports that a reservation of the key need not state a maximum.
func (k *Key) MayExceed() bool { return k.dim().MayExceed() }
