package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quotalease/quotalease/agent"
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
	var agents []*embed.Agent
	defer func() {
		err = errors.Join(err, each(agents, func(_ int, a *embed.Agent) error { return a.Close() }))
	}()
	for i := range d.agents {
		a, err := w.agent(ctx, fmt.Sprintf("steady-%d", i))
		if err != nil {
			return s, err
		}
		agents = append(agents, a)
	}
	p := &pacer{now: m.now, key: fmt.Sprintf("steady-%d", d.agents), demand: d}
	if err := p.play(ctx, agents, warm); err != nil {
		return s, err
	}
	p.allowed.Store(0)
	p.denied.Store(0)
	before, err := w.counted("commits_total")
	if err != nil {
		return s, err
	}
	if err := p.play(ctx, agents, span); err != nil {
		return s, err
	}
	after, err := w.counted("commits_total")
	if err != nil {
		return s, err
	}
	s = Steady{Agents: d.agents, Budget: d.budget, Rate: d.rate, Seconds: span.Seconds(),
		Decisions: p.allowed.Load(), Denied: p.denied.Load(), Commits: int64(after - before)}
	s.Each = float64(s.Decisions) / float64(max(1, s.Commits))
	return s, nil
}

// pacer takes one unit at a time, at a constant rate.
type pacer struct {
	now             func() time.Time
	key             string
	demand          demand
	allowed, denied atomic.Int64
}

// due is how many takes of one agent belong to a time. They go around, so that those of all
// agents together are what the rate says, to the last one.
func (d demand) due(place int, ran time.Duration) int64 {
	whole := int64(d.rate) * int64(ran) / int64(time.Second)
	return (whole + int64(place)) / int64(d.agents)
}

// beat is how often takes are made up for.
const beat = time.Millisecond

// play has a caller for each agent.
func (p *pacer) play(ctx context.Context, agents []*embed.Agent, span time.Duration) error {
	return each(agents, func(i int, a *embed.Agent) error { return p.call(ctx, a, i, span) })
}

// call takes what is due, again and again. A take that has to wait makes those after it late,
// not fewer.
func (p *pacer) call(ctx context.Context, a *embed.Agent, place int, span time.Duration) error {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	began := p.now()
	for made := int64(0); ; {
		ran := min(p.now().Sub(began), span)
		for due := p.demand.due(place, ran); made < due; made++ {
			d, err := a.Take(ctx, p.key, p.demand.dimension, 1)
			var unavailable *agent.UnavailableError
			switch {
			case errors.As(err, &unavailable): // no answer: it is not counted
			case err != nil:
				return fmt.Errorf("take at a constant rate: %w", err)
			case d.Allowed:
				p.allowed.Add(1)
			default:
				p.denied.Add(1)
			}
		}
		if ran == span {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// each does something with all at the same time.
func each[T any](list []T, do func(i int, x T) error) error {
	failed := make([]error, len(list))
	var wg sync.WaitGroup
	for i, x := range list {
		wg.Go(func() { failed[i] = do(i, x) })
	}
	wg.Wait()
	return errors.Join(failed...)
}
