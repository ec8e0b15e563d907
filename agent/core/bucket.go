package core

import (
	"math"
	"sync/atomic"
)

// bucket is the unspent part of one lease. Any number of goroutines take from it without a
// lock; sealing it is one atomic swap, after which nothing can be taken, so that what a
// final report says is exact (DESIGN 3.11).
type bucket struct {
	left atomic.Int64
}

// sealed is below any amount, so a sealed bucket covers no cost, not even 0.
const sealed = math.MinInt64

// take spends cost if the bucket covers it beside floor, what is not yet released of it, and
// returns what is then left.
func (b *bucket) take(cost, floor int64) (left int64, ok bool) {
	for {
		left = b.left.Load()
		if left < floor || left-floor < cost {
			return left, false
		}
		if b.left.CompareAndSwap(left, left-cost) {
			return left - cost, true
		}
	}
}

// put gives back what was taken, unless the bucket was sealed since.
func (b *bucket) put(units int64) bool {
	for {
		left := b.left.Load()
		if left == sealed {
			return false
		}
		if b.left.CompareAndSwap(left, left+units) {
			return true
		}
	}
}

// seal ends the bucket and returns what was left. Only the first call gets it.
func (b *bucket) seal() (left int64, first bool) {
	left = b.left.Swap(sealed)
	return left, left != sealed
}
