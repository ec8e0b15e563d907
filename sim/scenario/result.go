package scenario

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Millis is a time since the beginning, in milliseconds.
type Millis float64

func millis(d time.Duration) Millis { return Millis(float64(d) / 1e6) }

// Report is what became of a scenario: the product first, then what it is compared with.
type Report struct {
	Scenario *Scenario
	Results  []*Result
	Curve    []Point
}

// Point is one run of a sweep.
type Point struct {
	Value  string
	Ours   bool
	Result *Result
}

// Result is what one method did.
type Result struct {
	Method      string
	Utilisation float64 // NaN: no window had demand for its whole limit
	Overshoot   int64   // by what callers were allowed
	LedgerOver  int64   // as the ledger recorded it
	Requests    int64
	Calls       int64
	Allowed     int64
	Denials     int64
	Unavailable int64
	Denied      map[quota.Reason]int64

	DenialsWhileFree    int64 // until 99 % of the window's limit was used
	DenialsWhileFreeAll int64

	RoundTrips    int64
	TripsMean     float64 // of one agent in one window
	TripsMost     int64
	Felt          time.Duration // most that an agent took to allow again after a raise or a cut
	FeltMedian    time.Duration
	FeltAgents    int64
	Unfelt        int64 // agents that never did
	PeakLoad      int64 // most round trips in 100 ms
	Windows       []*Window
	Spans         []Span
	Demands       []DemandResult
	Regions       []RegionResult
	Load          []int32 // round trips in steps of 100 ms
	Series        []Sample
	Events        []Event
	Amplification float64
}

// Window is what happened to one key in one window. Limit and Bound are the largest that it had;
// -1 is unlimited.
type Window struct {
	Key              string                 `json:"key"`
	Start            Millis                 `json:"start_ms"`
	Limit            int64                  `json:"limit"`
	Bound            int64                  `json:"bound"`
	Demand           int64                  `json:"demand"`
	Used             int64                  `json:"used"`
	Overshoot        int64                  `json:"overshoot"`
	Requests         int64                  `json:"requests"`
	Denials          int64                  `json:"denials"`
	Denied           map[quota.Reason]int64 `json:"denied"`
	Unavailable      int64                  `json:"unavailable"`
	DenialsWhileFree int64                  `json:"denials_while_free"`
	DenialsFree      int64                  `json:"denials_while_free_all"`

	whole    bool
	promised int64 // by the central counter, its answer on the way
}

// Counts reports that a window says something about utilisation: it was run to its end, and
// there was demand for all of it.
func (w *Window) Counts() bool { return w.whole && w.Limit > 0 && w.Demand >= w.Limit }

// Span is a window of the first key, as far as round trips go.
type Span struct {
	Start      Millis `json:"start_ms"`
	Agents     int64  `json:"agents"`
	RoundTrips int64  `json:"round_trips"`
	Most       int64  `json:"most_of_one_agent"`

	end Millis
}

// Sample is a moment of the first key, for charts.
type Sample struct {
	At          Millis
	Used        []int64 // in the present window, by region
	Limit       int64
	Bound       int64
	Outstanding int64
	Held        int64
}

// DemandSample is a moment of one stream of calls: all so far.
type DemandSample struct {
	At             Millis
	Calls, Allowed int64
	Running        int64 // slots in use
}

// DemandResult is what became of one stream of calls.
type DemandResult struct {
	Name          string         `json:"name"`
	Requests      int64          `json:"requests"`
	Calls         int64          `json:"calls"`
	Allowed       int64          `json:"allowed"`
	Used          int64          `json:"used"`
	Amplification float64        `json:"amplification"`
	RunningMost   int64          `json:"running_max"` // slots in use at one time
	Lost          int64          `json:"lost"`        // work whose permit was gone before it had ended
	Series        []DemandSample `json:"-"`
	Costs         []CostResult   `json:"costs"`
}

// CostResult is how calls of one cost fared. Waits are those of allowed calls.
type CostResult struct {
	Cost    int64   `json:"cost"`
	Calls   int64   `json:"calls"`
	Allowed int64   `json:"allowed"`
	P50     Millis  `json:"wait_p50_ms"`
	P99     Millis  `json:"wait_p99_ms"`
	Most    Millis  `json:"wait_max_ms"`
	Share   float64 `json:"allowed_share"`
}

// RegionResult is what a region used of all keys.
type RegionResult struct {
	Name string `json:"name"`
	Used int64  `json:"used"`
}

