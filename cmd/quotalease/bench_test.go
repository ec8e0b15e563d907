package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/quotalease/quotalease/cmd/quotalease/bench"
	"github.com/quotalease/quotalease/ledger/ledgertest"
)

func TestBenchSaysWhatMayBeMeasured(t *testing.T) {
	t.Parallel()
	c := console{env: map[string]string{databaseEnv: "postgres://u:hunter2@127.0.0.1:1/x"}}
	for _, x := range []struct{ flag, value, want string }{
		{"--rounds", "0", "--rounds: 0; allowed: 1 to 1,000"},
		{"--time", "1us", "--time: 1µs; allowed: 1ms to 1h"},
		{"--keys", "999", "--keys: 999; allowed: 1,000 to 1,000,000"},
		{"--run", "(", "allowed: a regular expression"},
		{"--run", "nothing like it", `allowed: what matches one of: one hot key, 10,000 keys, alone, exact lane, rate limit service, rate limit service at 8,000/s, take by gRPC, steady, growth: decisions, growth: agents, growth: keys, growth: tenants, growth: window edge, growth: restart`},
		{"--data-dir", "d", "allowed: only for a private Postgres"},
	} {
		r := c.run(t, "bench", x.flag, x.value)
		r.expect(t, exitRefused)
		wantText(t, x.flag, r.err, x.want)
	}
	r := c.run(t, "bench")
	r.expect(t, exitOutage)
	if strings.Contains(r.err, "hunter2") {
		t.Errorf("the password is shown:\n%s", r.err)
	}
}

func TestBenchShowsATableJSONAndAPage(t *testing.T) {
	t.Parallel()
	c := console{env: map[string]string{databaseEnv: ledgertest.Empty(t)}}
	args := []string{"bench", "--run", "alone", "--rounds", "1", "--time", "20ms"}
	r := c.run(t, args...)
	r.expect(t, exitDone)
	wantText(t, "bench", r.out, "medians of 1 rounds of 20ms each", "FIGURE", "p50 of a lone grant", "an INSERT of one row", "<= 3x")
	wantText(t, "progress", r.err, "alone: round 1 of 1")
	name, chart := filepath.Join(t.TempDir(), "bench.html"), filepath.Join(t.TempDir(), "bench.svg")
	r = c.run(t, append(args, "-o", "json", "--report", name, "--chart", chart)...)
	r.expect(t, exitDone)
	var report bench.Report
	if err := json.Unmarshal([]byte(r.out), &report); err != nil || len(report.Figures) != 1 || report.Figures[0].Ratio <= 0 || report.Figures[0].Reached == nil {
		t.Errorf("%v, %s", err, r.out)
	}
	page, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	wantText(t, "page", string(page), "p50 of a lone grant", "<svg", "</html>")
	drawn, err := os.ReadFile(chart)
	if err != nil {
		t.Fatal(err)
	}
	wantText(t, "chart", string(drawn), "p50 of a lone grant", "</svg>")
	r = c.run(t, "bench", "--run", "growth: tenants", "--rounds", "1", "--time", "20ms")
	r.expect(t, exitDone)
	wantText(t, "what grows", r.out, "SIZE", "1,000  tenants of 1,000 keys", "TAKE P99 MS")
}

func TestDoorsAreMeasuredBesideAStub(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts agents and stubs")
	}
	// A restart comes first, as in a run of everything: its control plane is the one that the agents ask.
	r, err := bench.Run(t.Context(), bench.Options{DatabaseURL: ledgertest.Empty(t), Program: os.Args[0], Tenants: 50, Rounds: 1, Time: 100 * time.Millisecond,
		Keys: 1000, Run: regexp.MustCompile("^growth: restart|^rate limit|^take by"), Say: func(string) {}})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range r.Results {
		if x.Median.PerSecond <= 0 || x.Median.P50ms <= 0 || x.Median.P99ms < x.Median.P50ms {
			t.Errorf("%s, %s: %+v", x.Scene, x.Subject, x.Median)
		}
	}
	if len(r.Results) != 7 || len(r.Figures) < 5 {
		t.Errorf("%d results, %d figures", len(r.Results), len(r.Figures))
	}
}
