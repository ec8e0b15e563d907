package core

import (
	"math/bits"
	"sync/atomic"
	"time"

	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// Instant is a reading of a clock that counts through a suspend, since an arbitrary epoch
// (see package boottime). All of the core's time is Instants.
type Instant = time.Duration

// Lease is what an agent holds of one grant. It is small because there may be one of each of a
// million keys; what few leases need is elsewhere.
type Lease struct {
	bucket bucket
	until  atomic.Int64 // the deadline, an Instant
	low    atomic.Int64 // at or below it, and newest: time to fetch the next
	amount int64
	id     ID
	window *pb.Window
	back   int64 // given back so far
	acked  int64 // taken, as it was last said and acknowledged, if there is no rest
	rest   *leaseRest

	life      uint16 // which of the incarnations of this core it is of
	isSealed  bool
	emergency bool // an allowance for outages
	cut       bool // its window's end is its own: no successor is to be had before that
	renewed   bool // its successor was asked for because it nears its end
	begun     bool // its start was noticed
	gone      bool // its last word was said, and acknowledged
}

// leaseRest is what few leases need, all of it 0 where there is none. Takers read the first three,
// which never change, so that a lease that they can reach by itself has it from the start.
type leaseRest struct {
	start Instant // of a lease for the next window: sooner than this nothing is taken; 0: at once
	full  Instant // trickle: until all are there; 0: at once
	from  Instant // trickle: the units come evenly, from then on

	late     int64 // refunded after the lease was sealed
	said     report
	reported report
}

var noRest leaseRest

// more is what can be read of a lease's rest, but for what is said of it.
func (l *Lease) more() *leaseRest {
	if l.rest == nil {
		return &noRest
	}
	return l.rest
}

// own is the lease's rest, to be written.
func (l *Lease) own() *leaseRest {
	if l.rest == nil {
		known := report{taken: l.acked}
		l.rest = &leaseRest{said: known, reported: known}
	}
	return l.rest
}

// settleDown lets go of a rest with nothing in it, of a lease that no taker can reach by itself.
func (l *Lease) settleDown() {
	r := l.rest
	if r == nil || r.late != 0 || r.said != r.reported || r.said != (report{taken: r.said.taken}) {
		return
	}
	l.acked, l.rest = r.said.taken, nil
}

func (l *Lease) said() report {
	if l.rest == nil {
		return report{taken: l.acked}
	}
	return l.rest.said
}

func (l *Lease) reported() report {
	if l.rest == nil {
		return report{taken: l.acked}
	}
	return l.rest.reported
}

// deadline is the first send of the ask + ttl: later than this nothing is taken.
func (l *Lease) deadline() Instant { return Instant(l.until.Load()) }

// report is what is said of a grant: cumulative counters, none of which ever falls. said is
// the latest that was sent, reported the latest that the ledger acknowledged.
type report struct {
	taken, refunded, returned int64
	final                     bool
}

// use is what the report says was used.
func (r report) use() int64 { return r.taken - r.refunded }

// live reports that units may be taken at this moment.
func (l *Lease) live(now Instant) bool { return now >= l.more().start && now < l.deadline() }

// left is what was not yet spent, released or not; 0 when sealed. Any goroutine may ask.
func (l *Lease) left() int64 { return max(0, l.bucket.left.Load()) }

// unreleased is what a trickle still keeps back.
func (l *Lease) unreleased(now Instant) int64 {
	r := l.more()
	if now >= r.full {
		return 0
	}
	if now <= r.from {
		return l.amount
	}
	hi, lo := bits.Mul64(uint64(l.amount), uint64(now-r.from))
	released, _ := bits.Div64(hi, lo, uint64(r.full-r.from))
	return l.amount - int64(released)
}

// releases is when a trickle covers cost, if it ever does. Any goroutine may ask.
func (l *Lease) releases(cost int64) (Instant, bool) {
	left, r := l.bucket.left.Load(), l.more()
	if r.full == 0 || left < cost {
		return 0, false
	}
	// The first moment at which amount - released <= left - cost, so released is rounded up
	// to reach it.
	need := l.amount - (left - cost)
	hi, lo := bits.Mul64(uint64(max(need, 0)), uint64(r.full-r.from))
	lo, carry := bits.Add64(lo, uint64(l.amount)-1, 0)
	wait, _ := bits.Div64(hi+carry, lo, uint64(l.amount))
	return r.from + time.Duration(wait), true
}

// taken is what was spent so far, less what came back of it.
func (l *Lease) taken() int64 {
	return l.amount - l.back - l.more().late - l.left()
}

// leased is taken, of anything but an allowance.
func (l *Lease) leased() int64 {
	if l.emergency {
		return 0
	}
	return l.taken()
}

// seal ends the lease: what was left counts as returned from now on.
func (l *Lease) seal() {
	if left, first := l.bucket.seal(); first {
		l.isSealed = true
		l.back += left
	}
}

// giveBack returns all but keep units of a live lease.
func (l *Lease) giveBack(keep int64) {
	for {
		spare := l.left() - keep
		if spare <= 0 {
			return
		}
		if _, ok := l.bucket.take(spare, 0); ok {
			l.back += spare
			return
		}
	}
}

// now returns what the next report says of the lease. Units that were put back are not taken;
// but what a report called taken stays so, and is refunded (3.11). A final report accounts for
// the whole amount.
func (l *Lease) now() report {
	use, r := l.taken(), l.said()
	r.taken = max(r.taken, use+r.refunded)
	if l.isSealed {
		r.taken = max(r.taken, l.amount-l.back)
	}
	r.refunded = r.taken - use
	r.returned, r.final = l.back, l.isSealed
	return r
}
