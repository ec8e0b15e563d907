package controlplane

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// counts is what one transaction adds to the metrics, if it commits.
type counts struct {
	approved   map[string]int    // leases and spends, by dimension
	denied     map[[2]string]int // by dimension and reason
	redirected map[string]int    // to the exact lane, by dimension
	faults     map[string]int    // by code
	reports    int
	copies     int
	repeated   int
	events     []ledger.Event
}

func newCounts() counts {
	return counts{approved: map[string]int{}, denied: map[[2]string]int{}, redirected: map[string]int{}, faults: map[string]int{}}
}

func (c *counts) decided(a *ledger.Answer) {
	dimension := quota.BaseDimension(a.Grant.Account.Key.Dimension)
	switch {
	case a.Repeated:
		c.repeated++
	case a.Approved():
		c.approved[dimension]++
	case a.Grant.Reason == quota.ExactLane: // not a no: the agent asks again as a spend
		c.redirected[dimension]++
	default:
		c.denied[[2]string{dimension, string(a.Grant.Reason)}]++
	}
}

// metrics are the control plane's series. None is labelled with a tenant: the number of
// series depends on the policy alone (dimensions), which is capped.
type metrics struct {
	batchItems    prometheus.Histogram
	batchRequests prometheus.Histogram
	commits       prometheus.Counter
	retries       prometheus.Counter
	outages       prometheus.Counter
	refused       prometheus.Counter
	latency       prometheus.Histogram
	queue         prometheus.Gauge
	approved      *prometheus.CounterVec
	denied        *prometheus.CounterVec
	redirected    *prometheus.CounterVec
	faults        *prometheus.CounterVec
	repeated      prometheus.Counter
	reports       prometheus.Counter
	copies        prometheus.Counter
	broken        prometheus.Counter
	policyVersion prometheus.Gauge
	policyDirOK   prometheus.Gauge
	clockSuspect  prometheus.Gauge
	sweeps        prometheus.Counter
	closed        prometheus.Counter
	expired       prometheus.Counter
	recalled      prometheus.Counter
	folded        prometheus.Counter
	statements    prometheus.Counter
	watchers      prometheus.Gauge
	noticesLost   prometheus.Counter
	lineMetrics
}

func newMetrics(r prometheus.Registerer) *metrics {
	const ns = "quotalease_controlplane_"
	all := []prometheus.Collector{}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: ns + name, Help: help})
		all = append(all, c)
		return c
	}
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: ns + name, Help: help}, labels)
		all = append(all, c)
		return c
	}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: ns + name, Help: help})
		all = append(all, g)
		return g
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: ns + name, Help: help, Buckets: buckets})
		all = append(all, h)
		return h
	}
	m := &metrics{
		batchItems:    histogram("batch_items", "Items decided in one transaction.", prometheus.ExponentialBuckets(1, 2, 14)),
		batchRequests: histogram("batch_requests", "Syncs and Spends decided in one transaction.", prometheus.ExponentialBuckets(1, 2, 10)),
		commits:       counter("commits_total", "Transactions committed by the granter."),
		retries:       counter("attempts_again_total", "Transactions run again: newer policy, other window, more accounts to lock."),
		outages:       counter("outages_total", "Transactions that the store did not carry out."),
		refused:       counter("queue_refused_total", "Requests turned away because the queue was full."),
		latency: histogram("decision_seconds", "Time from a request's arrival to its answer, commit included.",
			[]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}),
		queue:         gauge("queue_requests", "Requests waiting for a transaction."),
		approved:      vec("approved_total", "Leases and spends approved.", "dimension"),
		denied:        vec("denied_total", "Leases and spends denied.", "dimension", "reason"),
		redirected:    vec("redirected_total", "Leases not granted because the exact lane decides: no denials.", "dimension"),
		faults:        vec("faults_total", "Items refused for what they say.", "code"),
		repeated:      counter("repeated_total", "Asks and spends answered from their record."),
		reports:       counter("reports_total", "Reports merged."),
		copies:        counter("copies_total", "Syncs with a void token, told to start anew: of a copied agent, or so late that a newer one overtook them."),
		broken:        counter("requests_broken_total", "Requests on which the rules broke; none should."),
		policyVersion: gauge("policy_version", "Policy version in use."),
		policyDirOK:   gauge("policy_dir_ok", "1 if the policy directory's present content is applied; 0 without one."),
		clockSuspect:  gauge("clock_suspect", "1 while database and replica disagree on the time: nothing is granted."),
		sweeps:        counter("sweeps_total", "Sweeps for leases to close."),
		closed:        counter("leases_closed_total", "Leases closed by this replica's sweeper."),
		expired:       counter("units_expired_total", "Units left in leases that this replica's sweeper closed."),
		recalled:      counter("leases_revoked_total", "Leases revoked by this replica after a cut, or by an operator."),
		statements:    counter("statements_written_total", "First and final usage statements that this replica's sweeper wrote."),
		folded:        counter("grants_folded_total", "Settled grants whose records were folded into their account."),
		watchers:      gauge("watchers", "Agents that listen for notices."),
		noticesLost:   counter("notices_lost_total", "Notices dropped because an agent read too slowly."),
		lineMetrics:   newLineMetrics(r),
	}
	r.MustRegister(all...)
	return m
}

// lineMetrics are of callers who wait their turn, by operation.
type lineMetrics struct {
	lineTickets, lineOldest *prometheus.GaugeVec
	joined, left            *prometheus.CounterVec
}

func newLineMetrics(r prometheus.Registerer) lineMetrics {
	const ns = "quotalease_controlplane_"
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: ns + name, Help: help}, []string{"operation"})
	}
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: ns + name, Help: help}, []string{"operation"})
	}
	m := lineMetrics{
		lineTickets: gauge("line_tickets", "Callers that wait their turn, of all tenants."),
		lineOldest:  gauge("line_oldest_seconds", "How long the longest of them has waited."),
		joined:      counter("tickets_joined_total", "Callers that began to wait their turn, by this replica."),
		left:        counter("tickets_left_total", "Callers that left their line, served or not, by this replica; others lapse."),
	}
	r.MustRegister(m.lineTickets, m.lineOldest, m.joined, m.left)
	return m
}

func (m *metrics) committed(requests, items int, c counts) {
	m.commits.Inc()
	m.batchRequests.Observe(float64(requests))
	m.batchItems.Observe(float64(items))
	for dimension, n := range c.approved {
		m.approved.WithLabelValues(dimension).Add(float64(n))
	}
	for labels, n := range c.denied {
		m.denied.WithLabelValues(labels[0], labels[1]).Add(float64(n))
	}
	for dimension, n := range c.redirected {
		m.redirected.WithLabelValues(dimension).Add(float64(n))
	}
	for code, n := range c.faults {
		m.faults.WithLabelValues(code).Add(float64(n))
	}
	m.repeated.Add(float64(c.repeated))
	m.reports.Add(float64(c.reports))
	m.copies.Add(float64(c.copies))
	m.recalled.Add(float64(revoked(c.events)))
}

func (m *metrics) suspect(yes bool) {
	if yes {
		m.clockSuspect.Set(1)
		return
	}
	m.clockSuspect.Set(0)
}

func seconds(d time.Duration) float64 { return max(0, d).Seconds() }
