package core

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

const historyPolicy = `
dimensions:
  - name: minute
    kind: period
    limit: 120
    period: {every: minute}
    class: hard
    overshoot: 50%
    lease: {ttl: 4s, grace: 1s}
    cold: {wait: 100ms}
  - name: extended
    kind: period
    limit: 60
    period: {every: minute}
    class: hard
    overshoot: 50%
    lease: {ttl: 4s, grace: 1s}
    cold: {wait: 100ms}
    outage: {mode: extend, after: 2s, rate: 10/s, budget: 12}
  - name: pay
    kind: period
    limit: 50
    period: {every: minute}
    class: exact
    lease: {ttl: 4s, grace: 1s}
  - name: jobs
    kind: concurrency
    limit: 5
    max_hold: 1m
    class: hard
    overshoot: 40%
    lease: {ttl: 3s, grace: 1s}
    cold: {wait: 100ms}
`

// history is random callers of several agents in bad weather, and what they were really allowed.
type history struct {
	*real
	rng     *rand.Rand
	used    map[ledger.AccountID]int64 // by the window of the moment of use
	total   map[string]int64
	running int64
	ids     int
	callers []*historyCaller
	work    []historyWork
	closed  bool // nobody calls any more
}

type historyCaller struct {
	agent    *realAgent
	group    *Group
	patience time.Duration // until when it waits
	leaves   bool          // without a word, when its patience is over
}

type historyWork struct {
	agent *realAgent
	id    string
	ends  time.Duration
	slots int64
}

// call begins one caller's wait.
func (h *history) call(a *realAgent) {
	h.ids++
	g := &Group{Tenant: "acme"}
	costs := func(dims ...string) {
		for _, d := range dims {
			g.Takes = append(g.Takes, DimensionCost{d, 1 + h.rng.Int64N(3)})
		}
	}
	switch h.rng.IntN(8) {
	case 0, 1:
		costs("minute")
	case 2:
		costs("extended")
	case 3:
		costs("pay")
	case 4:
		costs("minute", "pay")
	case 5:
		costs("jobs")
	case 6:
		costs("jobs", "minute")
	default:
		costs("extended", "jobs", "minute", "pay")
	}
	patience := 100 * time.Millisecond
	slots := int64(0)
	for _, t := range g.Takes {
		if t.Dimension == "jobs" {
			g.Permit, slots, patience = fmt.Sprint(h.ids), t.Cost, time.Second
			if h.rng.IntN(2) == 0 {
				g.Wait, patience = 5*time.Second, 5*time.Second
			}
		}
		if t.Dimension == "pay" {
			patience = max(patience, time.Second)
		}
	}
	g.Done = func(o Outcome) { h.told(a, g, slots, o) }
	c := &historyCaller{a, g, h.now + patience, h.rng.IntN(10) == 0}
	h.callers = append(h.callers, c)
	a.WantAll(a.clock(), g)
}

// told counts what a caller was allowed.
func (h *history) told(a *realAgent, g *Group, slots int64, o Outcome) {
	if !o.Allowed {
		return
	}
	for _, t := range g.Takes {
		h.total[t.Dimension] += t.Cost
		if t.Dimension == "minute" || t.Dimension == "extended" {
			window := quota.NewWindow(h.clock().Truncate(time.Minute), h.clock().Truncate(time.Minute).Add(time.Minute))
			h.used[ledger.AccountID{Key: quota.Key{Tenant: "acme", Dimension: t.Dimension}, Window: window}] += t.Cost
		}
	}
	if slots > 0 {
		h.running += slots
		h.work = append(h.work, historyWork{a, g.Permit, h.now + time.Duration(h.rng.IntN(8000))*time.Millisecond, slots})
	}
}

func (h *history) tick() {
	for _, a := range h.agents {
		if !h.closed && !a.stopped && h.rng.IntN(400) == 0 {
			h.call(a)
		}
	}
	still := h.callers[:0]
	for _, c := range h.callers {
		switch {
		case c.group.over:
		case h.now < c.patience:
			still = append(still, c)
		case c.leaves:
			c.agent.AbandonAll(c.agent.clock(), c.group)
		default:
			done := c.group.Done
			if o, mine := c.agent.GiveUpAll(c.agent.clock(), c.group); mine {
				done(o)
			}
		}
	}
	h.callers = still
	work := h.work
	h.work = nil
	for _, w := range work {
		if h.now < w.ends {
			h.work = append(h.work, w)
			continue
		}
		h.running -= w.slots
		w.agent.done(w.id) // and others in line may begin
	}
	if h.running > 5 {
		h.t.Fatalf("at %s %d slots run, and 5 may", h.now, h.running)
	}
	h.run(time.Millisecond)
}

