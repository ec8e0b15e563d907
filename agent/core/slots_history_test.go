package core

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// running is work that callers of a slot history have begun and not ended.
type running struct {
	id    string
	agent *realAgent
	slots int64
}

// TestSlotsAreNeverOverbookedAmidFaults lets agents start and end work while messages are lost,
// agents stop or become copies and the control plane goes away, and holds what really runs
// against the limit, and against what the ledger believes, at every moment.
func TestSlotsAreNeverOverbookedAmidFaults(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 77))
			r := newReal(t, `
dimensions:
  - name: jobs
    kind: concurrency
    limit: 10
    max_hold: 2m
    class: hard
    overshoot: 40%
    lease: {ttl: 2s, grace: 500ms}
`)
			r.lose = func() bool { return rng.IntN(20) == 0 }
			for range 3 {
				r.agent()
			}
			var works []running
			begun, serial := 0, 0
			for r.now < time.Minute {
				r.run(time.Duration(1+rng.IntN(150)) * time.Millisecond)
				a := r.agents[rng.IntN(len(r.agents))]
				switch n := rng.IntN(100); {
				case n < 45:
					serial++
					w := running{fmt.Sprint("w", serial), a, 1 + rng.Int64N(3)}
					g := &Group{Tenant: "acme", Permit: w.id, Takes: []DimensionCost{{"jobs", w.slots}}, Wait: time.Duration(rng.IntN(3)) * time.Second}
					g.Done = func(o Outcome) {
						if o.Allowed {
							works = append(works, w)
							begun++
						}
					}
					a.WantAll(a.clock(), g)
					if rng.IntN(3) == 0 {
						r.run(time.Duration(rng.IntN(300)) * time.Millisecond)
						if o, mine := a.GiveUpAll(a.clock(), g); mine && o.Allowed {
							works = append(works, w)
							begun++
						}
					}
				case n < 90 && len(works) > 0:
					i := rng.IntN(len(works))
					w := works[i]
					works = append(works[:i:i], works[i+1:]...)
					w.agent.done(w.id)
				case n < 92:
					r.down = !r.down
				case n < 94:
					r.deaf = !r.deaf
				}
				r.check(works)
			}
			r.lose, r.down, r.deaf = nil, false, false
			for len(works) > 0 { // what is freed may let others begin
				w := works[0]
				works = works[1:]
				w.agent.done(w.id)
			}
			for _, a := range r.agents {
				a.Stop(a.clock())
			}
			r.until("everything is reported", func() bool {
				return !r.agents[0].Owes() && !r.agents[1].Owes() && !r.agents[2].Owes()
			})
			if acc := r.account("jobs"); acc.Headroom() != 10 {
				t.Errorf("nothing runs, and %d of 10 slots are free: %+v", acc.Headroom(), acc.Tally)
			}
			if begun < 50 {
				t.Errorf("only %d pieces of work in a minute: the test shows little", begun)
			}
			r.balanced()
		})
	}
}

// check holds what runs against the limit and the ledger.
func (r *real) check(works []running) {
	r.t.Helper()
	var sum int64
	byAgent := map[*realAgent]int64{}
	for _, w := range works {
		sum += w.slots
		byAgent[w.agent] += w.slots
	}
	for _, a := range r.agents {
		if got := a.Stats(a.clock()).Running["jobs"]; got != byAgent[a] {
			r.t.Fatalf("at %s %s counts %d in use, its callers %d", r.now, a.name, got, byAgent[a])
		}
	}
	if sum > 10 {
		r.t.Fatalf("at %s %d slots are in use, of 10", r.now, sum)
	}
	if sum == 0 {
		return
	}
	acc := r.account("jobs")
	if believed := int64(acc.Settled() + acc.Outstanding + acc.Held + acc.Uncertain); sum > believed {
		r.t.Fatalf("at %s %d slots are in use, the ledger knows of %d: %+v", r.now, sum, believed, acc.Tally)
	}
	if acc.Unleased != 0 {
		r.t.Fatalf("at %s use without a lease: %+v", r.now, acc.Tally)
	}
}
