package scenario

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

const good = `name: small
description: what it shows
params: {agents: 2}
duration: 10s
policy: |
  dimensions:
    - {name: exports, kind: period, limit: 10, period: {every: second}, class: hard, lease: {ttl: 1s, grace: 100ms}}
regions:
  - {name: eu, agents: "${agents}", latency: 5ms, spread: 3ms}
demand:
  - {dimension: exports, rate: 10/s}
timeline:
  - {at: 2s, for: 3s, cut: eu/0}
  - {at: 5s, add: {eu: 1}}
expect:
  - overshoot = 0
`

func noTraces(string) (io.ReadCloser, error) { return nil, os.ErrNotExist }

func TestBadScenariosAreRefusedWithTheirLine(t *testing.T) {
	t.Parallel()
	if _, err := Parse("s.yaml", []byte(good), nil, noTraces); err != nil {
		t.Fatalf("the good one is refused: %v", err)
	}
	for _, c := range []struct{ name, from, to, want string }{
		{"unknown field", "duration: 10s", "duration: 10s\ndurations: 1s", "s.yaml:5:durations: unknown field"},
		{"unknown field inside", "latency: 5ms", "latence: 5ms", "s.yaml:9:regions[0].latence: unknown field"},
		{"field twice", "duration: 10s", "duration: 10s\nduration: 1s", "s.yaml:5:duration: "},
		{"no demand", "demand:\n  - {dimension: exports, rate: 10/s}\n", "", "s.yaml:1:demand: is missing"},
		{"no duration", "10s", "soon", "s.yaml:4:duration: \"soon\" is not valid"},
		{"event after the end", "at: 5s", "at: 15s", "s.yaml:14:timeline[1].at: 15s is after the scenario's end"},
		{"event lasts beyond the end", "for: 3s", "for: 30s", "s.yaml:13:timeline[0].for: it lasts until 32s"},
		{"event of nothing", "add: {eu: 1}", "for: 1s", "s.yaml:14:timeline[1]: names 0 of"},
		{"event of two things", "cut: eu/0", "cut: eu/0, down: control_plane", "s.yaml:13:timeline[0]: names 2 of"},
		{"agents that there are not", "cut: eu/0", "cut: eu/7", "s.yaml:13:timeline[0].cut: \"eu/7\" names agents that there are not; allowed: eu/0-2"},
		{"agents backwards", "cut: eu/0", "cut: eu/2-1", "s.yaml:13:timeline[0].cut: \"eu/2-1\" runs backwards; allowed: the smaller number first"},
		{"size of leases", "duration: 10s", "duration: 10s\nlease_size: many", "s.yaml:5:lease_size: \"many\" is not valid; allowed: auto, or a whole number"},
		{"time before the beginning", "at: 2s", "at: -2s", "s.yaml:13:timeline[0].at: \"-2s\" is not valid; allowed: a duration like 30s or 5ms, from 0s to 8784h"},
		{"before it joins", "cut: eu/0", "crash: eu/2", "s.yaml:13:timeline[0]: an agent that joins at 5s cannot be meant at 2s"},
		{"region that there is not", "cut: eu/0", "cut: mars", "s.yaml:13:timeline[0].cut: \"mars\" names no agents"},
		{"cut twice", "at: 5s, add: {eu: 1}", "at: 3s, for: 1s, cut: all", "s.yaml:14:timeline[1]: cut at 3s begins before the cut at 2s has ended"},
		{"credit of nothing", "add: {eu: 1}", "credit: {dimension: exports}", "s.yaml:14:timeline[1].credit.units: is missing"},
		{"credit for a while", "add: {eu: 1}", "for: 1s, credit: {dimension: exports, units: 1}", "s.yaml:14:timeline[1]: for has no meaning with credit"},
		{"credit that nobody could give", "cut: eu/0}\n  - {at: 5s, add: {eu: 1}}", "down: control_plane}\n  - {at: 4s, credit: {dimension: exports, units: 1}}", "s.yaml:14:timeline[1]: credit at 4s finds the control plane down"},
		{"stop of one that is down", "cut: eu/0}\n  - {at: 5s, add: {eu: 1}}", "crash: eu/0}\n  - {at: 4s, stop: eu/0}", "s.yaml:14:timeline[1]: stop at 4s begins before the crash at 2s has ended"},
		{"demand backwards", "rate: 10/s", "rate: 10/s, from: 8s, to: 7s", "s.yaml:11:demand[0]: from 8s to 7s is impossible"},
		{"no such dimension", "dimension: exports,", "dimension: imports,", "s.yaml:11:demand[0].dimension: dimension \"imports\" is not defined; near: exports; allowed: a dimension of the policy: exports"},
		{"work without slots", "rate: 10/s", "rate: 10/s, hold: 3s", "s.yaml:11:demand[0].hold: has no meaning here; allowed: only with a dimension of kind concurrency"},
		{"slots without work", "kind: period, limit: 10, period: {every: second}", "kind: concurrency, limit: 10, max_hold: 1m", "s.yaml:11:demand[0].hold: is missing; allowed: how long the work of a call lasts, like 30s"},
		{"rate without time", "rate: 10/s", "rate: 10", "s.yaml:11:demand[0].rate: \"10\" is not valid"},
		{"rate and bursts", "rate: 10/s", "rate: 10/s, bursts: {size: 1, every: 1s}", "s.yaml:11:demand[0]: 2 of rate, bursts and trace"},
		{"trace that cannot be read", "rate: 10/s", "trace: away.csv", "s.yaml:11:demand[0].trace: "},
		{"shares of costs", "rate: 10/s", "rate: 10/s, costs: {1: 50%}", "s.yaml:11:demand[0].costs: the shares are 0.5 together"},
		{"clients of an odd kind", "rate: 10/s", "rate: 10/s, clients: {denied: cry}", "s.yaml:11:demand[0].clients.denied: \"cry\" is not known"},
		{"latency below its spread", "spread: 3ms", "spread: 6ms", "s.yaml:9:regions[0].spread: is more than the latency"},
		{"fault in the policy", "limit: 10,", "limit: -10,", "s.yaml:7:policy: dimensions[0].limit"},
		{"parameter that is not used", "agents: 2}", "agents: 2, more: 1}", "params.more: is not used"},
		{"parameter that is not named", "${agents}", "${agent}", "s.yaml:9: ${agent} is not a parameter"},
		{"figure that there is not", "overshoot = 0", "overshot = 0", "s.yaml:16:expect[0]: \"overshot\" is not a figure"},
		{"no YAML", "duration: 10s", "duration: [10s", "s.yaml:"},
		{"alias", "duration: 10s", "duration: &d 10s", "s.yaml:4: is an alias"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(good, c.from, c.to, 1)
			if text == good {
				t.Fatal("the case changes nothing")
			}
			s, err := Parse("s.yaml", []byte(text), nil, noTraces)
			var faults Faults
			if !errors.As(err, &faults) || s != nil {
				t.Fatalf("got %v and %v, want faults alone", s, err)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("it is refused with\n%v\nwant %s", err, c.want)
			}
		})
	}
}

