package local

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// R1.11: who is blocked at the slots is counted apart from who has used its units up.
func TestEveryDecisionIsCounted(t *testing.T) {
	t.Parallel()
	s := setOf(t, wire("units", "token_bucket", 3, time.Second, by("actor")), gate(1, 0))
	registry := prometheus.NewRegistry()
	if err := registry.Register(s); err != nil {
		t.Fatal(err)
	}
	now := func() time.Duration { return 0 }
	var held [][]Charge
	for range 5 {
		charges := s.Plan().Dimension(nil, d, 1, 1)
		c := Caller{Actor: "ann-who-is-in-no-metric"}
		if v, err := s.Take(0, &c, charges, 0); err != nil || v.Denied != nil {
			continue
		}
		if v, err := s.Enter(t.Context(), nil, now, &c, charges, 0); err != nil || v.Denied != nil {
			continue
		}
		held = append(held, charges)
	}
	s.Leave(2*time.Second, held[0])
	want := `
# HELP quotalease_agent_local_decisions_total Requests at local limits, by outcome. Tokens: exhausted, too_long. Slots: no_permit, queue_full, queue_bytes.
# TYPE quotalease_agent_local_decisions_total counter
`
	for _, o := range []string{"allowed 1", "exhausted 0", "no_permit 2", "queue_bytes 0", "queue_full 0", "too_large 0", "too_long 0", "too_many_keys 0"} {
		name, n, _ := strings.Cut(o, " ")
		want += `quotalease_agent_local_decisions_total{limit="gate",outcome="` + name + `"} ` + n + "\n"
	}
	for _, o := range []string{"allowed 3", "exhausted 2", "no_permit 0", "queue_bytes 0", "queue_full 0", "too_large 0", "too_long 0", "too_many_keys 0"} {
		name, n, _ := strings.Cut(o, " ")
		want += `quotalease_agent_local_decisions_total{limit="units",outcome="` + name + `"} ` + n + "\n"
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "quotalease_agent_local_decisions_total"); err != nil {
		t.Error(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	samples := map[string]uint64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if strings.Contains(m.String(), "ann") {
				t.Errorf("%s names a caller: %s", f.GetName(), m)
			}
			if m.GetLabel()[0].GetValue() == "gate" && m.GetHistogram() != nil {
				samples[strings.TrimPrefix(f.GetName(), "quotalease_agent_local_")] = m.GetHistogram().GetSampleCount()
			}
		}
	}
	for name, want := range map[string]uint64{"cost": 3, "left": 3, "wait_seconds": 3, "permit_seconds": 1} {
		if samples[name] != want {
			t.Errorf("%s of the slots: %d observations, want %d", name, samples[name], want)
		}
	}
}
