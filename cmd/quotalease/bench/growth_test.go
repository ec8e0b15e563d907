package bench

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quotalease/quotalease/agent"
)

// grown is a report of what grew, with worked numbers.
func grownReport() *Report {
	stretch := func(commits, p99 float64) Stretch {
		return Stretch{Commits: commits, Most: 2 * commits, P50ms: 0.01, P99ms: p99, Worst: p99}
	}
	return &Report{
		Growth: []Growth{
			{Scene: growDecisions, Of: "decisions/s", Points: []Point{
				{At: 1000, Decisions: 1000, Grants: 50, Commits: 50, Uses: 65, CPUms: 100},
				{At: 10_000, Decisions: 10_000, Grants: 52, Commits: 51, Uses: 66, CPUms: 105},
				{At: 100_000, Decisions: 60_000, Grants: 80, Commits: 70, Uses: 72, CPUms: 90}}},
			{Scene: growKeys, Of: "keys", Points: []Point{
				{At: 1000, Decisions: 1000, Grants: 200, Commits: 40, P99ms: 1}, {At: 100_000, Decisions: 500, Grants: 1000, Commits: 60, P99ms: 200}}},
		},
		Edge: &Edge{LeadS: 5, Moments: []Moment{{-6, stretch(10, 1)}, {-5, stretch(20, 1)}, {0, stretch(5, 40)}},
			Steady: stretch(10, 0.5), Lead: stretch(15, 0.5), After: stretch(5, 40)},
		Restarts: []Restart{{Accounts: 10, ReadyMs: 10, GrantMs: 20}, {Accounts: 100_010, ReadyMs: 20, GrantMs: 60}, {Due: 10}},
	}
}

func TestWhatGrowsIsHeldBesideItsSmallest(t *testing.T) {
	t.Parallel()
	r := grownReport()
	r.Figures = r.judgeGrowth(Options{}.sizes())
	want := []string{
		"transactions at 60,000 decisions/s, all that this machine made of 100,000 decisions/s | 70.00/s | 50.00/s | at 1,000 decisions/s | 1.40x | <= 1.2x | no",
		"the same with all reads at 60,000 decisions/s, all that this machine made of 100,000 decisions/s | 72.00/s | 65.00/s | at 1,000 decisions/s | 1.11x | <= 1.2x | yes",
		"Postgres CPU at 60,000 decisions/s, all that this machine made of 100,000 decisions/s | 90.00 ms/s | 100 ms/s | at 1,000 decisions/s | 0.90x |  | ",
		"leases a decision, 100,000 keys | 2.00 | 0.20 | at 1,000 keys | 10.0x |  | ",
		"p99 of a take, 100,000 keys | 200 ms | 1.00 ms | at 1,000 keys | 200.0x |  | ",
		"p99 of a take, the second after the edge | 40.00 ms | 0.50 ms | long before it | 80.0x |  | ",
		"transactions, most before the edge | 30.00/s | 10.00/s | long before it | 3.00x |  | ",
		"first grant after a start, 100,010 accounts | 60.00 ms | 20.00 ms | with 10 accounts | 3.00x |  | ",
		"serves after a start, 100,010 accounts | 20.00 ms | 10.00 ms | with 10 accounts | 2.00x |  | ",
	}
	var got []string
	for _, x := range r.Rows() {
		got = append(got, strings.Join([]string{x.Figure, x.Ours, x.Its, x.Yardstick, x.Ratio, x.Reach, x.Reached}, " | "))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if chart(r.Figures, r.Rows()) != "" {
		t.Error("ours beside ours is drawn beside plain Postgres")
	}
}

func TestTheEdgeIsToldByItsParts(t *testing.T) {
	t.Parallel()
	// A reading each second; the edge is after 8 s. Two transactions a second, ten while leases of
	// the next window are fetched, none after it; takes of 1 ms, and of 30 ms after the edge.
	began := time.Unix(0, 0)
	var steps []reading
	commits := 0.0
	for s := range 11 {
		steps = append(steps, reading{counters{commits: commits, grants: 2 * commits}, began.Add(time.Duration(s) * time.Second), 0})
		commits += map[bool]float64{true: 2, false: 0}[s < 8] + map[bool]float64{true: 8, false: 0}[s >= 6 && s < 8]
	}
	var calls []call
	for at := time.Duration(0); at < 10*time.Second; at += 10 * ms {
		lasted := 1 * ms
		if at >= 8*time.Second {
			lasted = 30 * ms
		}
		calls = append(calls, call{at, lasted})
	}
	e := edgeOf(edge{ttl: 4 * time.Second, before: 5 * time.Second, after: 2 * time.Second, step: time.Second}, 8*time.Second, steps, calls)
	for name, x := range map[string]struct{ got, want Stretch }{
		"steady": {e.Steady, Stretch{2, 2, 4, 1, 1, 1}},
		"lead":   {e.Lead, Stretch{10, 10, 20, 1, 1, 1}},
		"after":  {e.After, Stretch{0, 0, 0, 30, 30, 30}},
	} {
		if x.got != x.want {
			t.Errorf("%s: %+v, want %+v", name, x.got, x.want)
		}
	}
	if n := len(e.Moments); n != 8 || e.Moments[0].At != -6 || e.Moments[n-1].At != 1 || e.Moments[n-1].P99ms != 30 {
		t.Errorf("%d moments: %+v", n, e.Moments)
	}
}

// slow is a taker of whom the first take lasts a second, and every fifth is denied.
type slow struct{ made int }

func (s *slow) Take(context.Context, string, string, int64) (agent.Decision, error) {
	if s.made++; s.made == 1 {
		time.Sleep(time.Second)
	}
	return agent.Decision{Allowed: s.made%5 != 0}, nil
}

func TestATakeThatWaitsMakesThoseAfterItLateNotFewer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		demand := traffic{now: time.Now, rate: 100, callers: []taker{&slow{}, &slow{}},
			pick: func(int, int64) (string, string) { return "acme", "calls" }}
		got, err := demand.play(t.Context(), 4*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if got.allowed != 320 || got.denied != 80 || len(got.calls) != 400 {
			t.Errorf("%d allowed, %d denied, %d calls; want 320, 80 and 400", got.allowed, got.denied, len(got.calls))
		}
		lasted := took(got.calls, 0, 5*time.Second)
		if lasted[399] != time.Second || lasted[397] != 0 {
			t.Errorf("the longest lasted %s, the third longest %s; want a second, and none", lasted[399], lasted[397])
		}
	})
}

func TestACallerWhoIsStoppedStops(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	demand := traffic{now: time.Now, rate: 100, callers: []taker{&slow{}}, pick: func(int, int64) (string, string) { return "acme", "calls" }}
	if _, err := demand.play(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that it was stopped", err)
	}
}