func TestParametersAreSetByName(t *testing.T) {
	t.Parallel()
	s, err := Parse("s.yaml", []byte(good), []Param{{"agents", "7"}}, noTraces)
	if err != nil {
		t.Fatal(err)
	}
	if s.Regions[0].Agents != 7 || s.Params[0].Value != "7" {
		t.Errorf("agents are %d, the parameter %v", s.Regions[0].Agents, s.Params)
	}
	if s, err = s.With(Param{"agents", "9"}); err != nil || s.Regions[0].Agents != 9 {
		t.Errorf("set anew: %v, %v", s, err)
	}
	if _, err := Parse("s.yaml", []byte(good), []Param{{"limit", "7"}}, noTraces); err == nil || !strings.Contains(err.Error(), "params.limit: the scenario has no such parameter; allowed: agents") {
		t.Errorf("a parameter that there is not: %v", err)
	}
}

func TestATraceIsDemand(t *testing.T) {
	t.Parallel()
	csv := "timestamp,tenant,dimension,cost\n2026-01-01T00:00:00Z,acme,exports,2\n2026-01-01T00:00:03Z,acme,exports,5\n2026-01-01T00:05:00Z,acme,exports,1\n"
	s, err := Parse("s.yaml", []byte(strings.Replace(good, "rate: 10/s", "trace: a.csv", 1)), nil, func(string) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(csv)), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), s, &Progress{})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Results[0]; got.Calls != 2 || got.Windows[0].Demand != 2 || got.Windows[3].Demand != 5 {
		t.Errorf("%d calls, %d in the first second and %d in the fourth; want 2, 2 and 5", got.Calls, got.Windows[0].Demand, got.Windows[3].Demand)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	for _, name := range Names() {
		text, err := builtin.ReadFile("builtin/" + name + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Parse("f.yaml", text, nil, noTraces)
		if (s == nil) == (err == nil) {
			t.Fatalf("got %v and %v", s, err)
		}
		var faults Faults
		if err != nil && !errors.As(err, &faults) {
			t.Fatalf("refused by something else: %v", err)
		}
	})
}