// result sums up.
func (m *meter) result(method string) *Result {
	r := &Result{
		Method: method, Requests: m.requests, Calls: m.calls, Allowed: m.allowed, RoundTrips: m.trips,
		Denied: map[quota.Reason]int64{}, Spans: m.spans, Load: m.load, Series: m.series, Events: m.Timeline,
		Felt: m.felt.most, FeltMedian: m.felt.quantile(0.5), FeltAgents: m.felt.total, Unfelt: int64(m.waiting),
	}
	var used, limit float64
	for _, a := range m.order {
		r.LedgerOver = max(r.LedgerOver, a.overshoot)
		for _, w := range a.all {
			r.Windows = append(r.Windows, w)
			r.Overshoot = max(r.Overshoot, w.Overshoot)
			r.Denials += w.Denials
			r.Unavailable += w.Unavailable
			r.DenialsWhileFree += w.DenialsWhileFree
			r.DenialsWhileFreeAll += w.DenialsFree
			for reason, n := range w.Denied {
				r.Denied[reason] += n
			}
			if w.Counts() {
				used, limit = used+float64(w.Used), limit+float64(w.Limit)
			}
		}
	}
	r.Utilisation = used / limit // NaN if there is none
	agentWindows := 0.0
	for _, s := range m.spans {
		agentWindows += float64(s.Agents)
		r.TripsMost = max(r.TripsMost, s.Most)
	}
	r.TripsMean = float64(m.trips) / max(agentWindows, 1)
	if len(m.load) > 0 {
		r.PeakLoad = int64(slices.Max(m.load))
	}
	r.Amplification = ratio(m.requests, m.calls)
	for i, d := range m.demands {
		r.Demands = append(r.Demands, d.result(&m.Scenario.Demand[i]))
	}
	for i, used := range m.regions {
		r.Regions = append(r.Regions, RegionResult{m.Regions[i].Name, used})
	}
	return r
}

func (d *demandMeter) result(of *Demand) DemandResult {
	r := DemandResult{Name: of.Name, Requests: d.requests, Calls: d.calls, Allowed: d.allowed, Used: d.used, Amplification: ratio(d.requests, d.calls),
		RunningMost: d.most, Lost: d.lost, Series: d.series}
	for i, c := range of.Costs {
		h := &d.waits[i]
		r.Costs = append(r.Costs, CostResult{Cost: c.Cost, Calls: d.tried[i], Allowed: d.passed[i], Share: ratio(d.passed[i], d.tried[i]),
			P50: millis(h.quantile(0.5)), P99: millis(h.quantile(0.99)), Most: millis(h.most)})
	}
	return r
}

func ratio(x, y int64) float64 {
	if y == 0 {
		return 0
	}
	return float64(x) / float64(y)
}

// Figures are what expectations may name. Those of one stream of calls have its name behind a
// colon.
func (r *Result) Figures() map[string]float64 {
	figures := map[string]float64{
		"utilisation": r.Utilisation, "overshoot": float64(r.Overshoot), "overshoot_ledger": float64(r.LedgerOver),
		"round_trips": float64(r.RoundTrips), "round_trips_per_agent_window": r.TripsMean, "round_trips_max": float64(r.TripsMost),
		"denials": float64(r.Denials), "unavailable": float64(r.Unavailable),
		"denials_while_free": float64(r.DenialsWhileFree), "denials_while_free_all": float64(r.DenialsWhileFreeAll),
		"denials_while_free_share": ratio(r.DenialsWhileFree, r.Requests),
		"felt_ms":                  float64(millis(r.Felt)), "unfelt": float64(r.Unfelt),
		"amplification": r.Amplification, "peak_load": float64(r.PeakLoad), "allowed": float64(r.Allowed),
	}
	for _, d := range r.Demands {
		figures["allowed_share:"+d.Name] = ratio(d.Allowed, d.Calls)
		figures["amplification:"+d.Name] = d.Amplification
		figures["running_max:"+d.Name], figures["lost:"+d.Name] = float64(d.RunningMost), float64(d.Lost)
		for _, c := range d.Costs {
			name := fmt.Sprintf("%s:%d", d.Name, c.Cost)
			figures["allowed_share:"+name] = c.Share
			figures["wait_p99_ms:"+name] = float64(c.P99)
			figures["wait_max_ms:"+name] = float64(c.Most)
		}
	}
	return figures
}

// Check is what became of an expectation.
type Check struct {
	Expectation
	Got float64
	Met bool
}

// Checks holds the product's own result to what the scenario expects.
func (r *Report) Checks() []Check {
	figures := r.Results[0].Figures()
	var list []Check
	for _, e := range r.Scenario.Expect {
		c := Check{Expectation: e, Got: figures[e.Metric]}
		switch {
		case math.IsNaN(c.Got):
		case e.Op == "<=":
			c.Met = c.Got <= e.Value
		case e.Op == ">=":
			c.Met = c.Got >= e.Value
		default:
			c.Met = c.Got == e.Value
		}
		list = append(list, c)
	}
	return list
}
