package core

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/quotalease/quotalease/ledger/quota"
)

func idOf(n int) quota.Key {
	return quota.Key{Tenant: "tenant-" + strconv.Itoa(n), Dimension: "dimension-" + strconv.Itoa(n%3)}
}

// keyOf is a key by that name, and nothing else.
func keyOf(id quota.Key) *Key {
	dim := &Dimension{Name: id.Dimension}
	dim.plain = plainTerms(dim)
	return newKey(id, dim, 0)
}

// leaseOf is a lease by itself.
func leaseOf(amount int64, deadline Instant) *Lease {
	l := &Lease{amount: amount, begun: true, rest: &leaseRest{}}
	l.until.Store(int64(deadline))
	l.bucket.left.Store(amount)
	return l
}

// Whatever comes and goes, the table finds what is there and nothing else, as a map does.
func TestTheTableIsAMap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		table, model := newTable(), map[quota.Key]*Key{}
		for range rapid.IntRange(0, 3_000).Draw(t, "changes") {
			id := idOf(rapid.IntRange(0, 1_500).Draw(t, "key"))
			if model[id] == nil {
				k := keyOf(id)
				table.put(k)
				model[id] = k
			} else {
				table.drop(model[id])
				delete(model, id)
			}
		}
		for n := range 1_501 {
			if got := table.Find(idOf(n)); got != model[idOf(n)] {
				t.Fatalf("%s: found %v, want %v", idOf(n), got, model[idOf(n)])
			}
		}
	})
}

// Keys that come and go for ever leave the table as large as those that stay need.
func TestTheTableForgetsWhatWent(t *testing.T) {
	t.Parallel()
	table := newTable()
	for n := range 200_000 {
		table.put(keyOf(idOf(n)))
		if n >= 1_000 {
			table.drop(table.Find(idOf(n - 1_000)))
		}
	}
	var slots int
	for i := range table.shards {
		slots += len(*table.shards[i].slots.Load())
	}
	if slots > 20_000 {
		t.Errorf("%d slots for 1,000 keys", slots)
	}
}

// A search beside changes finds a key that stays, and never another one.
func TestSearchesBesideChanges(t *testing.T) {
	t.Parallel()
	table := newTable()
	for n := range 100 {
		table.put(keyOf(idOf(n)))
	}
	var over atomic.Bool
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for n := 0; !over.Load(); n++ {
				id := idOf(n % 5_000)
				if k := table.Find(id); k == nil && n%5_000 < 100 || k != nil && k.ID() != id {
					t.Errorf("%s: found %v", id, k)
					return
				}
			}
		})
	}
	for round := range 20 {
		for n := 100; n < 5_000; n++ {
			if round%2 == 0 {
				table.put(keyOf(idOf(n)))
			} else {
				table.drop(table.Find(idOf(n)))
			}
		}
	}
	over.Store(true)
	wg.Wait()
}

func BenchmarkFind(b *testing.B) {
	for _, keys := range []int{1, 1_000, 100_000, 1_000_000} {
		table, ids := newTable(), make([]quota.Key, keys)
		for n := range keys {
			ids[n] = idOf(n)
			table.put(keyOf(ids[n]))
		}
		b.Run(fmt.Sprint(keys, " keys"), func(b *testing.B) {
			b.ReportAllocs()
			var n uint64
			for b.Loop() {
				n = n*6364136223846793005 + 1442695040888963407
				if table.Find(ids[(n>>33)%uint64(keys)]) == nil {
					b.Fatal("lost")
				}
			}
		})
	}
}
