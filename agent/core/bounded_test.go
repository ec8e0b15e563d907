package core

import (
	"fmt"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// settleFor lets time pass with everything that is due.
func (d *driver) settleFor(span, step time.Duration) {
	d.t.Helper()
	for end := d.now + span; d.now < end; {
		d.advance(step)
		d.settle()
	}
}

// TestR1_13StateIsBounded: what an agent remembers goes when it is idle, is made by nobody's bare
// word, and has an end.
func TestR1_13StateIsBounded(t *testing.T) {
	t.Parallel()
	t.Run("idle keys are dropped after a ttl", func(t *testing.T) {
		t.Parallel()
		d := newDriver(t)
		d.limit, d.cap = 1_000_000, 100_000 // the stand-in has one account for all
		d.settle()
		for i := range 50 {
			d.take(tenant(i), 1)
			d.settle()
		}
		if n := len(d.core.keys); n != 50 {
			t.Fatalf("%d keys are held, 50 are in use", n)
		}
		d.settleFor(3*d.ttl(), time.Second)
		c := d.core
		if len(c.keys) != 0 || len(c.wakes.at) != 0 || len(c.dirty) != 0 || len(c.lazy) != 0 || len(c.leading) != 0 {
			t.Errorf("ttls later: %d keys, %d wakes, %d, %d and %d in line", len(c.keys), len(c.wakes.at), len(c.dirty), len(c.lazy), len(c.leading))
		}
		if _, out := d.used(); out != 0 {
			t.Errorf("%d units of keys that nobody uses are still out", out)
		}
	})
	t.Run("a reservation that nobody settles holds its key for an hour", func(t *testing.T) {
		t.Parallel()
		d := newDriver(t)
		d.warm(exports, 1)
		got, _ := d.take(exports, 1)
		if _, ok := d.core.Reserve(d.now, exports, 1, true, *got); !ok {
			t.Fatal("no reservation")
		}
		d.settleFor(ReservedFor+3*d.ttl(), 5*time.Second)
		if len(d.core.keys) != 0 || len(d.core.reserved) != 0 {
			t.Errorf("%d keys and %d reservations are remembered for ever", len(d.core.keys), len(d.core.reserved))
		}
	})
	t.Run("unverified input creates no state", func(t *testing.T) {
		t.Parallel()
		d := newDriver(t)
		d.settle()
		for i := range 1000 {
			got, _ := d.take(quota.Key{Tenant: "acme", Dimension: fmt.Sprint("made-up-", i)}, 1)
			if got == nil || got.Bad == nil {
				t.Fatalf("a dimension that policy does not know: %+v", got)
			}
			var denied *Outcome
			d.core.WantAll(d.now, &Group{Tenant: "acme", Operation: fmt.Sprint("op", i), Times: 1, Done: func(o Outcome) { denied = &o }})
			if denied == nil || denied.Bad == nil {
				t.Fatalf("an operation that policy does not know: %+v", denied)
			}
		}
		if n := len(d.core.keys) + len(d.core.permits) + len(d.core.reserved) + len(d.core.debts); n != 0 {
			t.Errorf("made-up names left %d records", n)
		}
	})
	t.Run("a tenant that policy refuses is forgotten like any other", func(t *testing.T) {
		t.Parallel()
		r := newReal(t, exactPolicy+"unlisted_tenants: deny\n")
		a := r.agent()
		for range 20 {
			a.take("payouts", 1)
		}
		r.run(30 * time.Second)
		if n := a.Stats(a.clock()).Keys; n != 0 {
			t.Errorf("%d keys", n)
		}
	})
	t.Run("there is a cap on keys", func(t *testing.T) {
		t.Parallel()
		d := newDriver(t)
		d.core.cfg.MaxKeys = 10
		d.settle()
		refused := 0
		for i := range 100 {
			if got, _ := d.take(tenant(i), 1); got != nil && got.Unavailable {
				refused++
			}
		}
		if refused != 90 || len(d.core.keys) != 10 {
			t.Errorf("%d of 100 tenants were turned away, %d keys are held, want 90 and 10", refused, len(d.core.keys))
		}
	})
}

// TestM2EvictionReopensNoQuota has more active keys than the agent holds: whoever comes back
// after his key was dropped starts from the ledger, not from a full quota.
func TestM2EvictionReopensNoQuota(t *testing.T) {
	t.Parallel()
	const tenants, limit = 30, 5
	r := newReal(t, `
unlisted_tenants: allow
dimensions:
  - name: report_export
    kind: period
    limit: 5
    period: {every: day}
    class: hard
    overshoot: 100%
    lease: {ttl: 1s, grace: 500ms}
`)
	a := r.agent()
	a.cfg.MaxKeys = 10
	allowed := map[int]int{}
	for range 12 {
		for i := range tenants {
			var got *Outcome
			w := &Waiter{Key: tenant(i), Cost: 1, Done: func(o Outcome) { got = &o }}
			if k := a.Table.Find(w.Key); k != nil {
				if fast := k.Take(a.clock(), 1); fast.Allowed || fast.Denied {
					got = &Outcome{Taken: fast}
				}
			}
			if got == nil {
				a.Want(a.clock(), w)
				for range 20 {
					if got == nil {
						r.run(time.Millisecond)
					}
				}
			}
			if got == nil {
				o, _ := a.GiveUp(a.clock(), w)
				got = &o
			}
			if got.Allowed {
				allowed[i]++
			}
			if n := len(a.keys); n > 10 {
				t.Fatalf("%d keys are held, the cap is 10", n)
			}
			if i%10 == 9 { // the ten of before go idle, and are dropped
				r.run(3 * time.Second)
			}
		}
	}
	for i := range tenants {
		if allowed[i] != limit {
			t.Errorf("tenant %d was allowed %d, the limit is %d", i, allowed[i], limit)
		}
	}
	r.balanced()
}
