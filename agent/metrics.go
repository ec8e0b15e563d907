package agent

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quotalease/quotalease/ledger/quota"
)

// meters are the agent's metrics. No label names a tenant: the number of series does not
// depend on how many there are.
type meters struct {
	agent  *Agent
	denial *prometheus.CounterVec
	open   *prometheus.CounterVec

	taken, inHand, faults, keys, waiting, contact, policy, offset *prometheus.Desc
}

func newMeters(a *Agent) *meters {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("quotalease_agent_"+name, help, labels, nil)
	}
	return &meters{
		agent: a,
		denial: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quotalease_agent_denied_total", Help: "Takes not allowed, by reason; unavailable is an outage.",
		}, []string{"dimension", "reason"}),
		open: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quotalease_agent_open_total", Help: "Takes allowed without a lease, by outage mode open.",
		}, []string{"dimension"}),
		taken:   desc("taken_units_total", "Units that callers were allowed, by the way they were had.", "dimension", "lane"),
		inHand:  desc("in_hand_units", "Units that can be taken now.", "dimension"),
		faults:  desc("faults_total", "Messages that the ledger refused.", "code"),
		keys:    desc("keys", "Keys held."),
		waiting: desc("waiting", "Callers waiting for units."),
		contact: desc("contact_age_seconds", "Time since the ledger last answered."),
		policy:  desc("policy_version", "Version of the policy in force here."),
		offset:  desc("clock_offset_seconds", "The ledger's clock less this machine's wall clock, as estimated."),
	}
}

// denied counts a take that was not allowed. The dimension is one that policy defines, or
// "unknown" (see Agent.label).
func (m *meters) denied(dimension string, reason quota.Reason) {
	m.denial.WithLabelValues(dimension, string(reason)).Inc()
}

func (m *meters) opened(dimension string) { m.open.WithLabelValues(dimension).Inc() }

// Describe implements prometheus.Collector.
func (m *meters) Describe(ch chan<- *prometheus.Desc) {
	m.denial.Describe(ch)
	m.open.Describe(ch)
	for _, d := range []*prometheus.Desc{m.taken, m.inHand, m.faults, m.keys, m.waiting, m.contact, m.policy, m.offset} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *meters) Collect(ch chan<- prometheus.Metric) {
	m.denial.Collect(ch)
	m.open.Collect(ch)
	a := m.agent
	a.mu.Lock()
	now := a.now()
	stats := a.core.Stats(now)
	contact, _ := a.core.Contact()
	version := a.core.PolicyVersion()
	offset := time.Until(a.core.LedgerTime(now))
	a.mu.Unlock()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for lane, units := range map[string]map[string]int64{"lease": stats.Leased, "exact": stats.Exact, "unleased": stats.Unleased} {
		for dimension, n := range units {
			ch <- prometheus.MustNewConstMetric(m.taken, prometheus.CounterValue, float64(n), dimension, lane)
		}
	}
	for dimension, n := range stats.InHand {
		gauge(m.inHand, float64(n), dimension)
	}
	for code, n := range stats.Faults {
		ch <- prometheus.MustNewConstMetric(m.faults, prometheus.CounterValue, float64(n), code)
	}
	gauge(m.keys, float64(stats.Keys))
	gauge(m.waiting, float64(stats.Waiting))
	gauge(m.contact, (now - contact).Seconds())
	gauge(m.policy, float64(version))
	gauge(m.offset, offset.Seconds())
}
