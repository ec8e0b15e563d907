package core

import (
	"testing"
	"time"
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
		if piece.Taken = old.Take(d.now, piece.Cost); !piece.Taken.Allowed {
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
