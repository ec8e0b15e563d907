package core

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// A lease goes into its key and out again, and one follows the other, while takers spend: every unit
// is there once, and none of a lease that has ended is taken.
func TestALeaseMovesBesideItsTakers(t *testing.T) {
	t.Parallel()
	const amount = 1 << 40
	k := keyOf(exports)
	var taken atomic.Int64
	var over atomic.Bool
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for !over.Load() {
				if _, ok := k.Spend(1, 1); ok {
					taken.Add(1)
				}
				if k.Take(Instant(time.Hour), 1).Allowed {
					t.Error("a lease that has ended was spent")
					return
				}
			}
		})
	}
	var spent int64
	for n := range 300 {
		l := leaseOf(amount, Instant(time.Hour))
		l.id = ID{byte(n), byte(n >> 8), 1}
		k.hold([]*Lease{l})
		for range 20 {
			k.moveIn(1)
			k.moveOut()
		}
		k.moveIn(1)
		for was := taken.Load(); taken.Load() < was+20; {
			continue // takers find it where it is
		}
		if held := k.held(); len(held) != 1 || held[0] != &k.own || held[0].id != l.id {
			t.Fatalf("lease %d: %d are in hand", n, len(held))
		}
		last := k.takeOut()
		spent += amount - last.left()
	}
	over.Store(true)
	wg.Wait()
	if spent != taken.Load() {
		t.Errorf("%d units went, takers had %d", spent, taken.Load())
	}
}

// What somebody remembers of a take, and what is special, has a place of its own.
func TestOnlyPlainLeasesMoveIn(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(k *Key, l *Lease){
		"remembered":      func(k *Key, _ *Lease) { k.keep() },
		"a trickle":       func(_ *Key, l *Lease) { l.rest.full = 2 },
		"of the future":   func(_ *Key, l *Lease) { l.begun = false },
		"over":            func(_ *Key, l *Lease) { l.until.Store(1) },
		"one of several":  func(k *Key, l *Lease) { k.hold([]*Lease{l, leaseOf(5, Instant(time.Hour))}) },
		"sealed":          func(_ *Key, l *Lease) { l.seal() },
		"nothing special": func(*Key, *Lease) {},
	} {
		k, l := keyOf(exports), leaseOf(5, Instant(time.Minute))
		l.id = ID{1}
		k.hold([]*Lease{l})
		change(k, l)
		k.moveIn(1)
		if in := k.held()[0] == &k.own; in != (name == "nothing special") {
			t.Errorf("%s: moved in: %v", name, in)
		}
	}
}

// The units of a take are settled on the lease that they came from, or on none.
func TestTheLeaseOfATakeIsRemembered(t *testing.T) {
	t.Parallel()
	k := keyOf(exports)
	first := func() Taken {
		l := leaseOf(5, Instant(time.Minute))
		l.id = ID{byte(k.signs.serial() + 1)}
		k.hold([]*Lease{l})
		k.moveIn(1)
		return k.Take(1, 1)
	}
	old := first()
	k.takeOut()
	now := first()
	if l := k.remembered(&old); l != nil {
		t.Errorf("the lease of before is taken for %v", l.id)
	}
	l := k.remembered(&now)
	if l == nil || l == &k.own || l.id != (ID{2}) || l.left() != 4 {
		t.Fatalf("its lease is %+v", l)
	}
	if again := k.remembered(&now); again != l {
		t.Error("asked again, it is another one")
	}
	if took := k.takeKept(1, 1); !took.Allowed || k.remembered(&took) != l {
		t.Error("who remembers takes of another one")
	}
}

func TestLongNamesAreKeptToo(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, shortName - 1, shortName, shortName + 1, quota.MaxTenantBytes} {
		id := quota.Key{Tenant: strings.Repeat("x", n), Dimension: "report_export"}
		k := keyOf(id)
		k.hold([]*Lease{leaseOf(5, Instant(time.Minute))})
		k.moveIn(1)
		k.moveOut()
		k.hold(nil)
		if k.ID() != id || !k.is(id) || k.is(quota.Key{Tenant: id.Tenant + "x", Dimension: id.Dimension}) {
			t.Errorf("a tenant of %d bytes is kept as %q", n, k.ID().Tenant)
		}
	}
}
