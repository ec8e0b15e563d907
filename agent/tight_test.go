package agent

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// TestR4_6LimitsAreMonitoredForBeingTooTight: what is denied beside what is taken, what remains
// and when callers are told to come back, by dimension and by nothing that names a tenant.
func TestR4_6LimitsAreMonitoredForBeingTooTight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := newFakeUplink()
		up.limit = 30
		registry := prometheus.NewRegistry()
		a, stop := start(t, up, func(c *Config) { c.Metrics = registry })
		defer stop()
		take := func(times int, allowed bool) {
			for range times {
				if d, err := a.Take(t.Context(), "acme", "report_export", 1); err != nil || d.Allowed != allowed {
					t.Fatal(d, err)
				}
			}
		}
		take(6, true)
		if h := found(t, registry, "remaining_ratio").GetHistogram(); h.GetSampleCount() != 1 || h.GetSampleSum() <= 0 || h.GetBucket()[0].GetCumulativeCount() != 0 {
			t.Errorf("a part of 30 remains, the metrics say %v", h)
		}
		take(24, true)
		take(10, false)
		if n := found(t, registry, "denied_total").GetCounter().GetValue(); n != 10 {
			t.Errorf("%v are denied, want 10 of 40", n)
		}
		if n := sumOf(t, registry, "taken_units_total"); n != 30 {
			t.Errorf("%v are taken, want 30 of 40", n)
		}
		if h := found(t, registry, "remaining_ratio").GetHistogram(); h.GetSampleCount() != 1 || h.GetBucket()[0].GetCumulativeCount() != 1 {
			t.Errorf("nothing remains, the metrics say %v", h)
		}
		h := found(t, registry, "retry_after_seconds").GetHistogram()
		if h.GetSampleCount() != 10 || h.GetSampleSum() <= 0 {
			t.Fatalf("ten callers were told when to come back, the metrics say %v", h)
		}
		up.cut(true)
		time.Sleep(2 * time.Hour)
		if _, err := a.Take(t.Context(), "acme", "report_export", 1); err == nil {
			t.Fatal("want an outage")
		}
		if n := found(t, registry, "retry_after_seconds").GetHistogram().GetSampleCount(); n != 10 {
			t.Error("an outage says nothing about a limit")
		}
		all, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range all {
			if strings.Contains(family.String(), "acme") {
				t.Errorf("%s names a tenant", family.GetName())
			}
		}
	})
}

// family is the metrics of a name.
func family(t *testing.T, registry *prometheus.Registry, name string) []*dto.Metric {
	t.Helper()
	all, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() == "quotalease_agent_"+name {
			return f.GetMetric()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return nil
}

// found is the first of them.
func found(t *testing.T, registry *prometheus.Registry, name string) *dto.Metric {
	t.Helper()
	return family(t, registry, name)[0]
}

func sumOf(t *testing.T, registry *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	for _, m := range family(t, registry, name) {
		sum += m.GetCounter().GetValue()
	}
	return sum
}
