package core

import (
	"slices"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

func TestHotKeysAreAskedForBeforeAnyoneCalls(t *testing.T) {
	t.Parallel()
	for name, restored := range map[string]bool{"with the terms of the last start": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDriver(t)
			d.limit, d.cap = 1_000_000, 100_000
			if restored && !d.core.Restore(d.now, d.catalogue) {
				t.Fatal("the terms cannot be read")
			}
			hot := []quota.Key{tenant(1), tenant(2), tenant(3)}
			d.core.Warm(d.now, hot)
			if n := d.core.Warming(d.now); n != 3 {
				t.Fatalf("%d keys are waited for, want 3", n)
			}
			asks := len(d.sync().GetAsks())
			if restored != (asks == 3) {
				t.Errorf("the first Sync asks for %d leases", asks)
			}
			d.settle()
			if n := d.core.Warming(d.now); n != 0 {
				t.Errorf("%d keys are still waited for", n)
			}
			for _, id := range hot {
				if got := d.core.Table.Find(id).Take(d.now, 1); !got.Allowed {
					t.Errorf("%s: the first caller is told %+v", id, got)
				}
			}
		})
	}
}

// TestWarmingEndsWhateverTheLedgerSays: each of these is an answer, or there is nothing to ask.
func TestWarmingEndsWhateverTheLedgerSays(t *testing.T) {
	t.Parallel()
	exact, slots := hardDay(), hardDay()
	exact.Name, exact.Class = "payouts", "exact"
	slots.Name, slots.Kind, slots.Period, slots.MaxHoldUs = "jobs", "concurrency", nil, time.Hour.Microseconds()
	for _, tc := range []struct {
		name, reason string
		key          quota.Key
		asks         int
	}{
		{"granted", "", exports, 1},
		{"exhausted", "exhausted", exports, 1},
		{"leased out", "leased_out", exports, 1},
		{"served one by one", "exact_lane", exports, 1},
		{"of class exact", "", quota.Key{Tenant: "acme", Dimension: "payouts"}, 0},
		{"slots", "", quota.Key{Tenant: "acme", Dimension: "jobs"}, 0},
		{"of a dimension that is gone", "", quota.Key{Tenant: "acme", Dimension: "of_old"}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := newDriver(t, hardDay(), exact, slots)
			d.reason = tc.reason
			d.core.Warm(d.now, []quota.Key{tc.key})
			asks := 0
			for range 5 {
				asks += len(d.sync().GetAsks())
			}
			if n := d.core.Warming(d.now); n != 0 || asks != tc.asks {
				t.Errorf("%d keys are waited for after %d asks, want 0 after %d", n, asks, tc.asks)
			}
		})
	}
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		d := newDriver(t)
		d.core.Warm(d.now, []quota.Key{exports})
		d.sync()
		req := d.build()
		reply := d.answer(req)
		reply.Decisions[0] = &pb.Decision{GrantId: req.GetAsks()[0].GetGrantId(), Fault: &pb.Fault{Code: "unknown_tenant"}}
		d.core.SyncDone(d.now, reply)
		if n := d.core.Warming(d.now); n != 0 {
			t.Error("a tenant that policy no longer lists is waited for")
		}
	})
	t.Run("more keys than may be held", func(t *testing.T) {
		t.Parallel()
		d := newDriver(t)
		d.core.cfg.MaxKeys = 1
		d.core.Warm(d.now, []quota.Key{tenant(1), tenant(2)})
		d.settle()
		if n := d.core.Warming(d.now); n != 0 {
			t.Errorf("%d keys are waited for", n)
		}
	})
}

func TestWarmingEndsInAnOutage(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.core.Restore(d.now, d.catalogue)
	d.core.Warm(d.now, []quota.Key{exports})
	fail := func(span time.Duration) {
		for end := d.now + span; d.now < end; d.advance(50 * time.Millisecond) {
			if d.build() != nil {
				d.core.SyncDone(d.now, nil)
			}
		}
	}
	fail(WarmFor - time.Second)
	if d.core.Warming(d.now) != 1 {
		t.Fatal("contact may still come in time")
	}
	fail(time.Second)
	if d.core.Warming(d.now) != 0 {
		t.Error("an agent that has no contact is waited for too long")
	}
	t.Run("that is short", func(t *testing.T) {
		t.Parallel()
		day := hardDay()
		day.TtlUs = time.Second.Microseconds() // asks and keys go while it lasts
		d := newDriver(t, day)
		d.core.Restore(d.now, d.catalogue)
		d.core.Warm(d.now, []quota.Key{exports})
		for range 60 {
			if d.build() != nil {
				d.core.SyncDone(d.now, nil)
			}
			d.advance(50 * time.Millisecond)
		}
		for d.core.Warming(d.now) > 0 && d.now < time.Hour+WarmFor {
			d.settle()
			d.advance(50 * time.Millisecond)
		}
		if got, _ := d.take(exports, 1); got == nil || !got.Allowed {
			t.Errorf("contact came in time, and the first caller is told %+v", got)
		}
	})
}

func TestWhatNobodyComesForIsLetGo(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.core.Warm(d.now, []quota.Key{exports})
	asks := 0
	for end := d.now + 3*d.ttl(); d.now < end; d.advance(100 * time.Millisecond) {
		for req := d.sync(); req != nil; req = d.sync() {
			asks += len(req.GetAsks())
		}
	}
	if _, out := d.used(); asks != 1 || out != 0 || len(d.core.keys) != 0 {
		t.Errorf("%d asks, %d units out, %d keys; want one ask, and nothing left of it", asks, out, len(d.core.keys))
	}
}

func TestTheHottestKeysComeFirst(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.limit, d.cap = 1_000_000, 1_000_000
	d.settle()
	const keys = 40
	for round := range 20 {
		for i := range keys {
			if round%(i+1) == 0 { // the higher the number, the rarer
				d.take(tenant(i), 10)
				d.settle()
			}
		}
		d.advance(100 * time.Millisecond)
	}
	before := printOf(d.core)
	hot := d.core.Hot(d.now, 3)
	if want := []quota.Key{tenant(0), tenant(1), tenant(2)}; !slices.Equal(hot, want) {
		t.Errorf("got %v, want %v", hot, want)
	}
	if printOf(d.core) != before {
		t.Error("to look changes nothing")
	}
	if n := len(d.core.Hot(d.now, 256)); n != keys {
		t.Errorf("%d of %d keys are hot", n, keys)
	}
	d.settleFor(3*d.ttl(), time.Second)
	if hot := d.core.Hot(d.now, 256); len(hot) != 0 {
		t.Errorf("%v are not used any more", hot)
	}
}
