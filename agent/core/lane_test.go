package core

import (
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// told is what the ledger says of L at this moment.
func (d *driver) told(leaseCap int64) {
	d.generation++
	d.core.learn(d.now, &pb.KeyState{Key: wireKey(exports), Window: d.present(), Generation: d.generation,
		Limit: d.limit, Headroom: d.limit, LeaseCap: leaseCap, PolicyVersion: 7})
}

func TestAKeyReturnsToLeasesWithHysteresis(t *testing.T) {
	t.Parallel()
	const ttl = 10 * time.Second // hardDay's
	for _, tc := range []struct {
		name  string
		low   int64 // L goes to and fro between these, every second
		high  int64
		turns int
	}{
		{"around the usual cost", 5, 6, 1},
		{"from too little to nearly ample", 1, 11, 1},
		{"from too little to ample", 5, 12, 9}, // at most once in three quarters of a ttl
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := newDriver(t)
			d.warm(exports, 1)
			k := d.key(exports)
			for range 20 {
				k.noteCost(6)
			}
			for i := range 60 {
				d.told([]int64{tc.low, tc.high}[i%2])
				d.core.inLane(d.now, k)
				d.now += time.Second
			}
			if k.lane.turns < 1 || k.lane.turns > tc.turns {
				t.Errorf("%d turns to the exact lane in a minute, want 1 to %d", k.lane.turns, tc.turns)
			}
			d.told(tc.low)
			d.told(6) // just enough, and from now on it stays
			d.now += ttl/2 + ttl/4 - time.Second
			if !d.core.inLane(d.now, k) && tc.turns == 1 {
				t.Error("back before about a ttl")
			}
			d.now += ttl
			if d.core.inLane(d.now, k) {
				t.Error("L has been enough for a ttl, and leases are not tried")
			}
		})
	}
}

func TestACostAboveLGoesAloneToTheExactLane(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.warm(exports, 1)
	for range 10 {
		d.take(exports, 150) // L is 100
		d.core.spends = nil
	}
	if k := d.key(exports); d.core.inLane(d.now, k) || d.core.exactLane(d.now, k, 1) {
		t.Error("small costs have leases all the same")
	}
}

func TestWhatExposureAloneRefusesIsNeverExhausted(t *testing.T) {
	t.Parallel()
	r := newReal(t, `
dimensions:
  - name: report_export
    kind: period
    limit: 200
    period: {every: day}
    class: hard
    overshoot: 2%
    lease: {ttl: 2s, grace: 1s}
`)
	for range 3 { // a budget of 4 over three agents
		r.agent()
	}
	for i := range 150 {
		a := r.agents[i%3]
		if o := a.take("report_export", 1); !o.Allowed {
			t.Fatalf("take %d of 200: %+v", i, o)
		}
		if i%10 == 0 {
			if o := a.take("report_export", 3); o.Denied && o.Reason == quota.Exhausted {
				t.Fatalf("a cost of 3 is above L, not above the quota: %+v", o)
			}
		}
		r.run(10 * time.Millisecond)
	}
	turns := 0
	for _, a := range r.agents {
		turns += a.Table.Find(exports).lane.turns
	}
	if turns == 0 {
		t.Error("the exact lane was never needed: the test shows nothing")
	}
	r.balanced()
}
