package core

import (
	"fmt"
	"testing"
	"time"
)

// TestW1BoundaryBurst has a caller who knows when a minute ends. A period quota of 100 a minute
// says how much in a minute, and not how fast: 100 in the last second of one and 100 in the first
// of the next are within it (see BOUNDS.md). A rate limit beside it in one take says how fast.
func TestW1BoundaryBurst(t *testing.T) {
	t.Parallel()
	const policy = `
dimensions:
  - name: calls_per_minute
    kind: period
    limit: 100
    period: {every: minute}
    class: hard
    overshoot: 100%
    lease: {ttl: 10s, grace: 1s}
    cold: {wait: 100ms}
  - name: pace
    kind: rate
    limit: 100/m
    burst: 20
    class: hard
    overshoot: 10
    lease: {ttl: 10s, grace: 1s}
    cold: {wait: 100ms}
`
	// 20 at once, 2 s at 100 a minute are 3.3, and what is leased ahead is 10 at most.
	const paced = 20 + 4 + 10
	for _, c := range []struct {
		takes       []DimensionCost
		least, most int // of 300 takes in the two seconds around 12:01:00
		each        int // most in each of the two minutes
	}{
		{[]DimensionCost{{"calls_per_minute", 1}}, 200, 200, 100},
		{[]DimensionCost{{"calls_per_minute", 1}, {"pace", 1}}, 20, paced, paced},
	} {
		t.Run(fmt.Sprint(len(c.takes), " limits"), func(t *testing.T) {
			t.Parallel()
			r := newReal(t, policy)
			a := r.agent()
			r.run(59 * time.Second)
			allowed := map[int]int{}
			for r.now < 61*time.Second {
				var got *Outcome
				g := &Group{Tenant: "acme", Takes: c.takes, Done: func(o Outcome) { got = &o }}
				began := r.now
				a.WantAll(a.clock(), g)
				for got == nil && r.now-began < 100*time.Millisecond {
					r.run(time.Millisecond)
				}
				if got == nil {
					o, _ := a.GiveUpAll(a.clock(), g)
					got = &o
				}
				if got.Allowed {
					allowed[int(began/time.Minute)]++
				}
				r.run(2 * time.Millisecond)
			}
			if sum := allowed[0] + allowed[1]; sum < c.least || sum > c.most || allowed[0] > c.each || allowed[1] > c.each {
				t.Errorf("%d in the last second of a minute and %d in the first of the next: want %d to %d in all, and at most %d in each",
					allowed[0], allowed[1], c.least, c.most, c.each)
			}
			r.balanced()
		})
	}
}
