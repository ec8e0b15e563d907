package core

import (
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

func TestAGroupAsksForAllItsColdKeysAtOnce(t *testing.T) {
	t.Parallel()
	d := chain(t, nil)
	d.core.SyncDone(d.now, d.grant(d.build())) // the catalogue
	var got *Outcome
	g := &Group{Tenant: "acme", Takes: takes("a", 1, "b", 2, "c", 3, "x", 4), Done: func(o Outcome) { got = &o }}
	d.core.WantAll(d.now, g)
	req := d.build()
	if n := len(req.GetAsks()); n != 3 {
		t.Fatalf("%d asks, want one for each key that may have a lease: %v", n, req.GetAsks())
	}
	d.now += 4 * time.Millisecond // within the patience of a cold key
	d.core.SyncDone(d.now, d.grant(req))
	spend := d.core.BuildSpend(d.now, time.Second)
	if len(spend.GetItems()) != 1 {
		t.Fatalf("all leases are there, and the exact key is next: %v, %+v", spend, got)
	}
	d.core.SpendDone(d.now, d.now, d.decideSpends(spend))
	if got == nil || !got.Allowed {
		t.Fatalf("%+v", got)
	}
	for name, cost := range map[string]int64{"a": 1, "b": 2, "c": 3} {
		if taken := d.key(quota.Key{Tenant: "acme", Dimension: name}).total(); taken != cost {
			t.Errorf("%d taken of %s, want %d", taken, name, cost)
		}
	}
}

func TestAGroupThatIsDeniedByAKeyThatItDidNotWaitForTakesNothing(t *testing.T) {
	t.Parallel()
	d := chain(t, map[string]int64{"c": 2})
	d.core.SyncDone(d.now, d.grant(d.build()))
	var got *Outcome
	d.core.WantAll(d.now, &Group{Tenant: "acme", Takes: takes("a", 1, "b", 2, "c", 3), Done: func(o Outcome) { got = &o }})
	d.rounds()
	if got == nil || !got.Denied || got.Key.Dimension != "c" {
		t.Fatalf("c has 2 of 3: %+v", got)
	}
	for _, name := range []string{"a", "b"} {
		if taken := d.key(quota.Key{Tenant: "acme", Dimension: name}).total(); taken != 0 {
			t.Errorf("%d taken of %s for a caller who was denied", taken, name)
		}
	}
}
