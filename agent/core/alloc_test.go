package core

import (
	"testing"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Not parallel: it counts what the whole process allocates.
func TestTakingFromLeasesAllocatesNothing(t *testing.T) {
	d := chain(t, nil)
	d.rounds()
	d.all(takes("a", 1, "b", 1))
	a, b := d.core.Table.Find(quota.Key{Tenant: "acme", Dimension: "a"}), d.core.Table.Find(quota.Key{Tenant: "acme", Dimension: "b"})
	for _, k := range []*Key{a, b} {
		k.held()[0].bucket.left.Store(1 << 40)
	}
	for name, take := range map[string]func(){
		"one key": func() { a.Take(d.now, 1) },
		"two keys": func() {
			var room [2]Piece
			room[0], room[1] = Piece{Key: a, Cost: 1}, Piece{Key: b, Cost: 1}
			TakePieces(d.now, room[:])
		},
	} {
		if n := testing.AllocsPerRun(100, take); n != 0 {
			t.Errorf("%s: %v allocations a take", name, n)
		}
	}
}
