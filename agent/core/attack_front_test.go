package core

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// A caller that took of one key and missed at the next was held up between the two, or the machine
// slept. Meanwhile the lease was reported for the last time, and its key forgotten. What the caller
// puts back is known to the ledger all the same.
func TestR1_10WhatComesBackAfterItsKeyWasForgotten(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{false, true} { // the key came into use again
		d := newDriver(t)
		d.warm(exports, 1)
		old := d.key(exports)
		piece := Piece{Key: old, Cost: 5}
		old.keep() // as the first take of several keys has it
		if piece.Taken = old.takeKept(d.now, piece.Cost); !piece.Taken.Allowed {
			t.Fatal("no units in hand")
		}
		for range 10 {
			d.advance(10 * time.Second)
			d.settle()
		}
		if old.known() {
			t.Fatal("the key is still there")
		}
		if again {
			d.warm(exports, 2)
		}
		if putPieces([]Piece{piece}) {
			t.Fatal("a sealed lease took units back")
		}
		d.core.Settled(d.now, []Piece{piece})
		d.settle()
		for range 10 {
			d.advance(10 * time.Second)
			d.settle()
		}
		want := int64(1)
		if again {
			want = 3
		}
		if settled, out := d.used(); settled != want || out != 0 {
			t.Errorf("again %t: the ledger counted %d and %d are out, want %d and none", again, settled, out, want)
		}
		if taken := d.core.Stats(d.now).Leased["report_export"]; taken != want || d.core.Table.Find(exports) != nil {
			t.Errorf("again %t: the agent counted %d, want %d and no key left", again, taken, want)
		}
	}
}

// Takers find keys and spend from them while keys come, get leases, lose them and are forgotten:
// what passed is what the ledger counted in the end.
func TestTakersBesideKeysThatComeAndGo(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.limit, d.cap = 1<<40, 1<<40
	d.settle()
	takers := &takers{core: d.core}
	takers.now.Store(int64(d.now))
	var wg sync.WaitGroup
	for seed := range uint64(2) {
		wg.Go(func() { takers.take(rand.New(rand.NewPCG(seed, 1))) })
	}
	rng := rand.New(rand.NewPCG(9, 1))
	forgotten := 0
	for range 500 {
		takers.owner.Lock()
		had := len(d.core.keys)
		for range 3 {
			d.core.Want(d.now, &Waiter{Key: comer(rng), Cost: 1, Done: func(o Outcome) {
				if o.Allowed {
					takers.allowed.Add(1)
				}
			}})
		}
		d.settle()
		d.advance(time.Duration(rng.IntN(2_000)) * time.Millisecond)
		if rng.IntN(10) == 0 {
			d.advance(time.Minute)
		}
		takers.now.Store(int64(d.now))
		d.settle()
		forgotten += max(0, had-len(d.core.keys))
		takers.owner.Unlock()
	}
	takers.over.Store(true)
	wg.Wait()
	for range 20 {
		d.advance(10 * time.Second)
		d.settle()
	}
	settled, out := d.used()
	if settled != takers.allowed.Load() || out != 0 || d.core.Stats(d.now).Leased["report_export"] != settled || len(d.core.keys) > 0 || forgotten < 100 {
		t.Errorf("%d passed, the ledger counted %d, %d are out, the agent counted %d; %d keys were forgotten and %d are left",
			takers.allowed.Load(), settled, out, d.core.Stats(d.now).Leased["report_export"], forgotten, len(d.core.keys))
	}
}

// takers take on goroutines of their own.
type takers struct {
	core         *Core
	owner        sync.Mutex // of the core
	now, allowed atomic.Int64
	over         atomic.Bool
}

func (t *takers) take(rng *rand.Rand) {
	for !t.over.Load() {
		at := Instant(t.now.Load()) // which may be long ago when the units are taken
		a, b := t.core.Table.Find(comer(rng)), t.core.Table.Find(comer(rng))
		switch {
		case a == nil:
		case b == nil || a == b:
			if a.Take(at, 1).Allowed {
				t.allowed.Add(1)
			}
		default:
			pieces := []Piece{{Key: a, Cost: 1}, {Key: b, Cost: 1}}
			got, _, quiet := TakePieces(at, pieces)
			if got.Allowed {
				t.allowed.Add(2)
			}
			t.owner.Lock()
			if !quiet {
				t.core.Settled(at, pieces)
			}
			if rng.IntN(10) == 0 { // as a caller does who is sent to the core
				a.keep()
				b.keep()
			}
			t.owner.Unlock()
		}
	}
}

// comer is a key of a few.
func comer(rng *rand.Rand) quota.Key {
	return quota.Key{Tenant: string(rune('a' + rng.IntN(20))), Dimension: "report_export"}
}
