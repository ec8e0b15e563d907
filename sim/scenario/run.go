package scenario

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/sim/clockwork"
)

// Progress may be read while a scenario runs.
type Progress struct {
	Model    atomic.Pointer[string]
	Requests atomic.Int64
	Permille atomic.Int64 // of the duration
}

// Ours is the name of the product's own method in results.
const Ours = "quotalease"

// Run runs a scenario and everything that it is compared with. It ends early with ctx.
func Run(ctx context.Context, s *Scenario, progress *Progress) (*Report, error) {
	report := &Report{Scenario: s}
	models := []Baseline{{Method: Ours}}
	for _, b := range append(models, s.Baselines...) {
		r, err := runOne(ctx, s, b, progress)
		if err != nil {
			return nil, err
		}
		report.Results = append(report.Results, r)
	}
	if s.Sweep == nil {
		return report, nil
	}
	for _, value := range s.Sweep.Values {
		at, err := s.With(Param{s.Sweep.Param, value})
		if err != nil {
			return nil, fmt.Errorf("sweep %s over %s: %w", s.Sweep.Param, value, err)
		}
		r, err := runOne(ctx, at, models[0], progress)
		if err != nil {
			return nil, err
		}
		report.Curve = append(report.Curve, Point{Value: value, Ours: value == s.Sweep.Ours, Result: r})
	}
	return report, nil
}

// run is one scenario in the making under one method. One goroutine runs it.
type run struct {
	*Scenario
	now     time.Duration
	queue   clockwork.Queue[event]
	agents  []*agent
	streams []*stream
	model   model
	meter   *meter
	spare   []*call
	snap    *policy.Snapshot // in force
	version int64
	trouble error // of the program itself
}

// event is an arrival of a stream at one of its agents, or anything else.
type event struct {
	stream *stream
	agent  *agent // nil: the stream chooses
	do     func()
}

// model is a way to enforce limits.
type model interface {
	begin(a *agent)
	crash(a *agent)
	// stop ends an agent in good order.
	stop(a *agent)
	// quick answers a call at once, if it can.
	quick(a *agent, s *stream, cost int64) (verdict, bool)
	// slow answers a call that quick could not, at once or later, by c.answered.
	slow(c *call)
	// links tells that an agent's links were cut or are whole again.
	links(a *agent)
	// applied tells of another policy.
	applied(doc *policy.Document)
	// adjusted tells of an operator's decision.
	adjusted(e Event)
	// down tells whether the control plane answers.
	down(is bool)
	// free is what an account could still give.
	free(a *account) int64
	finish() error
}

// agent is a place where calls are decided.
type agent struct {
	place    int
	region   int
	up       bool
	there    int // cuts of requests
	back     int // cuts of answers
	unheard  int // cuts of notices
	rng      *rand.Rand
	trips    int // round trips in this span
	denied   bool
	felt     time.Duration // since when it has been waiting for news, see meter.await
	awaiting bool
}

func runOne(ctx context.Context, s *Scenario, b Baseline, progress *Progress) (*Result, error) {
	r := &run{Scenario: s}
	name := string(b.Method)
	progress.Model.Store(&name)
	r.version = 1
	r.snap = s.Policy.Snapshot(r.version)
	r.meter = newMeter(r)
	for i, region := range s.Regions {
		for range region.Agents {
			r.place(i)
		}
	}
	started := len(r.agents)
	for _, e := range s.Timeline {
		for range e.Count {
			r.place(e.Region)
		}
	}
	var err error
	if r.model, err = newModel(r, b); err != nil {
		return nil, err
	}
	for _, a := range r.agents[:started] {
		r.join(a)
	}
	for i := range s.Demand {
		r.streams = append(r.streams, newStream(r, i))
	}
	for _, e := range s.Timeline {
		r.after(e.At, func() { r.happen(e) })
	}
	r.meter.begin()
	if err := r.loop(ctx, progress); err != nil {
		return nil, err
	}
	return r.meter.result(name), nil
}

func (r *run) place(region int) {
	i := len(r.agents)
	r.agents = append(r.agents, &agent{place: i, region: region, rng: rand.New(rand.NewPCG(r.Seed, 1000+uint64(i)))})
}

func (r *run) join(a *agent) {
	a.up = true
	r.model.begin(a)
}

// often is how many events pass between looks at the context.
const often = 1 << 14

func (r *run) loop(ctx context.Context, progress *Progress) error {
	for n := 0; ; n++ {
		at, ok := r.queue.Next()
		if !ok || at >= r.Duration {
			break
		}
		if n%often == 0 {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("simulate %s: %w", r.Name, err)
			}
			progress.Permille.Store(int64(at * 1000 / r.Duration))
			progress.Requests.Store(r.meter.requests)
		}
		r.now = at
		e := r.queue.First()
		if e.stream == nil {
			r.queue.Pop()
			e.do()
			continue
		}
		e.stream.arrive(e.agent)
	}
	r.now = r.Duration
	r.meter.end()
	if err := r.model.finish(); err != nil {
		return err
	}
	return r.trouble
}

func (r *run) after(d time.Duration, do func()) { r.queue.Push(r.now+max(d, 0), event{do: do}) }

// latency is one way between an agent and the control plane.
func (r *run) latency(a *agent) time.Duration {
	g := &r.Regions[a.region]
	if g.Spread == 0 {
		return g.Latency
	}
	return g.Latency - g.Spread + time.Duration(a.rng.Int64N(int64(2*g.Spread)+1))
}

// happen is an entry of the timeline.
func (r *run) happen(e Event) {
	switch e.Action {
	case CutLinks, CutWatch:
		r.cut(e, 1)
		r.until(e, func() { r.cut(e, -1) })
	case Down:
		r.model.down(true)
		r.until(e, func() {
			r.model.down(false)
			r.meter.await(r.agents)
		})
	case Crash, Stop:
		for _, i := range e.Agents {
			r.agents[i].up = false
			if e.Action == Stop {
				r.model.stop(r.agents[i])
			} else {
				r.model.crash(r.agents[i])
			}
		}
		if e.Action == Stop {
			r.meter.await(r.agents) // what those hold is freed for the others
		}
		r.until(e, func() {
			for _, i := range e.Agents {
				r.join(r.agents[i])
			}
			r.choose()
		})
	case AddAgents:
		for _, i := range e.Agents {
			r.join(r.agents[i])
		}
	case Change:
		r.version++
		r.snap = e.Policy.Snapshot(r.version)
		r.model.applied(e.Policy)
		if r.meter.retake() {
			r.meter.await(r.agents)
		}
	case Credit, Release:
		r.meter.adjusted(e)
		r.model.adjusted(e)
		r.meter.await(r.agents)
	}
	r.choose()
}

func (r *run) until(e Event, do func()) {
	if e.For > 0 {
		r.after(e.For, do)
	}
}

func (r *run) cut(e Event, by int) {
	var agents []*agent
	for _, i := range e.Agents {
		a := r.agents[i]
		agents = append(agents, a)
		if e.Action == CutWatch {
			a.unheard += by
		} else {
			if e.Way != Back {
				a.there += by
			}
			if e.Way != There {
				a.back += by
			}
		}
		r.model.links(a)
	}
	if by < 0 && e.Action == CutLinks {
		r.meter.await(agents)
	}
}

// choose tells streams that agents came or went.
func (r *run) choose() {
	for _, s := range r.streams {
		s.choose()
	}
}
