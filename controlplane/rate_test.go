package controlplane

import (
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

const ratePolicy = `
dimensions:
  - {name: api_calls, kind: rate, limit: 10/s, burst: 20, class: hard, overshoot: 100%, lease: {ttl: 30s}}
`

func TestR1_1ARateOverTheWire(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ratePolicy)
	a := w.agent()
	reply := a.sync(&pb.SyncRequest{Asks: []*pb.Ask{a.ask("api_calls", 14)}})
	lump := reply.Decisions[0]
	if lump.Amount != 14 || lump.DelayUs != 0 || lump.DripUs != 0 || lump.Last || lump.Window.EndUs != 0 {
		t.Errorf("%v, want 14 at once, in an endless window", lump)
	}
	if s := reply.Keys[0]; s.Limit != 20 || s.Headroom != 6 || s.Next != nil || s.Reason != "" {
		t.Errorf("%v, want 6 of 20 left", s)
	}
	spent := a.spend(a.item("api_calls", 7, 0), a.item("api_calls", 6, 0))
	if d := spent.Decisions[0]; d.Reason != string(quota.Exhausted) || d.RetryInUs != 100_000 {
		t.Errorf("7 of 6: %v, want 100 ms to wait", d)
	}
	if d := spent.Decisions[1]; d.Amount != 6 {
		t.Errorf("6 of 6: %v", d)
	}
	if s := spent.Keys[0]; s.Headroom != 0 || s.Reason != string(quota.Exhausted) || s.RetryInUs != 100_000 {
		t.Errorf("%v, want one unit in 100 ms", s)
	}
	// A trickle, on which the bucket goes below zero: that recalls nothing.
	ask := a.ask("api_calls", 5)
	ask.Need = 5
	for range 2 { // a lost reply gets the same
		d := a.sync(&pb.SyncRequest{Asks: []*pb.Ask{ask}}).Decisions[0]
		if d.Amount != 5 || d.DelayUs != 0 || d.DripUs != 500_000 || d.Revoked {
			t.Errorf("%v, want 5 over 500 ms", d)
		}
	}
	w.ledger.move(400 * time.Millisecond)
	// Use frees the budget, and what a live lease returns the bucket.
	reports := []*pb.Report{{GrantId: lump.GrantId, Key: acme("api_calls"), Window: lump.Window, Taken: 4, Returned: 10, Final: true}}
	if s := a.sync(&pb.SyncRequest{Reports: reports}).Keys[0]; s.Headroom != 9 || s.RetryInUs != 0 {
		t.Errorf("%v, want 9: 10 came back, and one is owed", s)
	}
	if got := w.metric("leases_revoked_total"); got != 0 {
		t.Errorf("%v leases recalled", got)
	}
	w.verified()
}

func TestW4ALoweredBurstRecallsWhatIsOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ratePolicy)
	a := w.agent()
	d := a.lease("api_calls", 20)
	w.apply("\ndimensions:\n  - {name: api_calls, kind: rate, limit: 5/s, burst: 5, class: hard, overshoot: 100%, lease: {ttl: 30s}}\n")
	if err := w.cp.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	report := &pb.Report{GrantId: d.GrantId, Key: acme("api_calls"), Window: d.Window}
	if got := a.sync(&pb.SyncRequest{Reports: []*pb.Report{report}}).Results[0]; !got.Revoked {
		t.Errorf("%v, want that the lease is revoked", got)
	}
	w.verified()
}
