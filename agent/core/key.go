package core

import (
	"slices"
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// Key is one quota as the agent holds it. Take runs on any goroutine; everything else
// belongs to the core and is called by its owner only.
//
// There may be a million of them, most in the same state: one lease in hand, nothing on its way.
// What such a key needs lies in it, and it points to nothing of its own: what the ledger said of many
// keys alike is shared, and what few keys need at a time is elsewhere (see rare).
type Key struct {
	// What a take reads comes first, side by side.
	name     name
	dirty    bool // in line for the next Sync
	deferred bool // in line for whatever Sync goes out next
	refresh  bool // the next Sync names the key, to learn its state
	led      bool // the next window's lease was granted, denied, or is not to be had
	leading  bool // the ask for it waits for a Sync, in the core's line
	signs    signs
	index    int32                 // in the core's list; gone once forgotten
	wake     int32                 // in the heap of those to be looked at, or noWake
	terms    atomic.Pointer[terms] // never nil
	headroom atomic.Int64          // as the ledger last said
	own      Lease                 // the one in hand, if that is plain; see front

	front  atomic.Pointer[front] // nil: no lease but own
	denial atomic.Pointer[denial]
	*rare

	lead       lead
	leaseCap   int64   // as the ledger last said
	generation int64   // as the ledger last said
	learned    Instant // when the ledger last told of its state
	typical    float64 // cost, as the core sees it; 0: none yet
	needHint   int64
	demand     demand
	lastUse    Instant
	lastTotal  int64 // total at the last look, to notice use that left no other trace
	past       int64 // taken from leases that are gone, for totals
}

// rare is what few keys need at a time. The others share one that is all zero: to read it is well,
// to write is some's matter.
type rare struct {
	shared bool // by all keys that need none

	extend *extension // allowances for outages; nil: there was none
	slots  *slotSet   // of a concurrency limit; nil: it has units

	spends   int // items of the exact lane in line or in flight
	busy     int // groups and reservations that may still give something back
	ask      *ask
	next     *ask // for the window after this one
	closing  []*Lease
	unleased []*unleased
	waiters  []*Waiter
	parked   []*Waiter // for whom this agent's own leases are on their way back (see parkSpend)

	heard   heard
	vain    int // asks in a row that found all units in others' hands
	lane    lane
	nextAsk Instant // not before, after a lease that came too late
	full    bool    // nextAsk is because exposure allows no more beside what was in hand
	modest  Instant // until then nothing is fetched ahead: others are in need
}

var noRare = &rare{shared: true}

// some is the key's own rare, to be written.
func (k *Key) some() *rare {
	if k.rare.shared {
		k.rare = &rare{}
	}
	return k.rare
}

// settleDown lets go of a rare with nothing in it.
func (k *Key) settleDown() {
	k.own.settleDown()
	r := k.rare
	if r.shared || r.extend != nil || r.slots != nil || r.spends != 0 || r.busy != 0 || r.ask != nil || r.next != nil ||
		len(r.closing)+len(r.unleased)+len(r.waiters)+len(r.parked) > 0 ||
		r.heard != (heard{}) || r.vain != 0 || r.lane != (lane{}) || r.nextAsk != 0 || r.full || r.modest != 0 {
		return
	}
	k.rare = noRare
}

// soon lets the next ask go out at once.
func (k *Key) soon() {
	if k.nextAsk != 0 || k.vain != 0 {
		r := k.some()
		r.nextAsk, r.vain = 0, 0
	}
}

// pause puts the next ask off.
func (k *Key) pause(until Instant, full bool) {
	r := k.some()
	r.nextAsk, r.full = until, full
}

// notInVain says that asks may succeed again.
func (k *Key) notInVain() {
	if k.vain != 0 {
		k.some().vain = 0
	}
}

func newKey(id quota.Key, dim *Dimension, now Instant) *Key {
	k := &Key{rare: noRare, index: gone, wake: noWake}
	k.terms.Store(dim.plain)
	k.call(id.Tenant)
	if dim.Kind == quota.Concurrency {
		k.some().slots = &slotSet{since: now}
	}
	return k
}

// ID is the key's name. Any goroutine may ask.
func (k *Key) ID() quota.Key { return quota.Key{Tenant: k.tenant(), Dimension: k.dim().Name} }

// is reports that the key has this name.
func (k *Key) is(id quota.Key) bool {
	if n := k.name.n; n <= shortName && string(k.name.bytes[:n]) != id.Tenant || n > shortName && k.tenant() != id.Tenant {
		return false
	}
	return k.dim().Name == id.Dimension
}

// Dimension is the name of the key's dimension. Any goroutine may ask.
func (k *Key) Dimension() string { return k.dim().Name }

// takesSlots reports that the key is a concurrency limit. Any goroutine may ask.
func (k *Key) takesSlots() bool { return k.dim().Kind == quota.Concurrency }

// name is a tenant's name, if it is short enough; else that is in the front.
type name struct {
	bytes [shortName]byte
	n     uint8 // longName: elsewhere
}

const (
	shortName = 36 // a UUID
	longName  = 255
)

// call gives the key its tenant, before anybody else knows it.
func (k *Key) call(tenant string) {
	if len(tenant) <= shortName {
		k.name.n = uint8(copy(k.name.bytes[:], tenant))
		return
	}
	k.name.n = longName
	k.front.Store(&front{tenant: strings.Clone(tenant), own: true})
}

// tenant never changes, so that it may stay where it is.
func (k *Key) tenant() string {
	if k.name.n == longName {
		return k.front.Load().tenant
	}
	return unsafe.String(&k.name.bytes[0], int(k.name.n))
}

// signs are what takers and the core tell each other, and above them the serial number of what own has,
// or had last. Any goroutine may read them, and set signs.
type signs struct{ bits atomic.Uint32 }

const (
	// lowSent is set by the taker that finds the newest lease low, and cleared when the core
	// has dealt with it: however many takers pass the watermark, one of them tells.
	lowSent = 1 << iota
	// refused is set by a taker that was denied: a key whose callers are all turned away is in
	// use, too.
	refused
	// queued is set while callers wait, for those who put units back without the core.
	queued
	// kept is set for good once somebody remembers which lease units came from: from then on none is
	// in own.
	kept

	oneSerial = 1 << 8
)

func (s *signs) serial() uint32 { return s.bits.Load() / oneSerial }

// next gives what own has next its number. They come around after 2^24: more leases than a caller's
// turn can last.
func (s *signs) next() { s.bits.Add(oneSerial) }

func (s *signs) has(sign uint32) bool { return s.bits.Load()&sign != 0 }

// set returns whether it was not set.
func (s *signs) set(sign uint32) (first bool) {
	return !s.has(sign) && s.bits.Or(sign)&sign == 0
}

func (s *signs) clear(sign uint32) {
	if s.has(sign) {
		s.bits.And(^sign)
	}
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
	unsaid := func(l *Lease) bool { return l.now() != l.reported() }
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

// owes reports that the ledger does not know all of it.
func (u *unleased) owes() bool { return u.acked < u.taken || u.ackedBack < u.refunded }

// MayExceed reports that a reservation of the key need not state a maximum.
func (k *Key) MayExceed() bool { return k.dim().MayExceed() }
