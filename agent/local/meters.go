package local

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Meters are the metrics of all limits of a set. No label names a key: the number of series
// depends on the policy alone.
type Meters struct {
	decisions              *prometheus.CounterVec
	cost, left, wait, held *prometheus.HistogramVec
	keys, running, waiting *prometheus.Desc

	mu sync.Mutex
	by map[string]*counts
}

// counts are those of one limit.
type counts struct {
	outcomes               map[Outcome]prometheus.Counter
	cost, left, wait, held prometheus.Observer
}

func newMeters() *Meters {
	histogram := func(name, help string, first, factor float64) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "quotalease_agent_local_" + name, Help: help, Buckets: prometheus.ExponentialBuckets(first, factor, 10),
		}, []string{"limit"})
	}
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("quotalease_agent_local_"+name, help, []string{"limit"}, nil)
	}
	return &Meters{
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quotalease_agent_local_decisions_total",
			Help: "Requests at local limits, by outcome. Tokens: exhausted, too_long. Slots: no_permit, queue_full, queue_bytes.",
		}, []string{"limit", "outcome"}),
		cost:    histogram("cost", "Cost of requests at local limits.", 1, 4),
		left:    histogram("left", "Units or slots that a request left.", 1, 4),
		wait:    histogram("wait_seconds", "Time for which requests wait in the queue of a leaky bucket or for slots.", 1e-4, 4),
		held:    histogram("permit_seconds", "Time for which slots were held.", 1e-3, 4),
		keys:    desc("keys", "Keys held."),
		running: desc("running_slots", "Slots in use."),
		waiting: desc("waiting", "Requests that wait for slots."),
		by:      map[string]*counts{},
	}
}

// outcomes are all that a decision may have.
var outcomes = []Outcome{Passed, Spent, TooLarge, TooLong, TooManyKeys, NoPermit, QueueFull, QueueBytes}

func (m *Meters) of(limit string) *counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c, ok := m.by[limit]; ok {
		return c
	}
	c := &counts{outcomes: map[Outcome]prometheus.Counter{},
		cost: m.cost.WithLabelValues(limit), left: m.left.WithLabelValues(limit),
		wait: m.wait.WithLabelValues(limit), held: m.held.WithLabelValues(limit)}
	for _, o := range outcomes {
		c.outcomes[o] = m.decisions.WithLabelValues(limit, string(o))
	}
	m.by[limit] = c
	return c
}

func (c *counts) decided(o Outcome, cost int64, left quota.Units) {
	c.outcomes[o].Inc()
	c.cost.Observe(float64(cost))
	c.left.Observe(float64(left))
}

// Describe implements prometheus.Collector.
func (s *Set) Describe(ch chan<- *prometheus.Desc) {
	m := s.meters
	for _, c := range []prometheus.Collector{m.decisions, m.cost, m.left, m.wait, m.held} {
		c.Describe(ch)
	}
	for _, d := range []*prometheus.Desc{m.keys, m.running, m.waiting} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (s *Set) Collect(ch chan<- prometheus.Metric) {
	m := s.meters
	for _, c := range []prometheus.Collector{m.decisions, m.cost, m.left, m.wait, m.held} {
		c.Collect(ch)
	}
	p := s.plan.Load()
	if p == nil {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, limit string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, limit)
	}
	for name, l := range p.byName {
		if l.units != nil {
			gauge(m.keys, float64(l.units.count.Load()), name)
			continue
		}
		gauge(m.keys, float64(l.slots.count.Load()), name)
		var inUse, waiting float64
		l.slots.each(func(s *slots) { inUse += float64(s.inUse); waiting += float64(len(s.queue)) })
		gauge(m.running, inUse, name)
		gauge(m.waiting, waiting, name)
	}
}
