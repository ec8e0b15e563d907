package core

import (
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

func TestSeveralCallersLearnThatAKeyIsGone(t *testing.T) {
	t.Parallel()
	d := chain(t, nil)
	d.rounds()
	var got []Outcome
	for range 3 {
		d.core.WantAll(d.now, &Group{Tenant: "acme", Takes: takes("a", 1, "b", 1), Done: func(o Outcome) { got = append(got, o) }})
	}
	a := d.core.Table.Find(quota.Key{Tenant: "acme", Dimension: "a"}) // all are in line for it
	d.core.refused(d.now, a, &pb.Fault{Code: "unknown_dimension"})
	if len(got) != 3 || got[0].Bad == nil || got[2].Bad == nil {
		t.Errorf("got %+v, want three callers told that there is no such dimension", got)
	}
}

func TestWhatACopyPutsBackIsNotReportedOnTheOriginalsLease(t *testing.T) {
	t.Parallel()
	for name, settled := range map[string]bool{"of a lease that lives": false, "of a lease that was settled": true} {
		d := chain(t, map[string]int64{"x": 10})
		d.rounds()
		d.all(takes("a", 1))
		g := &Group{Tenant: "acme", Takes: takes("a", 3, "x", 1), Done: func(Outcome) {}}
		d.core.WantAll(d.now, g) // it holds 3 of a while x is being spent
		a := d.core.Table.Find(quota.Key{Tenant: "acme", Dimension: "a"})
		if settled {
			d.core.drop(a, a.held()[0])
		}
		d.advance(7 * time.Second)
		for d.build() == nil {
			d.advance(time.Second)
		}
		d.core.SyncDone(d.now, &pb.SyncReply{NewIncarnation: true, LedgerNowUs: d.ledgerNow().UnixMicro()})
		d.core.AbandonAll(d.now, g)
		if len(a.closing) > 0 {
			t.Errorf("%s: a copy reports on a lease that is not its own", name)
		}
		if u := a.unleased; !settled && (len(u) != 1 || u[0].taken < 3) {
			t.Errorf("%s: what the copy held is %+v, want at least 3 used without a lease", name, u)
		}
	}
}

func TestWorkDoesNotBeginOnSlotsWhoseLeaseHasEnded(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"in time": false, "too late": true} {
		r := newReal(t, `
dimensions:
  - {name: jobs, kind: concurrency, limit: 4, max_hold: 1m, class: hard, lease: {ttl: 4s, grace: 1s}}
  - {name: runs, kind: period, limit: 100, period: {every: day}, class: exact}
`)
		a := r.agent()
		var got Outcome
		g := &Group{Tenant: "acme", Takes: takes("jobs", 1, "runs", 1), Permit: "p", Done: func(o Outcome) { got = o }}
		a.WantAll(a.clock(), g)
		for range 1000 {
			if g.exact || g.over {
				break
			}
			r.run(time.Millisecond)
		}
		if late { // as if the exact lane had taken longer than the lease lives
			g.parts[0].holds[0].lease.deadline = a.clock()
		}
		r.run(time.Second)
		if got.Allowed == late || got.Unavailable != late {
			t.Errorf("%s: %+v", name, got)
		}
		if late && got.Key.Dimension != "jobs" {
			t.Errorf("%s: the key that failed is not named: %+v", name, got)
		}
		want := quota.Units(1)
		if late {
			want = 0
		}
		if acc := r.account("runs"); acc.Settled() != want {
			t.Errorf("%s: %d runs are charged, want %d", name, acc.Settled(), want)
		}
	}
}
