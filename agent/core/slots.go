package core

import (
	"math"
	"slices"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Slots are leased like units, and held differently: a slot that work gives up is there for
// the next work, and a lease is renewed for as long as its slots are in use (3.16). All of it
// belongs to the core: to start work is rare beside to take a unit.
//
// Callers who wait are served first come first served, and nobody overtakes: a large request
// at the head keeps what is free until the rest is there too, at most for as long as it waits.

// slotSet is what an agent holds of a concurrency key.
type slotSet struct {
	leases   []*slotLease
	unleased *slotLease // work that runs without a lease; nil: there was none

	started int64   // slots put to use so far
	spare   int64   // fewest that lay idle since `since`: nobody needed those
	since   Instant // see spare
	serving bool    // the line is being served
}

// slotLease is a lease of slots, or, with an amount of 0, the record of use without one.
type slotLease struct {
	id       ID
	amount   int64
	back     int64 // given back so far
	inUse    int64
	deadline Instant // nothing starts on it from then on, unless it was renewed
	renewAt  Instant
	retired  bool // nothing new starts on it; what falls idle goes back
	closed   bool // the ledger does not renew it any more

	seq   int64 // of the last message
	known slotUse
	step  int64 // unleased: most that a report may rise by, once the ledger refused more
}

// slotUse is what a message says of a lease, and known the latest that the ledger has heard.
type slotUse struct{ inUse, back int64 }

func (l *slotLease) use() slotUse { return slotUse{l.inUse, l.back} }
func (l *slotLease) idle() int64  { return l.amount - l.back - l.inUse }

// over reports that nothing is left of a lease but its last word.
func (l *slotLease) over() bool { return l.inUse == 0 && l.idle() == 0 }

func (l *slotLease) usable(now Instant) bool { return !l.retired && now < l.deadline }

// retire ends the starts on a lease: what is idle goes back, what runs goes on.
func (l *slotLease) retire() {
	l.retired = true
	l.back = l.amount - l.inUse
}

// hold is slots of one lease that some work has.
type hold struct {
	key   *Key
	lease *slotLease
	slots int64
}

// idle is how many slots work could start on at this moment.
func (s *slotSet) idle(now Instant) (sum int64) {
	for _, l := range s.leases {
		if l.usable(now) {
			sum += l.idle()
		}
	}
	return sum
}

// running is how many slots are in use, leased or not.
func (s *slotSet) running() (sum int64) {
	for _, l := range s.all() {
		sum += l.inUse
	}
	return sum
}

// all is every lease, and what runs without one.
func (s *slotSet) all() []*slotLease {
	if s.unleased == nil {
		return s.leases
	}
	return append(slices.Clip(s.leases), s.unleased)
}

// empty reports that nothing is held and nothing is owed.
func (s *slotSet) empty() bool {
	u := s.unleased
	return len(s.leases) == 0 && (u == nil || u.inUse == 0 && u.known == slotUse{})
}

// start puts n idle slots to use, or none.
func (s *slotSet) start(now Instant, k *Key, n int64) (holds []hold, ok bool) {
	if s.idle(now) < n {
		return nil, false
	}
	s.started = min(s.started+n, math.MaxInt64/2)
	for _, l := range s.leases {
		if some := min(n, l.idle()); some > 0 && l.usable(now) {
			l.inUse += some
			n -= some
			holds = append(holds, hold{k, l, some})
		}
	}
	return holds, true
}

// startUnleased puts n slots to use that no lease covers.
func (c *Core) startUnleased(now Instant, k *Key, n int64, reason quota.Reason) hold {
	s := k.slots
	if reason == quota.Cold {
		c.debts[k.ID()] += n
	}
	if s.unleased == nil {
		s.unleased = &slotLease{id: c.newID(now), retired: true, closed: true}
	}
	n = min(n, math.MaxInt64/2-s.unleased.inUse)
	s.unleased.inUse += n
	c.unleased[quota.BaseDimension(k.Dimension())] += n
	return hold{k, s.unleased, n}
}

// putDown ends the use of slots. The caller tends their keys.
func putDown(holds []hold) {
	for _, h := range holds {
		h.lease.inUse -= h.slots
		if h.lease.retired && h.lease.amount > 0 {
			h.lease.back = h.lease.amount - h.lease.inUse
			h.key.forgetNoSlots()
		}
	}
}

// giveSlotsBack returns up to n idle slots, of the newest leases first. Whoever was denied for
// want of slots may ask again: with these there are more.
func (k *Key) giveSlotsBack(n int64) {
	if n < 1 {
		return
	}
	for _, l := range slices.Backward(k.slots.leases) {
		some := min(n, l.idle())
		l.back += some
		n -= some
	}
	k.forgetNoSlots()
}

func (k *Key) forgetNoSlots() {
	if d := k.denial.Load(); d != nil && !d.hopeless() {
		k.denial.Store(nil)
		k.notInVain()
	}
}

// tendSlots brings a concurrency key up to date.
func (c *Core) tendSlots(now Instant, k *Key) {
	s := k.slots
	if s.serving {
		return // whoever serves the line sees to the rest
	}
	for _, l := range s.leases {
		if !l.retired && (now >= l.deadline || c.stopping) {
			l.retire()
		}
	}
	s.serving = true
	for c.serveLine(now, k) || c.denyLine(now, k) {
	}
	s.serving = false
	if len(k.waiters) > 0 || s.running() > 0 {
		k.lastUse = now
	}
	c.restSlots(now, k)
	if c.stopping {
		c.withdraw(k, &k.ask)
	} else {
		c.askSlots(now, k)
	}
	switch {
	case c.slotsUrgent(now, k):
		c.mark(k)
	case slices.ContainsFunc(s.leases, func(l *slotLease) bool { return l.inUse < l.known.inUse }):
		c.postpone(k, now+min(k.dim().TTL/16, slotNews))
	}
	if c.forgettable(now, k) {
		c.forget(k)
		return
	}
	c.scheduleSlots(now, k)
}

// restSlots gives back what nobody here needs: at once where class exact may not keep it, or
// where others may be waiting, since nothing is left for them; else what lay idle for a ttl.
// What was put to use meanwhile stays for the next who comes: demand has shown the need.
func (c *Core) restSlots(now Instant, k *Key) {
	s, ttl := k.slots, k.dim().TTL
	idle := s.idle(now)
	s.spare = min(s.spare, idle)
	if k.inLine() == nil && (k.dim().Class == quota.Exact || now < k.modest || k.slotsScarce(now)) {
		k.giveSlotsBack(idle)
		return
	}
	if now-s.since >= ttl {
		if k.inLine() == nil {
			k.giveSlotsBack(s.spare)
		}
		s.since, s.spare = now, s.idle(now)
	}
}

// slotsScarce reports that no slot was left for others when the ledger last said.
func (k *Key) slotsScarce(now Instant) bool {
	v := k.view()
	return v != nil && v.limit >= 0 && v.headroom < 1 || k.denial.Load().covers(now, 1)
}

// askSlots asks for what callers in wait need, and a little more where work begins so often
// that the next caller will be there before the answer is.
func (c *Core) askSlots(now Instant, k *Key) {
	if k.ask != nil {
		if now-k.ask.firstSent < k.dim().TTL/2 || !k.ask.sent {
			return
		}
		c.withdraw(k, &k.ask)
	}
	head := k.inLine()
	if head == nil || now < k.nextAsk {
		return
	}
	s := k.slots
	idle := s.idle(now)
	least := max(head.Cost-idle, 1)
	need := max(k.lineCost(idle), least)
	if k.denial.Load().covers(now, need) {
		need = least
	}
	if k.denial.Load().covers(now, need) {
		return
	}
	k.demand.sample(now, s.started, k.dim().TTL)
	want := need
	if k.dim().Class != quota.Exact && now >= k.modest && k.demand.known() {
		want += int64(min(k.demand.perSecond()*(2*c.rtt).Seconds(), float64(k.most())/4))
	}
	k.some().ask = &ask{id: c.newID(now), need: need, want: want}
	c.mark(k)
}

// inLine is the first who waits for slots, or nil.
func (k *Key) inLine() *Waiter {
	for _, w := range k.waiters {
		if w.group != nil && !w.over {
			return w
		}
	}
	return nil
}

// lineCost is what those in line lack in all, as far as the ledger lately had it.
func (k *Key) lineCost(idle int64) int64 {
	most := int64(math.MaxInt64 / 2)
	if v := k.view(); v != nil {
		most = min(most, v.headroom)
	}
	lack := -idle
	for _, w := range k.waiters {
		if w.group == nil || w.over {
			continue
		}
		if w.Cost > most-max(lack, 0) {
			break
		}
		lack += w.Cost
	}
	return lack
}

// slotsUrgent reports that the next Sync cannot wait.
func (c *Core) slotsUrgent(now Instant, k *Key) bool {
	if k.refresh || k.ask != nil && !k.ask.sent {
		return true
	}
	s := k.slots
	if u := s.unleased; u != nil && u.use() != u.known {
		return true
	}
	return slices.ContainsFunc(s.leases, func(l *slotLease) bool {
		return l.back != l.known.back || l.renewable() && now >= l.renewAt || c.stopping && l.use() != l.known
	})
}

// renewable reports that a renewal would keep something.
func (l *slotLease) renewable() bool { return !l.closed && !l.over() }

func (c *Core) scheduleSlots(now Instant, k *Key) {
	ttl := k.dim().TTL
	at := now + ttl
	sooner := func(t Instant) {
		if t > now && t < at {
			at = t
		}
	}
	for _, l := range k.slots.leases {
		sooner(l.deadline)
		sooner(l.renewAt)
	}
	if a := k.ask; a != nil && a.sent {
		sooner(a.firstSent + ttl/2)
	}
	if d := k.denial.Load(); d != nil {
		sooner(d.until)
	}
	sooner(k.nextAsk)
	sooner(k.modest)
	sooner(k.slots.since + ttl)
	sooner(k.lastUse + ttl)
	c.wakeAt(k, at)
}

// drawRenewal is how long after a lease's ask or renewal was sent the next one is: time for
// several attempts before it ends, and not the same for all.
func (c *Core) drawRenewal(ttl time.Duration) time.Duration {
	return ttl/3 + time.Duration(c.rng.Int64N(int64(ttl/6)+1))
}

// slotNews is how soon the ledger hears that slots fell idle: someone may wait for them.
const slotNews = 250 * time.Millisecond

// revoke retires a lease that the ledger recalled.
func (s *slotSet) revoke(id ID) {
	for _, l := range s.leases {
		if l.id == id {
			l.retire()
		}
	}
}
