package scenario

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
)

// racing is set under the race detector, which makes a run ten times as long and finds nothing in
// a simulation that one goroutine runs.
var racing bool

// large skips what takes long under the race detector.
func large(t *testing.T) {
	t.Helper()
	if racing {
		t.Skip("one goroutine runs it: it races with nobody")
	}
}

// report runs a scenario that comes with the program.
func report(t *testing.T, name string, set ...Param) *Report {
	t.Helper()
	s, err := Builtin(name, set...)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), s, &Progress{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// met runs a scenario and holds it to the figures that it names.
func met(t *testing.T, name string, set ...Param) *Report {
	t.Helper()
	r := report(t, name, set...)
	if len(r.Checks()) == 0 {
		t.Fatalf("%s expects nothing", name)
	}
	for _, c := range r.Checks() {
		if !c.Met {
			t.Errorf("%s: %s is %g, wanted %s %g", name, c.Metric, c.Got, c.Op, c.Value)
		}
	}
	return r
}

func method(t *testing.T, r *Report, m Method) *Result {
	t.Helper()
	i := slices.IndexFunc(r.Results, func(x *Result) bool { return x.Method == string(m) })
	if i < 0 {
		t.Fatalf("%s was not run", m)
	}
	return r.Results[i]
}

func TestEveryBuiltinScenarioIsSound(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		s, err := Builtin(name)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if s.Name != name {
			t.Errorf("%s calls itself %s", name, s.Name)
		}
		if len(s.Expect) == 0 {
			t.Errorf("%s expects nothing", name)
		}
	}
}

func TestASeedDecidesEverything(t *testing.T) {
	t.Parallel()
	one, two := report(t, "static-split"), report(t, "static-split")
	for i := range one.Results {
		if !reflect.DeepEqual(one.Results[i], two.Results[i]) {
			t.Errorf("two runs of %s differ:\n%v\n%v", one.Results[i].Method, one.Results[i].Figures(), two.Results[i].Figures())
		}
	}
	s, err := Builtin("static-split")
	if err != nil {
		t.Fatal(err)
	}
	s.Seed++
	other, err := Run(t.Context(), s, &Progress{})
	if err != nil {
		t.Fatal(err)
	}
	if other.Results[0].Requests == one.Results[0].Requests && other.Results[0].RoundTrips == one.Results[0].RoundTrips {
		t.Error("another seed made the same history")
	}
}

func TestEveryMethodMeetsTheSameDemand(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"static-split", "carry-over", "central-counter"} {
		r := report(t, name)
		for _, other := range r.Results[1:] {
			for i, w := range r.Results[0].Windows {
				if other.Windows[i].Demand != w.Demand {
					t.Errorf("%s: in window %d %s met a demand of %d, %s of %d", name, i, Ours, w.Demand, other.Method, other.Windows[i].Demand)
				}
			}
		}
	}
}

// 10 instances of 100 a second each: under skewed demand units lie idle, and 20 instances let
// 2,000 a second pass.
func TestStaticSplitWastesUnitsAndScalesPastTheLimit(t *testing.T) {
	t.Parallel()
	r := met(t, "static-split")
	split := method(t, r, StaticSplit)
	for i, w := range split.Windows {
		switch {
		case i < 10 && w.Used > 900:
			t.Errorf("window %d: %d were used under skewed demand: nothing lay idle", i, w.Used)
		case i >= 10 && (w.Used != 2000 || w.Overshoot != 1000):
			t.Errorf("window %d: 20 instances let %d pass, want 2000", i, w.Used)
		}
	}
	for i, w := range r.Results[0].Windows {
		if w.Used > 1000 {
			t.Errorf("window %d: leases let %d pass", i, w.Used)
		}
	}
}

func TestCarriedOverCreditPassesTheLimit(t *testing.T) {
	t.Parallel()
	r := met(t, "carry-over")
	if over := method(t, r, CarryOver).Overshoot; over < 1000 {
		t.Errorf("kept credit let %d more than the limit pass, want 1000 or more", over)
	}
}

// Each call to a central counter pays the round trip, and a cut serves nobody behind it.
func TestACentralCounterPaysARoundTripACall(t *testing.T) {
	t.Parallel()
	r := met(t, "central-counter")
	central := method(t, r, CentralCounter)
	if central.RoundTrips != central.Requests {
		t.Errorf("%d requests made %d round trips", central.Requests, central.RoundTrips)
	}
	if p50 := central.Demands[1].Costs[0].P50; p50 < 90 || p50 > 150 {
		t.Errorf("far callers wait %g ms, the round trip is 90 to 150", p50)
	}
	if ours := r.Results[0]; ours.Unavailable >= central.Unavailable {
		t.Errorf("a cut fails %d calls with leases, %d with the counter", ours.Unavailable, central.Unavailable)
	}
}

func TestQuantilesAreWithinThreePercent(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		var h histogram
		var all []time.Duration
		for range 1 + rng.IntN(300) {
			d := time.Duration(math.Exp(rng.Float64()*18)) * time.Microsecond
			h.add(d)
			all = append(all, d)
		}
		slices.Sort(all)
		for _, q := range []float64{0.5, 0.99, 1} {
			want := all[max(int(math.Ceil(q*float64(len(all))))-1, 0)]
			got := h.quantile(q)
			if got < want || float64(got) > float64(want)*1.032+1000 {
				t.Fatalf("quantile %g of %d durations is %s, want %s", q, len(all), got, want)
			}
		}
	}
}
