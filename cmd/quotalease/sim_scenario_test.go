package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAScenarioForScriptsHasItsFigures(t *testing.T) {
	t.Parallel()
	page := filepath.Join(t.TempDir(), "out.html")
	r := console{}.run(t, "sim", "--scenario", "small-limit", "-o", "json", "--report", page)
	r.expect(t, exitDone)
	var v map[string]any
	if err := json.Unmarshal([]byte(r.out), &v); err != nil {
		t.Fatalf("read %q: %v", r.out, err)
	}
	for name, want := range map[string]float64{"utilisation": 1, "overshoot": 0} {
		if got, ok := v[name].(float64); !ok || got != want {
			t.Errorf("%s is %v, want %g", name, v[name], want)
		}
	}
	for _, name := range []string{"round_trips", "denials_while_free"} {
		if got, ok := v[name].(float64); !ok || got < 0 {
			t.Errorf("%s is %v, want a number", name, v[name])
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	wantText(t, "the report", string(text), "<h1>small-limit</h1>", "<svg")
}

func TestAScenarioForPeople(t *testing.T) {
	t.Parallel()
	r := console{}.run(t, "sim", "--scenario", "static-split", "--seed", "3")
	r.expect(t, exitDone)
	wantText(t, "sim --scenario", r.out, "A limit of 1,000 a second", "METHOD", "quotalease", "static_split", "P99 WAIT", "EXPECTED", "overshoot")
}

func TestScenariosAreListed(t *testing.T) {
	t.Parallel()
	r := console{}.run(t, "sim", "--list")
	r.expect(t, exitDone)
	wantText(t, "sim --list", r.out, "fleet-512", "agents=512 limit=1000", "static-split")
}

// A scenario that misses its figures is found out, and says which.
func TestAMissedFigureIsAFinding(t *testing.T) {
	t.Parallel()
	text := `name: mine
description: a limit that is never used up
duration: 2s
policy: |
  dimensions:
    - {name: exports, kind: period, limit: 1000, period: {every: second}, class: hard, lease: {ttl: 1s, grace: 100ms}}
regions:
  - {name: eu, agents: 1, latency: 1ms}
demand:
  - {dimension: exports, rate: 10/s}
expect:
  - allowed >= 1000
`
	path := write(t, "mine.yaml", text)
	r := console{}.run(t, "sim", "--scenario", path)
	r.expect(t, exitFound)
	wantText(t, "sim --scenario", r.out, "allowed", ">= 1000", "no")

	bad := write(t, "bad.yaml", strings.Replace(text, "agents: 1", "agent: 1", 1))
	r = console{}.run(t, "sim", "--scenario", bad)
	r.expect(t, exitRefused)
	wantText(t, "a bad file", r.err, bad+":8:regions[0].agent: unknown field; allowed: name, agents, latency, spread")
}

func TestScenarioFlagsAreChecked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--set", "agents=1"}, "only with --scenario"},
		{[]string{"--list", "--scenario", "herd"}, "only without --scenario"},
		{[]string{"--scenario", "away"}, "allowed: a file, or one of: "},
		{[]string{"--scenario", "fleet-512", "--set", "agents"}, "allowed: name=value"},
		{[]string{"--scenario", "fleet-512", "--set", "limits=1"}, "params.limits: the scenario has no such parameter; allowed: agents, limit, trips"},
	} {
		r := console{}.run(t, append([]string{"sim"}, c.args...)...)
		r.expect(t, exitRefused)
		wantText(t, strings.Join(c.args, " "), r.err, c.want)
	}
}
