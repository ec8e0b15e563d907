package main

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quotalease/quotalease/agent/boottime"
)

// floors are parts of a decision without the rest: what no agent can be faster than.
func floors() []subject { return append(counterFloors(), clockFloors()...) }

// counterFloors charge one counter.
func counterFloors() []subject {
	return []subject{
		{name: "floor: atomic add", kind: floor, only: 1, free: true, open: func([]string) (*opened, error) {
			var left atomic.Int64
			return &opened{loop: func(_ *walk, n int) error {
				for range n {
					left.Add(-1)
				}
				return nil
			}}, nil
		}},
		{name: floorCAS, kind: floor, only: 1, free: true, open: func([]string) (*opened, error) {
			b := newCell()
			return &opened{loop: func(_ *walk, n int) error {
				for range n {
					if !b.take(1) {
						return errDenied
					}
				}
				return nil
			}}, nil
		}},
		{name: "floor: mutex", kind: floor, only: 1, free: true, open: func([]string) (*opened, error) {
			var mu sync.Mutex
			left := full
			return &opened{loop: func(_ *walk, n int) error {
				for range n {
					mu.Lock()
					left--
					mu.Unlock()
				}
				return nil
			}}, nil
		}},
	}
}

// clockFloors read a clock, by itself or before they charge.
func clockFloors() []subject {
	return []subject{
		{name: "floor: clock reading", kind: floor, only: 1, free: true, open: func([]string) (*opened, error) {
			c := newClock()
			return &opened{loop: func(_ *walk, n int) error {
				for range n {
					if !c.live() {
						return errDenied
					}
				}
				return nil
			}}, nil
		}},
		{name: "floor: time.Now", kind: floor, only: 1, free: true, open: func([]string) (*opened, error) {
			end := time.Now().Add(24 * time.Hour)
			return &opened{loop: func(_ *walk, n int) error {
				for range n {
					if !time.Now().Before(end) {
						return errDenied
					}
				}
				return nil
			}}, nil
		}},
		{name: floorClockCAS, kind: floor, only: 1, free: true, open: func([]string) (*opened, error) {
			b, c := newCell(), newClock()
			return &opened{loop: func(_ *walk, n int) error {
				for range n {
					if !c.live() || !b.take(1) {
						return errDenied
					}
				}
				return nil
			}}, nil
		}},
		{name: floorMap, kind: floor, free: true, open: openReadOnlyMap},
		{name: floorSlab, kind: floor, free: true, open: openSlab},
	}
}

const (
	floorCAS      = "floor: CAS"
	floorClockCAS = "floor: clock reading and CAS"
	floorMap      = "floor: map never changed, clock, CAS"
	floorSlab     = "floor: hash to a slab of cells, clock, CAS"
)

// full is more than any run takes.
const full int64 = 1 << 60

// cell is a cache line with what is left of a quota.
type cell struct {
	left atomic.Int64
	_    [56]byte
}

func newCell() *cell {
	b := &cell{}
	b.left.Store(full)
	return b
}

func (b *cell) take(cost int64) bool {
	for {
		left := b.left.Load()
		if left < cost {
			return false
		}
		if b.left.CompareAndSwap(left, left-cost) {
			return true
		}
	}
}

// clock is the reading that a lease needs, and the end of a lease far off.
type clock struct {
	now func() time.Duration
	end time.Duration
}

func newClock() *clock {
	now := boottime.Reader()
	return &clock{now, now() + 24*time.Hour}
}

func (c *clock) live() bool { return c.now() < c.end }

func openReadOnlyMap(keys []string) (*opened, error) {
	c, made := newClock(), make(map[string]*cell, len(keys))
	for _, k := range keys {
		made[k] = newCell()
	}
	var m atomic.Pointer[map[string]*cell]
	m.Store(&made)
	return &opened{loop: func(w *walk, n int) error {
		for range n {
			b := (*m.Load())[keys[w.pick(len(keys))]]
			if b == nil || !c.live() || !b.take(1) {
				return errDenied
			}
		}
		return nil
	}}, nil
}

// openSlab finds a key by its hash alone, with no key kept to compare: nothing that looks keys up
// can be cheaper. Keys of one hash share a cell here, which a product may not do.
func openSlab(keys []string) (*opened, error) {
	size := 1
	for size < 2*len(keys) {
		size *= 2
	}
	c, seed, slab := newClock(), maphash.MakeSeed(), make([]cell, size)
	for i := range slab {
		slab[i].left.Store(full)
	}
	return &opened{loop: func(w *walk, n int) error {
		for range n {
			b := &slab[maphash.String(seed, keys[w.pick(len(keys))])&uint64(size-1)]
			if !c.live() || !b.take(1) {
				return errDenied
			}
		}
		return nil
	}}, nil
}
