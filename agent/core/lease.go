package core

import (
	"time"

	pb "github.com/quotalease/quotalease/proto/quotalease/v1"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Instant is a reading of a clock that counts through a suspend, since an arbitrary epoch
// (see agent.Clock). All of the core's time is Instants.
type Instant = time.Duration

// Lease is what an agent holds of one grant.
type Lease struct {
	bucket   bucket
	id       ID
	window   *pb.Window
	amount   int64
	low      int64   // at or below it, and newest: time to fetch the next
	deadline Instant // first send of the ask + ttl: later than this nothing is taken

	// Owned by the core.
	back     int64 // given back so far
	isSealed bool
	cut      bool // its window's end is its own: no successor is to be had before that
	renewed  bool // its successor was asked for because it nears its end
	reported report
}

// report is what the ledger has acknowledged of a grant.
type report struct {
	taken, returned int64
	final           bool
}

// left is what can still be taken, 0 when sealed.
func (l *Lease) left() int64 {
	if l.isSealed {
		return 0
	}
	return max(0, l.bucket.left.Load())
}

// taken is what was spent so far.
func (l *Lease) taken() int64 {
	if l.isSealed {
		return l.amount - l.back
	}
	return l.amount - l.back - l.left()
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
		if _, ok := l.bucket.take(spare); ok {
			l.back += spare
			return
		}
	}
}

// now returns what the next report says of the lease.
func (l *Lease) now() report {
	return report{taken: l.taken(), returned: l.back, final: l.isSealed}
}

// denial is a "no" that is remembered: costs of at least cost are denied until it lapses or
// the account's generation grows.
type denial struct {
	cost       int64
	reason     quota.Reason
	until      Instant
	retryAt    Instant // 0: no moment is known
	generation int64
	largest    int64 // with too_large
}

func (d *denial) covers(now Instant, cost int64) bool {
	return d != nil && cost >= d.cost && now < d.until
}

// view is what the ledger last said of a key, for answers.
type view struct {
	limit         int64 // -1: unlimited
	headroom      int64
	leaseCap      int64
	generation    int64
	policyVersion int64
	window        *pb.Window
	windowEnd     Instant       // by the estimate of ledger time; 0: endless
	length        time.Duration // of the window
}
