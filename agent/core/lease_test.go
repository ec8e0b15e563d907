package core

import (
	"sync"
	"sync/atomic"
	"testing"
)

// What a final report says is computed from the sealed bucket: whatever was taken up to that
// moment is in it, and nothing after.
func TestASealedLeaseAccountsForEveryUnit(t *testing.T) {
	t.Parallel()
	for range 150 {
		l := &Lease{amount: 1 << 40} // more than is taken before the seal
		l.bucket.left.Store(l.amount)
		var taken, ready atomic.Int64
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				ready.Add(1)
				for {
					if _, ok := l.bucket.take(1, 0); !ok {
						return
					}
					taken.Add(1)
				}
			})
		}
		for ready.Load() < 2 {
			continue // seal in the middle of things, not before them
		}
		l.seal()
		said := l.now()
		wg.Wait()
		if said.taken != taken.Load() || said.taken+said.returned != l.amount || !said.final {
			t.Fatalf("callers took %d of %d, the final report says %+v", taken.Load(), l.amount, said)
		}
	}
}
