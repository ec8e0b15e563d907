package core

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestARaiseIsFeltByEveryKind spends each limit to its end at two agents, raises it, and asks
// again: within a second if there is news, within a ttl if that is lost.
func TestARaiseIsFeltByEveryKind(t *testing.T) {
	t.Parallel()
	kinds := map[string]string{
		"hard":        "kind: period, limit: 40, period: {every: day}, class: hard",
		"bounded":     "kind: period, limit: 40, period: {every: day}, class: bounded, overshoot: 50%",
		"best_effort": "kind: period, limit: 40, period: {every: day}, class: best_effort, overshoot: 50%",
		"tight":       "kind: period, limit: 40, period: {every: day}, class: hard, overshoot: 1",
		"exact":       "kind: period, limit: 40, period: {every: day}, class: exact",
		"slots":       "kind: concurrency, limit: 40, max_hold: 1h, class: hard, overshoot: 50%",
		"exact slots": "kind: concurrency, limit: 40, max_hold: 1h, class: exact",
	}
	for name, what := range kinds {
		for _, deaf := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, deaf %v", name, deaf), func(t *testing.T) {
				t.Parallel()
				policy := "dimensions:\n  - {name: jobs, " + what + ", lease: {ttl: 10s, grace: 1s}, cold: {wait: 500ms}}\n"
				r := newReal(t, policy)
				r.deaf = deaf
				a, b := r.agent(), r.agent()
				slots := strings.Contains(what, "concurrency")
				n := 0
				ask := func(a *realAgent) bool {
					if !slots {
						return a.take("jobs", 1).Allowed
					}
					n++
					return a.work(fmt.Sprint("w", n), 1).Allowed
				}
				used := 0
				for denied := 0; denied < 40; {
					r.run(20 * time.Millisecond)
					denied++
					for _, x := range []*realAgent{a, b} {
						if ask(x) {
							used++
							denied = 0
						}
					}
				}
				if used != 40 {
					t.Fatalf("%d of 40 were used", used)
				}
				r.run(7 * time.Second)
				ask(a)
				ask(b)
				r.run(1300 * time.Millisecond)
				r.apply(strings.Replace(policy, "limit: 40", "limit: 80", 1))
				raised := r.now
				for _, x := range []*realAgent{a, b} {
					for !ask(x) {
						r.run(10 * time.Millisecond)
						if r.now-raised > time.Minute {
							t.Fatalf("a minute later still denied")
						}
					}
					most := time.Second
					if deaf {
						most = 10*time.Second + 100*time.Millisecond
					}
					if r.now-raised > most {
						t.Errorf("%s felt the raise after %s", x.name, r.now-raised)
					}
				}
				r.balanced()
			})
		}
	}
}
