package core

import (
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

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

	lease  *Lease // which the units came from
	ownOf  *Key   // if they came from its own, which had this serial
	serial uint32
}

// Spent is what a take found in hand: small enough to be returned in registers, which is what
// most takes need.
type Spent struct {
	Low bool // the caller tells the core

	key   *Key
	lease *Lease // which the units came from; nil: the key's own
	left  int64
}

// Answer is what is known of the key beside the verdict, at the moment of the take.
func (s Spent) Answer(now Instant) (limit, remaining, version int64, reset Instant, window time.Duration) {
	return s.key.terms.Load().answer(now, s.left, s.key.headroom.Load())
}

// Spend takes cost from a lease in hand, if one covers it, without a lock.
func (k *Key) Spend(now Instant, cost int64) (s Spent, ok bool) {
	if now < k.own.deadline() {
		if left, ok := k.own.bucket.take(cost, 0); ok && (cost > 0 || left > 0) { // a peek asks whether a take would pass
			return Spent{key: k, left: left, Low: left <= k.own.low.Load() && cost > 0 && k.signs.set(lowSent)}, true
		}
	}
	return k.spendOther(now, cost)
}

// spendOther takes from leases that are not the key's own.
func (k *Key) spendOther(now Instant, cost int64) (s Spent, ok bool) {
	leases := k.others()
	for i, l := range leases {
		if !l.live(now) {
			continue
		}
		kept := l.unreleased(now)
		left, ok := l.bucket.take(cost, kept)
		if !ok || cost == 0 && left <= kept {
			continue
		}
		low := left <= l.low.Load() && cost > 0 && newest(now, leases[i+1:]) && k.signs.set(lowSent)
		return Spent{key: k, lease: l, left: left - kept, Low: low}, true
	}
	return Spent{}, false
}

// Take spends cost from a lease in hand, or finds a remembered denial, without a lock.
func (k *Key) Take(now Instant, cost int64) Taken {
	serial := k.signs.serial()
	if s, ok := k.Spend(now, cost); ok {
		t := Taken{Allowed: true, Low: s.Low, lease: s.lease}
		if s.lease == nil && k.signs.serial() == serial { // else another one was moved in meanwhile: which it was is not certain
			t.ownOf, t.serial = k, serial
		}
		t.know(s.Answer(now))
		return t
	}
	return k.refuse(now, cost)
}

// takeKept is Take for who remembers which lease the units came from. It misses until the core knows
// of that (see keep).
func (k *Key) takeKept(now Instant, cost int64) Taken {
	if !k.signs.has(kept) && k.released(now) >= max(cost, 1) {
		return Taken{}
	}
	if k.signs.has(kept) {
		if s, ok := k.spendOther(now, cost); ok {
			t := Taken{Allowed: true, Low: s.Low, lease: s.lease}
			t.know(s.Answer(now))
			return t
		}
	}
	return k.refuse(now, cost)
}

// refuse finds a remembered denial, or says that the core has to be asked.
func (k *Key) refuse(now Instant, cost int64) Taken {
	if cost == 0 { // a peek waits for nothing
		if d := k.denies(now, 1); d != nil {
			return k.denied(now, cost, d)
		}
	} else if d := k.answers(now, cost); d != nil && !k.takesSlots() { // slots are not taken
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
	k.signs.set(refused)
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
	for _, l := range k.others() {
		if t, covers := l.releases(cost); covers && l.live(now) && t < l.deadline() && (!ok || t < at) {
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
	if left, ok := k.ownLeft(now); ok && left >= cost {
		return true
	}
	for _, l := range k.others() {
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
	t.know(k.terms.Load().answer(now, inHand, k.headroom.Load()))
	return t
}

func (t *Taken) know(limit, remaining, version int64, reset Instant, window time.Duration) {
	t.Limit, t.Remaining, t.Version, t.Reset, t.Window = limit, remaining, version, reset, window
}

// ownLeft is what own has, and whether it lives.
func (k *Key) ownLeft(now Instant) (int64, bool) {
	left := k.own.bucket.left.Load()
	return max(0, left), left != sealed && now < k.own.deadline()
}

// left is what is in hand for this moment's window, all live leases together; of a trickle
// also what is still to come.
func (k *Key) left(now Instant) int64 {
	var sum int64
	if left, ok := k.ownLeft(now); ok {
		sum = left
	}
	for _, l := range k.others() {
		if l.live(now) {
			sum += l.left()
		}
	}
	return sum
}

// released is what of it could be taken now.
func (k *Key) released(now Instant) int64 {
	var sum int64
	if left, ok := k.ownLeft(now); ok {
		sum = left
	}
	for _, l := range k.others() {
		if l.live(now) {
			sum += max(0, l.left()-l.unreleased(now))
		}
	}
	return sum
}
