package agent

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/ledger/quota"
)

// meters are the agent's metrics. No label names a tenant: the number of series does not
// depend on how many there are.
type meters struct {
	agent    *Agent
	denial   *prometheus.CounterVec
	retry    *prometheus.HistogramVec // what they were told
	shadow   *prometheus.CounterVec
	open     *prometheus.CounterVec
	extended *prometheus.CounterVec
	lane     *prometheus.HistogramVec // of takes by the exact lane
	waited   *prometheus.HistogramVec // of acquires
	held     *prometheus.HistogramVec // of permits
	slots    *prometheus.HistogramVec

	running, lapsed *prometheus.Desc

	remaining *prometheus.Desc

	taken, inHand, faults, keys, waiting, contact, policy, offset *prometheus.Desc
}

func newMeters(a *Agent) *meters {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("quotalease_agent_"+name, help, labels, nil)
	}
	histogram := func(name, help string, first float64) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "quotalease_agent_" + name, Help: help, Buckets: prometheus.ExponentialBuckets(first, 4, 12),
		}, []string{"dimension"})
	}
	return &meters{
		agent: a,
		denial: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quotalease_agent_denied_total", Help: "Takes not allowed, by reason; unavailable is an outage.",
		}, []string{"dimension", "reason"}),
		retry: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "quotalease_agent_retry_after_seconds", Help: "Time after which denied callers were told to come back, where one is known.",
			Buckets: []float64{0.1, 1, 5, 15, 60, 300, 900, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600},
		}, []string{"dimension"}),
		shadow: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quotalease_agent_would_deny_total", Help: "Takes allowed that a limit which is only watched would have denied, by reason.",
		}, []string{"dimension", "reason"}),
		open: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quotalease_agent_open_total", Help: "Takes allowed without a lease, by outage mode open.",
		}, []string{"dimension"}),
		lane:   histogram("exact_lane_seconds", "Time that callers whom the exact lane served waited for their answer.", 1e-4),
		waited: histogram("acquire_wait_seconds", "Time that callers of acquire waited for their answer, by the dimension that decided.", 1e-4),
		held:   histogram("permit_held_seconds", "Time for which released slots were held.", 1e-2),
		slots:  histogram("permit_slots", "Slots that released permits held.", 1),

		running: desc("running_slots", "Slots in use.", "dimension"),
		lapsed:  desc("lapsed_slots_total", "Slots that nobody gave back before their permit lapsed.", "dimension"),
		extended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quotalease_agent_extended_total", Help: "Takes allowed from an emergency allowance, by outage mode extend.",
		}, []string{"dimension"}),
		taken:     desc("taken_units_total", "Units that callers were allowed, by the way they were had.", "dimension", "lane"),
		remaining: desc("remaining_ratio", "Keys in use by the share of their limit that remains, as this agent knows it.", "dimension"),
		inHand:    desc("in_hand_units", "Units that can be taken now.", "dimension"),
		faults:    desc("faults_total", "Messages that the ledger refused.", "code"),
		keys:      desc("keys", "Keys held."),
		waiting:   desc("waiting", "Callers waiting for units."),
		contact:   desc("contact_age_seconds", "Time since the ledger last answered."),
		policy:    desc("policy_version", "Version of the policy in force here."),
		offset:    desc("clock_offset_seconds", "The ledger's clock less this machine's wall clock, as estimated."),
	}
}

// unavailable counts a take that an outage did not allow: it says nothing about a limit. The
// dimension is one that policy defines, or "unknown" (see Agent.label).
func (m *meters) unavailable(dimension string) {
	m.denial.WithLabelValues(quota.BaseDimension(dimension), string(quota.Unavailable)).Inc()
}

// denied counts a take that a limit did not allow, and when its caller is to come back.
func (m *meters) denied(dimension string, reason quota.Reason, retryIn time.Duration) {
	dimension = quota.BaseDimension(dimension)
	m.denial.WithLabelValues(dimension, string(reason)).Inc()
	if retryIn > 0 {
		m.retry.WithLabelValues(dimension).Observe(retryIn.Seconds())
	}
}

// wouldDeny counts a take of a limit that is only watched, which would not have been allowed.
func (m *meters) wouldDeny(dimension string, reason quota.Reason) {
	m.shadow.WithLabelValues(quota.BaseDimension(dimension), string(reason)).Inc()
}

// wentOn counts a take that an outage mode allowed.
func (m *meters) wentOn(dimension string, mode quota.Reason) {
	dimension = quota.BaseDimension(dimension)
	if mode == quota.Extended {
		m.extended.WithLabelValues(dimension).Inc()
		return
	}
	m.open.WithLabelValues(dimension).Inc()
}

// served counts the answer to a take that went to the exact lane.
func (m *meters) served(dimension string, waited time.Duration) {
	m.lane.WithLabelValues(quota.BaseDimension(dimension)).Observe(waited.Seconds())
}

// acquired counts the answer to an acquire, released the end of a permit.
func (m *meters) acquired(dimension string, waited time.Duration) {
	m.waited.WithLabelValues(dimension).Observe(waited.Seconds())
}

func (m *meters) released(e core.Ended) {
	for _, s := range e.Slots {
		m.held.WithLabelValues(s.Dimension).Observe(e.Held.Seconds())
		m.slots.WithLabelValues(s.Dimension).Observe(float64(s.Cost))
	}
}

// Describe implements prometheus.Collector.
func (m *meters) Describe(ch chan<- *prometheus.Desc) {
	m.denial.Describe(ch)
	m.shadow.Describe(ch)
	m.open.Describe(ch)
	m.extended.Describe(ch)
	for _, h := range []*prometheus.HistogramVec{m.retry, m.lane, m.waited, m.held, m.slots} {
		h.Describe(ch)
	}
	for _, d := range []*prometheus.Desc{m.remaining, m.running, m.lapsed, m.taken, m.inHand, m.faults, m.keys, m.waiting, m.contact, m.policy, m.offset} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *meters) Collect(ch chan<- prometheus.Metric) {
	m.denial.Collect(ch)
	m.shadow.Collect(ch)
	m.open.Collect(ch)
	m.extended.Collect(ch)
	for _, h := range []*prometheus.HistogramVec{m.retry, m.lane, m.waited, m.held, m.slots} {
		h.Collect(ch)
	}
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
	for lane, units := range map[string]map[string]int64{"lease": stats.Leased, "exact": stats.Exact, "emergency": stats.Extended, "unleased": stats.Unleased} {
		for dimension, n := range units {
			ch <- prometheus.MustNewConstMetric(m.taken, prometheus.CounterValue, float64(n), dimension, lane)
		}
	}
	for dimension, n := range stats.InHand {
		gauge(m.inHand, float64(n), dimension)
	}
	for dimension, r := range stats.Remaining {
		ch <- prometheus.MustNewConstHistogram(m.remaining, r.Keys, r.Sum, r.UpTo(), dimension)
	}
	for dimension, n := range stats.Running {
		gauge(m.running, float64(n), dimension)
	}
	for dimension, n := range stats.Lapsed {
		ch <- prometheus.MustNewConstMetric(m.lapsed, prometheus.CounterValue, float64(n), dimension)
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
