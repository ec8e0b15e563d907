package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quotalease/quotalease/agent/embed"
)

// exact is callers of one agent on one key of which every unit is recorded before it is allowed.
func (w *world) exact(callers int) subject {
	return subject{oursByAgent, func(ctx context.Context) (*opened, error) {
		a, err := w.agent(ctx, "exact")
		if err != nil {
			return nil, err
		}
		return &opened{workers: callers, per: 1, close: func(context.Context) error { return a.Close() },
			do: func(ctx context.Context, _ int) error {
				d, err := a.Take(ctx, "exact", "exact", 1)
				if err == nil && !d.Allowed {
					err = fmt.Errorf("take in the exact lane: denied: %s", d.Reason)
				}
				return err
			}}, nil
	}}
}

func (w *world) agent(ctx context.Context, name string) (*embed.Agent, error) {
	return embed.Start(ctx, embed.Config{ControlPlanes: []string{w.address}, Region: region, Name: name})
}

// Steady is what a constant demand on one key cost the ledger.
type Steady struct {
	Agents    int     `json:"agents"`
	Budget    string  `json:"budget"` // of the limit
	Rate      int     `json:"decisions_per_second"`
	Seconds   float64 `json:"seconds"`
	Decisions int64   `json:"decisions"` // allowed
	Denied    int64   `json:"denied"`
	Commits   int64   `json:"commits"` // of the control plane's, all that the agents caused
	Each      float64 `json:"decisions_per_commit"`
}

// demand is how a key is used in steady state.
type demand struct {
	agents    int
	budget    string
	dimension string
	rate      int // decisions a second, by all agents together
}

func (d demand) name() string { return fmt.Sprintf("%d agents, %s budget", d.agents, d.budget) }

// demands are what is measured.
func demands() []demand {
	var list []demand
	for _, n := range []int{1, 24, 60} {
		list = append(list, demand{n, "1 %", "steady_1", 2000}, demand{n, "10 %", "steady_10", 2000})
	}
	return list
}

// steady takes from agents at a constant rate, and counts the commits that it takes. The first
// takes, by which agents learn what they need, are not counted.
func (w *world) steady(ctx context.Context, m meter, d demand, warm, span time.Duration) (s Steady, err error) {
	f, err := w.fleet(ctx, "steady", d.agents)
	defer func() { err = errors.Join(err, f.close()) }()
	if err != nil {
		return s, err
	}
	key := fmt.Sprintf("steady-%d", d.agents)
	t := traffic{now: m.now, rate: d.rate, callers: f.callers(1), pick: func(int, int64) (string, string) { return key, d.dimension }}
	if _, err := t.play(ctx, warm); err != nil {
		return s, err
	}
	before, err := w.counters()
	if err != nil {
		return s, err
	}
	flow, err := t.play(ctx, span)
	if err != nil {
		return s, err
	}
	after, err := w.counters()
	if err != nil {
		return s, err
	}
	s = Steady{Agents: d.agents, Budget: d.budget, Rate: d.rate, Seconds: span.Seconds(),
		Decisions: flow.allowed, Denied: flow.denied, Commits: int64(after.commits - before.commits)}
	s.Each = float64(s.Decisions) / float64(max(1, s.Commits))
	return s, nil
}
