package scenario

import (
	"slices"
	"testing"
)

func TestF1SmallLimitManyAgents(t *testing.T) {
	t.Parallel()
	for i, w := range met(t, "small-limit").Results[0].Windows {
		if w.Used != 3 {
			t.Errorf("minute %d: %d pass, want 3", i, w.Used)
		}
	}
}

func TestF2BurstySmallNode(t *testing.T) {
	t.Parallel()
	met(t, "bursty-small")
}

func TestF3HotNode(t *testing.T) {
	t.Parallel()
	large(t)
	r := met(t, "hot-node").Results[0]
	for _, d := range r.Demands {
		if most := d.Costs[0].Most; most > 60 {
			t.Errorf("a caller of the %s node waited %g ms", d.Name, most)
		}
	}
}

// 5 a second under 10 a second: 5 in every window, for ever.
func TestF4ChargedDenials(t *testing.T) {
	t.Parallel()
	for i, w := range met(t, "charged-denials").Results[0].Windows {
		if w.Used != 5 {
			t.Errorf("second %d: %d were served, want 5", i, w.Used)
		}
	}
}

// 500 agents that start together with a ttl of 60 s: in the fourth period no second has more
// than three times its even share of what they ask.
func TestF6RenewalHerd(t *testing.T) {
	t.Parallel()
	large(t)
	r := met(t, "herd").Results[0]
	if most, even := busiest(r.Load[1800:2400]); most > 3*even {
		t.Errorf("a second of the fourth period has %d round trips, the mean is %d", most, even)
	}
	if first := sum(r.Load[:10]); first < 500 {
		t.Errorf("%d round trips in the first second: the agents did not start together", first)
	}
}

func TestW2StuckWindow(t *testing.T) {
	t.Parallel()
	large(t)
	if r := met(t, "steady").Results[0]; r.Calls != 2880 || r.Allowed != 2880 {
		t.Errorf("%d of %d calls passed, want all 2880 of a day", r.Allowed, r.Calls)
	}
}

// The control plane returns to 500 agents: they come back spread out.
func TestO6ReturnOfTheControlPlane(t *testing.T) {
	t.Parallel()
	large(t)
	r := met(t, "return").Results[0]
	if most := slices.Max(r.Load[1100:1200]); most > 150 {
		t.Errorf("%d of 500 agents came back within the same 100 ms", most)
	}
	if at := r.Demands[0]; at.Allowed == 0 || r.Felt == 0 {
		t.Error("nobody came back")
	}
}

// A raise, a credit, and what agents give back that stop: all that are out of units feel it.
func TestR2_15MoreUnitsAreFeltWithinASecond(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"raise", "credit", "freed"} {
		if r := met(t, name).Results[0]; r.FeltAgents != 20 {
			t.Errorf("%s: %d agents felt it, want 20", name, r.FeltAgents)
		}
	}
}

func TestR2_15MoreUnitsAreFeltWithinATTLWithoutWatch(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"raise-unheard", "credit-unheard", "freed-unheard"} {
		if r := met(t, name).Results[0]; r.FeltAgents != 20 {
			t.Errorf("%s: %d agents felt it, want 20", name, r.FeltAgents)
		}
	}
}

// What an operator credits is the window's, and no longer: the next one has its limit.
func TestACreditIsOfItsWindow(t *testing.T) {
	t.Parallel()
	r := report(t, "credit", Param{"duration", "2m"}).Results[0]
	for i, want := range []int64{4000, 1000} {
		if w := r.Windows[i]; w.Used != want || w.Limit != want || w.Overshoot != 0 {
			t.Errorf("window %d: %d of %d were used, %d over it; want all %d", i, w.Used, w.Limit, w.Overshoot, want)
		}
	}
}

