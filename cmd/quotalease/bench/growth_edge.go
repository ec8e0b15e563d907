package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quotalease/quotalease/controlplane"
)

// edge says how to watch the end of a window that all keys share.
type edge struct {
	dimension     string
	every, ttl    time.Duration // of the dimension
	before, after time.Duration // that are looked at
	step          time.Duration // of what is told
	agents, keys  int
	rate          int
}

// Edge is what happens as the window of all keys ends at one instant.
type Edge struct {
	Keys    int      `json:"keys"`
	Agents  int      `json:"agents"`
	Rate    int      `json:"decisions_per_second"`
	LeadS   float64  `json:"lead_s"` // in which leases for the next window are fetched
	Moments []Moment `json:"moments"`
	Steady  Stretch  `json:"steady"` // before the lead
	Lead    Stretch  `json:"lead"`   // the last half of a ttl of the window
	After   Stretch  `json:"after"`  // the first second of the next, or what was watched of it
}

// Moment is one step of it.
type Moment struct {
	At float64 `json:"at_s"` // from the edge
	Stretch
}

// Stretch is a part of it.
type Stretch struct {
	Commits float64 `json:"commits_per_second"`
	Most    float64 `json:"most_commits_per_second"` // of a step
	Grants  float64 `json:"grants_per_second"`
	P50ms   float64 `json:"take_p50_ms"`
	P99ms   float64 `json:"take_p99_ms"`
	Worst   float64 `json:"take_worst_ms"`
}

// growEdge takes of many keys at a constant rate, across the end of their window.
func (r *run) growEdge(ctx context.Context, s sizes) (err error) {
	if !r.wanted(growEdge) {
		return nil
	}
	e := s.edge
	f, err := r.world.fleet(ctx, "edge", e.agents)
	defer func() { err = errors.Join(err, f.close()) }()
	if err != nil {
		return err
	}
	t := traffic{now: r.meter.now, rate: e.rate, callers: f.callers(askers / e.agents),
		pick: func(int, int64) (string, string) { return tenantName("edge", rand.IntN(e.keys)), e.dimension }}
	r.o.Say(fmt.Sprintf("%s: %s keys, %s decisions/s", growEdge, controlplane.Grouped(int64(e.keys)), controlplane.Grouped(int64(e.rate))))
	if _, err := t.play(ctx, e.ttl); err != nil { // leases and demand as they are later on
		return err
	}
	began := r.meter.now()
	at := began.Add(e.before).Truncate(e.every).Add(e.every)
	span := at.Sub(began) + e.after
	r.o.Say(fmt.Sprintf("%s: it ends in %s", growEdge, at.Sub(began).Round(time.Second)))
	steps, flow, err := r.watchEdge(ctx, t, span, e.step)
	if err != nil {
		return err
	}
	r.report.Edge = edgeOf(e, at.Sub(steps[0].at), steps, flow.calls)
	return nil
}

// watchEdge reads the counters at every step while takes go on.
func (r *run) watchEdge(ctx context.Context, t traffic, span, step time.Duration) ([]reading, flow, error) {
	first, err := r.reading()
	if err != nil {
		return nil, flow{}, err
	}
	steps := []reading{first}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	var watcher sync.WaitGroup
	var failed error
	watcher.Go(func() {
		ticker := time.NewTicker(step)
		defer ticker.Stop()
		for failed == nil {
			select {
			case <-watching.Done():
				return
			case <-ticker.C:
			}
			var m reading
			m, failed = r.reading()
			steps = append(steps, m)
		}
	})
	got, err := t.play(ctx, span)
	stop()
	watcher.Wait()
	return steps, got, errors.Join(err, failed)
}

// edgeOf sums up what was read; at is the edge, from the first reading on.
func edgeOf(e edge, at time.Duration, steps []reading, calls []call) *Edge {
	lead := e.ttl / 2
	v := &Edge{Keys: e.keys, Agents: e.agents, Rate: e.rate, LeadS: lead.Seconds(),
		Steady: stretch(steps, calls, at-e.before, at-lead), Lead: stretch(steps, calls, at-lead, at),
		After: stretch(steps, calls, at, at+min(e.after, time.Second))}
	for i := range steps[1:] {
		from, to := steps[i].at.Sub(steps[0].at), steps[i+1].at.Sub(steps[0].at)
		if from >= at-e.before-e.step {
			v.Moments = append(v.Moments, Moment{At: (from - at).Seconds(), Stretch: stretch(steps[i:i+2], shifted(calls, from), 0, to-from)})
		}
	}
	return v
}

// shifted are calls by a clock that began later.
func shifted(calls []call, by time.Duration) []call {
	list := make([]call, len(calls))
	for i, c := range calls {
		list[i] = call{c.at - by, c.lasted}
	}
	return list
}

// stretch sums up the steps that lie mostly in a time, and the calls that began in it.
func stretch(steps []reading, calls []call, from, to time.Duration) Stretch {
	var s Stretch
	seconds := 0.0
	for i := range steps[1:] {
		a, b := steps[i], steps[i+1]
		if middle := a.at.Add(b.at.Sub(a.at) / 2).Sub(steps[0].at); middle < from || middle >= to {
			continue
		}
		p := b.since(a)
		took := b.at.Sub(a.at).Seconds()
		seconds += took
		s.Commits += p.Commits * took
		s.Grants += p.Grants * took
		s.Most = max(s.Most, p.Commits)
	}
	if seconds > 0 {
		s.Commits /= seconds
		s.Grants /= seconds
	}
	if lasted := took(calls, from, to); len(lasted) > 0 {
		s.P50ms, s.P99ms, s.Worst = millis(quantile(lasted, 50)), millis(quantile(lasted, 99)), millis(lasted[len(lasted)-1])
	}
	return s
}
