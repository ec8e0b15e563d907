package scenario

import (
	"slices"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// loadStep is the width in which requests to the control plane are counted.
const loadStep = 100 * time.Millisecond

// samples is how many points a chart over time has.
const samples = 400

// meter counts what happens in a run.
type meter struct {
	*run
	accounts map[quota.Key]*account
	order    []*account
	demands  []*demandMeter
	regions  []int64 // used

	requests, calls, allowed int64
	trips                    int64
	spans                    []Span // windows of the first account
	spanEnds                 time.Duration
	load                     []int32
	series                   []Sample
	felt                     histogram
	waiting                  int // agents that were to hear of something, and have not
}

type demandMeter struct {
	requests, calls, allowed int64
	used                     int64
	waits                    []histogram // of allowed calls, by cost
	tried, passed            []int64     // calls, by cost
	running, most            int64       // slots in use
	lost                     int64       // work whose permit was gone before it had ended
	series                   []DemandSample
}

func newMeter(r *run) *meter {
	m := &meter{run: r, accounts: map[quota.Key]*account{}, regions: make([]int64, len(r.Regions))}
	r.meter = m
	for _, d := range r.Scenario.Demand {
		if m.accounts[d.Key] == nil {
			a := newAccount(r, d.Key)
			m.accounts[d.Key] = a
			m.order = append(m.order, a)
		}
		m.demands = append(m.demands, &demandMeter{waits: make([]histogram, len(d.Costs)), tried: make([]int64, len(d.Costs)), passed: make([]int64, len(d.Costs))})
	}
	return m
}

func (m *meter) account(key quota.Key) *account { return m.accounts[key] }

// meterStep is how long a "window" of an endless quota is in reports.
func (r *run) meterStep() time.Duration { return max(r.Duration/60, time.Second).Round(time.Second) }

func (m *meter) begin() {
	m.spanEnds = m.order[0].ends
	m.after(m.spanEnds-m.now, m.span)
	step := m.Duration / samples
	var sample func()
	sample = func() {
		m.sample()
		m.after(step, sample)
	}
	m.after(step/2, sample)
}

// span ends a window of round trips.
func (m *meter) span() {
	s := Span{Start: 0}
	if n := len(m.spans); n > 0 {
		s.Start = m.spans[n-1].end
	}
	for _, a := range m.agents {
		if a.up {
			s.Agents++
		}
		s.RoundTrips += int64(a.trips)
		s.Most = max(s.Most, int64(a.trips))
		a.trips = 0
	}
	s.end = millis(m.now)
	m.spans = append(m.spans, s)
	if m.now >= m.Duration {
		return
	}
	m.order[0].roll()
	if m.spanEnds = m.order[0].ends; m.spanEnds > m.now {
		m.after(m.spanEnds-m.now, m.span)
	}
}

func (m *meter) sample() {
	a := m.order[0]
	a.roll()
	m.series = append(m.series, Sample{
		At: millis(m.now), Used: slices.Clone(a.region), Limit: a.window.Limit, Bound: a.window.Bound,
		Outstanding: a.outstanding, Held: a.held,
	})
	for _, d := range m.demands {
		d.series = append(d.series, DemandSample{At: millis(m.now), Calls: d.calls, Allowed: d.allowed, Running: d.running})
	}
}

// arrived counts a call, however often it is sent.
func (m *meter) arrived(s *stream, a *agent, cost int64) {
	s.account.roll()
	m.calls++
	s.meter.calls++
	s.account.window.Demand += cost
}

// requested counts one try.
func (m *meter) requested(s *stream, a *agent) {
	m.requests++
	s.meter.requests++
	s.account.roll()
	s.account.window.Requests++
}

// answered counts the answer to one try.
func (m *meter) answered(s *stream, a *agent, cost int64, which int, waited time.Duration, v verdict) {
	acc := s.account
	acc.roll()
	w := acc.window
	switch {
	case v.allowed:
		at := m.now
		if v.spent > 0 {
			at = v.spent
		}
		acc.use(at, cost, a.region)
		m.regions[a.region] += cost
		s.meter.used += cost
		s.meter.waits[which].add(waited)
		a.denied = false
		if a.awaiting {
			a.awaiting = false
			m.waiting--
			m.felt.add(m.now - a.felt)
		}
	case v.unavailable:
		a.denied = true
		w.Unavailable++
	default:
		a.denied = true
		w.Denied[v.reason]++
		w.Denials++
		if m.model.free(acc) >= cost {
			w.DenialsFree++
			if acc.limit >= 0 && acc.inUse()*100 < acc.inForce()*99 {
				w.DenialsWhileFree++
			}
		}
	}
}

// ended counts what became of a call.
func (m *meter) ended(s *stream, a *agent, cost int64, which int, v verdict) {
	s.meter.tried[which]++
	if v.allowed {
		m.allowed++
		s.meter.allowed++
		s.meter.passed[which]++
	}
}

// trip counts a request to the control plane, or to whatever there is instead.
func (m *meter) trip(a *agent) {
	m.trips++
	a.trips++
	i := int(m.now / loadStep)
	for len(m.load) <= i {
		m.load = append(m.load, 0)
	}
	m.load[i]++
}

// await begins to time how soon agents that deny, or are cut off, allow again.
func (m *meter) await(agents []*agent) {
	for _, a := range agents {
		if a.up && a.denied && !a.awaiting {
			a.awaiting, a.felt = true, m.now
			m.waiting++
		}
	}
}

// retake reads limits anew after a change of policy, and reports that one grew.
func (m *meter) retake() (raised bool) {
	for _, a := range m.order {
		a.roll()
		if a.retake(m.snap) {
			raised = true
		}
	}
	return raised
}

// adjusted takes an operator's decision into account. Who frees held units accepts that they may
// have been used.
func (m *meter) adjusted(e Event) {
	a := m.accounts[e.Key]
	if a == nil {
		return // nobody calls for it
	}
	a.roll()
	if e.Action == Credit {
		a.credit += e.Units
	} else {
		a.freed += e.Units
	}
	a.raise(a.window)
}

func (m *meter) end() {
	if n := len(m.spans); n == 0 || m.spans[n-1].end < millis(m.now) {
		m.span()
	}
}