// Units that a crashed agent held are held for good, until an operator frees them: then others
// may use them, and what the crashed one used of them shows as use over the limit, within bounds.
func TestHeldUnitsAreFreedByAnOperator(t *testing.T) {
	t.Parallel()
	const text = `name: held
description: a crashed agent's units are freed
params: {frees: 1}
duration: 1m
policy: |
  dimensions:
    - {name: exports, kind: period, limit: 1000, period: {every: minute}, class: hard, overshoot: 50%, lease: {ttl: 5s, grace: 1s}}
regions:
  - {name: eu, agents: 4}
demand:
  - {dimension: exports, rate: 100/s}
timeline:
  - {at: 5s, crash: eu/0}
  - {at: 30s, release: {dimension: exports, units: "${frees}"}}
`
	run := func(frees string) *Result {
		s, err := Parse("held.yaml", []byte(text), []Param{{"frees", frees}}, noTraces)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Run(t.Context(), s, &Progress{})
		if err != nil {
			t.Fatal(err)
		}
		return r.Results[0]
	}
	few, many := run("1"), run("1000")
	used, bound := many.Windows[0].Used, many.Windows[0].Bound
	if used < few.Windows[0].Used+10 || used > bound {
		t.Errorf("%d were used with one unit freed, %d of at most %d with all of them", few.Windows[0].Used, used, bound)
	}
}

// A cut agent is back within one renewal, and what it could not use the others did.
func TestPartitionOfAQuarter(t *testing.T) {
	t.Parallel()
	large(t)
	r := met(t, "partition").Results[0]
	for i, w := range r.Windows {
		if w.Used < 990 || w.Used > 1000 {
			t.Errorf("window %d: %d of 1000 were used", i, w.Used)
		}
	}
	if r.FeltAgents < 16 {
		t.Errorf("%d agents came back, want 16", r.FeltAgents)
	}
}

func TestLargeJobsAreNotStarved(t *testing.T) {
	t.Parallel()
	met(t, "mixed-cost")
}

func sum(load []int32) (n int64) {
	for _, x := range load {
		n += int64(x)
	}
	return n
}

// busiest is the most and the mean of a second, of counts in 100 ms.
func busiest(load []int32) (most, mean int64) {
	for i := 0; i+10 <= len(load); i += 10 {
		most = max(most, sum(load[i:i+10]))
	}
	return most, sum(load) * 10 / int64(len(load))
}

// A fleet of any size uses what there is and nothing more.
func TestFleetsUseTheLimitAndNoMore(t *testing.T) {
	t.Parallel()
	large(t)
	for _, agents := range []string{"2", "8", "32", "128", "256", "512"} {
		r := report(t, "fleet-512", Param{"agents", agents}).Results[0]
		if r.Overshoot != 0 || r.LedgerOver != 0 {
			t.Errorf("%s agents: %d over the limit, by the ledger %d", agents, r.Overshoot, r.LedgerOver)
		}
		if r.Utilisation < 0.99 {
			t.Errorf("%s agents use %.2f %% of the limit, want 99", agents, 100*r.Utilisation)
		}
		if agents == "512" && r.TripsMean > 2 {
			t.Errorf("each of 512 agents makes %.2f round trips a window, want 2 at most", r.TripsMean)
		}
	}
}

func TestR2_10ALargeRegionDoesNotTakeEveryLeaseFirst(t *testing.T) {
	t.Parallel()
	met(t, "large-region")
}

// New exports end with their leases, thumbnails go on from an allowance, free reads go on and are
// counted, and renders that run are not cut.
func TestR2_9AnOutageThreeWays(t *testing.T) {
	t.Parallel()
	r := met(t, "outage-three-ways").Results[0]
	if r.Unavailable == 0 || r.Denials > r.Unavailable/10 {
		t.Errorf("%d calls were answered as an outage, %d as denials", r.Unavailable, r.Denials)
	}
	var renders []*Window
	for _, w := range r.Windows {
		if w.Key == "acme/renders" {
			renders = append(renders, w)
		}
	}
	// Most that ran in each 4 s: 16 s after the last lease has ended, and as the outage ends.
	if before, at, end := renders[15].Used, renders[24].Used, renders[44].Used; before == 0 || at < before-2 || end != 0 {
		t.Errorf("%d renders ran as the outage began, %d after 36 s of it, %d at its end", before, at, end)
	}
}