// safe holds true use against what the ledger knows (3.3): no agent was copied, so D is 0.
func (h *history) safe() {
	h.t.Helper()
	found, err := h.store.Accounts(h.t.Context(), ledger.AccountQuery{Tenant: "acme"})
	h.must(err)
	for _, a := range found {
		known := a.Settled() + a.Outstanding + a.Held + a.Uncertain + a.Emergency
		if used := h.used[a.ID]; used > int64(known) {
			h.t.Fatalf("at %s %d were used of %s, and the ledger knows of %d: %+v", h.now, used, a.ID, known, a.Tally)
		}
		most := map[string]int64{"minute": 120, "extended": 60, "pay": 50}[a.ID.Key.Dimension] // limits only fall
		if a.ID.Key.Dimension == "extended" {
			most += 12
		}
		if used := max(h.used[a.ID], int64(a.Settled())); a.Kind == quota.Period && used > most {
			h.t.Fatalf("at %s %d were used of %s, and %d may: %+v", h.now, used, a.ID, most, a.Tally)
		}
	}
}

// TestNothingIsLostInBadWeather has no agent die: then, whatever was lost on the way and however
// callers left, at the end the ledger has settled exactly what callers were allowed, and holds
// nothing more.
func TestNothingIsLostInBadWeather(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			r := newReal(t, historyPolicy)
			h := newHistory(r, seed)
			for r.now < 100*time.Second {
				h.weather()
			}
			r.down, r.deaf, r.lose, h.closed = false, false, nil, true
			for len(h.work)+len(h.callers) > 0 {
				h.tick()
			}
			for _, a := range r.agents {
				a.Stop(a.clock())
			}
			r.run(15 * time.Second)
			h.settled()
		})
	}
}

// TestDyingAgentsTakeNothingWithThem has agents die in the same weather, with all that they held
// and had not reported; others start in their place.
func TestDyingAgentsTakeNothingWithThem(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			r := newReal(t, historyPolicy)
			h := newHistory(r, seed)
			for r.now < 100*time.Second {
				h.weather()
				if h.rng.IntN(2) == 0 {
					h.kill(r.agents[len(r.agents)-1-h.rng.IntN(3)])
					r.agent()
				}
			}
			for d, used := range h.total {
				if used == 0 {
					t.Errorf("nothing was used of %s: the history says nothing", d)
				}
			}
			r.balanced()
		})
	}
}

// kill ends an agent, and with it the callers and the work at it.
func (h *history) kill(a *realAgent) {
	a.stopped = true
	h.callers = slices.DeleteFunc(h.callers, func(c *historyCaller) bool { return c.agent == a })
	h.work = slices.DeleteFunc(h.work, func(w historyWork) bool {
		if w.agent == a {
			h.running -= w.slots
		}
		return w.agent == a
	})
}

func newHistory(r *real, seed uint64) *history {
	for range 3 {
		r.agent()
	}
	return &history{real: r, rng: rand.New(rand.NewPCG(seed, 1)), used: map[ledger.AccountID]int64{}, total: map[string]int64{}}
}

// weather is some seconds in which messages take so long and so many are lost, under limits that
// may be lower than the policy's.
func (h *history) weather() {
	h.t.Helper()
	over := h.now + time.Duration(2000+h.rng.IntN(8000))*time.Millisecond
	h.down, h.deaf, h.rtt = h.rng.IntN(5) == 0, h.rng.IntN(3) == 0, time.Duration(2+h.rng.IntN(60))*time.Millisecond
	loss := h.rng.IntN(4) * 5
	h.lose = func() bool { return h.rng.IntN(100) < loss }
	if h.rng.IntN(2) == 0 {
		h.apply(strings.NewReplacer(
			"limit: 120", fmt.Sprint("limit: ", 30+h.rng.IntN(91)),
			"limit: 60", fmt.Sprint("limit: ", 12+h.rng.IntN(49)),
			"limit: 5\n", fmt.Sprint("limit: ", h.rng.IntN(6), "\n"),
		).Replace(historyPolicy))
	}
	for h.now < over {
		h.tick()
		if h.now%(20*time.Millisecond) == 0 {
			h.safe()
		}
	}
}

func (h *history) settled() {
	h.t.Helper()
	for _, a := range h.agents {
		if a.Owes() {
			h.t.Errorf("%s still owes something", a.name)
		}
	}
	found, err := h.store.Accounts(h.t.Context(), ledger.AccountQuery{Tenant: "acme"})
	h.must(err)
	sum := map[string]int64{}
	for _, a := range found {
		sum[a.ID.Key.Dimension] += int64(a.Settled())
		if a.Outstanding != 0 || a.Held != 0 || a.Uncertain != 0 || a.Emergency != a.Extended {
			h.t.Errorf("%s: everything was reported, and is still open: %+v", a.ID, a.Tally)
		}
		if used := h.used[a.ID]; used > 0 && used != int64(a.Settled()) {
			h.t.Errorf("%s: callers used %d, settled are %d", a.ID, used, a.Settled())
		}
	}
	for _, d := range []string{"minute", "extended", "pay"} {
		if sum[d] != h.total[d] || sum[d] == 0 {
			h.t.Errorf("%s: callers were allowed %d in all, settled are %d", d, h.total[d], sum[d])
		}
	}
	if sum["jobs"] != 0 {
		h.t.Errorf("%d slots are in use, and all work has ended", sum["jobs"])
	}
	h.balanced()
}