// A minute of the hour: each call is decided by the core of the agent that it reached.
func TestAThousandAgentsDecideForThemselves(t *testing.T) {
	t.Parallel()
	large(t)
	r := met(t, "hour-1000", Param{"duration", "1m"}).Results[0]
	if r.Calls < 590_000 || r.Allowed < r.Calls*99/100 {
		t.Errorf("%d of %d calls passed, want nearly all of 600,000", r.Allowed, r.Calls)
	}
	if r.RoundTrips*50 > r.Calls {
		t.Errorf("%d calls made %d round trips", r.Calls, r.RoundTrips)
	}
}

// BenchmarkAThousandAgents is what a decision costs with all that lies behind it. An hour of a
// thousand agents has 36 million of them.
func BenchmarkAThousandAgents(b *testing.B) {
	s, err := Builtin("hour-1000", Param{"duration", "30s"})
	if err != nil {
		b.Fatal(err)
	}
	calls := int64(0)
	for b.Loop() {
		r, err := Run(b.Context(), s, &Progress{})
		if err != nil {
			b.Fatal(err)
		}
		calls += r.Results[0].Calls
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(calls), "ns/call")
}

// Agents choose their leases' sizes by what they need: no one size for all is as good, at the same
// safety.
func TestALeaseSizeIsATrade(t *testing.T) {
	t.Parallel()
	large(t)
	r := met(t, "eoq")
	ours := r.Results[0]
	for _, p := range r.Curve {
		if p.Result.Overshoot != 0 {
			t.Errorf("leases of %s pass the limit by %d", p.Value, p.Result.Overshoot)
		}
		if !p.Ours && p.Result.RoundTrips <= ours.RoundTrips && p.Result.Utilisation >= ours.Utilisation {
			t.Errorf("leases of %s use %.1f %% with %d round trips, ours %.1f %% with %d", p.Value,
				100*p.Result.Utilisation, p.Result.RoundTrips, 100*ours.Utilisation, ours.RoundTrips)
		}
	}
}

// Work holds its slots until it has ended: no more than the limit runs, and no fewer in want.
func TestSlotsAreNeverOverbooked(t *testing.T) {
	t.Parallel()
	s, err := Parse("slots.yaml", []byte(`name: slots
description: more work than slots
duration: 2m
policy: |
  dimensions:
    - {name: renders, kind: concurrency, limit: 7, max_hold: 1m, class: hard, lease: {ttl: 5s, grace: 1s}}
regions:
  - {name: eu, agents: 3, latency: 5ms, spread: 3ms}
demand:
  - {dimension: renders, rate: 5/s, hold: 10s}
`), nil, noTraces)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), s, &Progress{})
	if err != nil {
		t.Fatal(err)
	}
	d := r.Results[0].Demands[0]
	if r.Results[0].Overshoot != 0 || d.RunningMost != 7 || d.Lost != 0 {
		t.Errorf("at most %d of 7 slots were in use, %d over the limit; %d permits were lost", d.RunningMost, r.Results[0].Overshoot, d.Lost)
	}
	if d.Allowed < 70 || d.Allowed > 84 { // 7 slots serve 7 in 10 s each
		t.Errorf("%d renders ran in two minutes, want nearly 84", d.Allowed)
	}
}

// The storm stays where it is: an agent's round trips do not grow with its clients' tries.
func TestARetryStormCostsNoRoundTrips(t *testing.T) {
	t.Parallel()
	large(t)
	r := met(t, "retry-storm").Results[0]
	if r.RoundTrips*100 > r.Requests {
		t.Errorf("%d requests made %d round trips", r.Requests, r.RoundTrips)
	}
}
