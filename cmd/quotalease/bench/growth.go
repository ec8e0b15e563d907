package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/quotalease/quotalease/controlplane"
)

// Names of what grows while all else stays.
const (
	growDecisions = "growth: decisions"
	growAgents    = "growth: agents"
	growKeys      = "growth: keys"
	growTenants   = "growth: tenants"
	growEdge      = "growth: window edge"
	growRestart   = "growth: restart"
)

// Growth is what one thing costs as it grows and all else stays.
type Growth struct {
	Scene  string  `json:"scene"`
	Of     string  `json:"of"` // what grows
	Points []Point `json:"points"`
}

// Point is one size of it. All but the latencies are by second.
type Point struct {
	At        int     `json:"at"`
	Decisions float64 `json:"decisions_per_second"` // allowed
	Denied    float64 `json:"denied_per_second"`
	Grants    float64 `json:"grants_per_second"`
	Commits   float64 `json:"commits_per_second"`         // by which leases were granted and reported
	Uses      float64 `json:"database_uses_per_second"`   // those, and all that the control plane reads and keeps in order
	CPUms     float64 `json:"postgres_cpu_ms_per_second"` // 0 where it cannot be told
	P50ms     float64 `json:"take_p50_ms"`
	P99ms     float64 `json:"take_p99_ms"`
}

// sizes are what is measured.
type sizes struct {
	decisions []int // a second
	agents    []int
	keys      []int
	rate      int // decisions a second while something else grows
	parts     int // keys of each tenant that shares them
	edge      edge
	late      late
}

func (o Options) sizes() sizes {
	if o.tiny {
		return sizes{decisions: []int{1000, 5000}, agents: []int{10, 20}, keys: []int{100, 300}, rate: 1000, parts: parts,
			late: late{"second", 50, 1600 * time.Millisecond},
			edge: edge{dimension: "second", every: time.Second, ttl: time.Second, before: 700 * time.Millisecond, after: 300 * time.Millisecond,
				step: 100 * time.Millisecond, agents: 2, keys: 20, rate: 500}}
	}
	s := sizes{decisions: []int{1000, 10_000, 100_000}, agents: []int{10, 100, 1000}, rate: 1000, parts: parts,
		late: late{"late", 10_000, 11100 * time.Millisecond},
		edge: edge{dimension: "minute", every: time.Minute, ttl: 10 * time.Second, before: 15 * time.Second, after: 5 * time.Second,
			step: 500 * time.Millisecond, agents: 2, keys: 1000, rate: 2000}}
	most := cmp.Or(o.Keys, 100_000)
	for n := 1000; n < most; n *= 10 {
		s.keys = append(s.keys, n)
	}
	s.keys = append(s.keys, most)
	return s
}

// parts is how many dimensions are alike, so that one tenant may have as many keys.
const parts = 10

func partName(i int) string { return fmt.Sprintf("part_%d", i) }

func partsPolicy() string {
	_, growth, _ := strings.Cut(policyText, "  - name: growth\n")
	growth, _, _ = strings.Cut(growth, "  #")
	var b strings.Builder
	for i := range parts {
		fmt.Fprintf(&b, "  - name: %s\n%s", partName(i), growth)
	}
	return b.String()
}

// grow measures what grows. A restart is last: it ends the world that the others live in.
func (r *run) grow(ctx context.Context) error {
	s := r.o.sizes()
	for _, grow := range []func(context.Context, sizes) error{r.growDecisions, r.growAgents, r.growKeys, r.growTenants, r.growEdge, r.growRestart} {
		if err := grow(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// load is traffic of a fleet of its own.
type load struct {
	at              int
	name            string // of the agents
	agents, callers int    // callers of each agent
	rate            int
	pick            func(caller int, n int64) (tenant, dimension string)
}

// points measures loads one after the other.
func (r *run) points(ctx context.Context, scene, of string, loads []load) error {
	g := Growth{Scene: scene, Of: of}
	for _, l := range loads {
		r.o.Say(fmt.Sprintf("%s: %s %s", scene, controlplane.Grouped(int64(l.at)), of))
		p, err := r.point(ctx, l)
		if err != nil {
			return fmt.Errorf("measure %s, %d: %w", scene, l.at, err)
		}
		g.Points = append(g.Points, p)
	}
	r.report.Growth = append(r.report.Growth, g)
	return nil
}

// point measures a load as it is once the agents know their demand.
func (r *run) point(ctx context.Context, l load) (p Point, err error) {
	f, err := r.world.fleet(ctx, l.name, l.agents)
	defer func() { err = errors.Join(err, f.close()) }()
	if err != nil {
		return p, err
	}
	t := traffic{now: r.meter.now, rate: l.rate, callers: f.callers(l.callers), pick: l.pick}
	if _, err := t.play(ctx, 3*r.o.Time); err != nil {
		return p, err
	}
	before, err := r.reading()
	if err != nil {
		return p, err
	}
	flow, err := t.play(ctx, time.Duration(r.o.Rounds)*r.o.Time)
	if err != nil {
		return p, err
	}
	after, err := r.reading()
	if err != nil {
		return p, err
	}
	p = after.since(before)
	seconds := after.at.Sub(before.at).Seconds()
	lasted := took(flow.calls, 0, after.at.Sub(before.at))
	p.At, p.Decisions, p.Denied = l.at, float64(flow.allowed)/seconds, float64(flow.denied)/seconds
	p.P50ms, p.P99ms = millis(quantile(lasted, 50)), millis(quantile(lasted, 99))
	return p, nil
}

// reading is of all counters at one moment.
type reading struct {
	counters
	at  time.Time
	cpu time.Duration
}

func (r *run) reading() (m reading, err error) {
	if m.cpu, err = r.meter.used(); err != nil {
		return m, err
	}
	m.counters, err = r.world.counters()
	m.at = r.meter.now()
	return m, err
}

func (m reading) since(b reading) Point {
	seconds := max(m.at.Sub(b.at).Seconds(), 1e-9)
	return Point{Grants: (m.grants - b.grants) / seconds, Commits: (m.commits - b.commits) / seconds,
		Uses: (m.uses - b.uses) / seconds, CPUms: millis(m.cpu-b.cpu) / seconds}
}

// growDecisions takes ever more often of the same keys.
func (r *run) growDecisions(ctx context.Context, s sizes) error {
	if !r.wanted(growDecisions) {
		return nil
	}
	const agents, keys = 4, 25
	var loads []load
	for _, n := range s.decisions {
		loads = append(loads, load{at: n, name: "decisions", agents: agents, callers: 1, rate: n,
			pick: func(_ int, n int64) (string, string) { return tenantName("decisions", int(n%keys)), "growth" }})
	}
	return r.points(ctx, growDecisions, "decisions/s", loads)
}

func tenantName(of string, n int) string { return fmt.Sprintf("%s-%d", of, n) }

// crowdCallers is how many of the agents of a key ask at a time, however many there are.
const crowdCallers = 10

// growAgents has ever more agents on one key: what an ask costs among them, and what they cost
// together that share a steady demand.
func (r *run) growAgents(ctx context.Context, s sizes) error {
	if !r.wanted(growAgents) {
		return nil
	}
	asking := scene{name: growAgents}
	var loads []load
	for _, n := range s.agents {
		asking.subjects = append(asking.subjects, r.world.crowd(n))
		key := tenantName("agents", n)
		loads = append(loads, load{at: n, name: "agents", agents: n, callers: 1, rate: s.rate,
			pick: func(int, int64) (string, string) { return key, "growth" }})
	}
	if err := r.play(ctx, []scene{asking}); err != nil {
		return err
	}
	return r.points(ctx, growAgents, "agents", loads)
}

// crowd is n askers of one key, of whom few ask at a time, in turns.
func (w *world) crowd(n int) subject {
	return subject{amount(n, "agents"), func(ctx context.Context) (*opened, error) {
		list := w.askers(tenantName("crowd", n), n, 1, func(int) syncer { return w.control })
		o, err := opening(ctx, list, 1, func() error { return nil })
		if err != nil {
			return nil, err
		}
		o.workers = min(crowdCallers, n)
		turn := make([]int, o.workers)
		o.do = func(ctx context.Context, worker int) error {
			at := worker + turn[worker]
			if turn[worker] += o.workers; worker+turn[worker] >= n {
				turn[worker] = 0
			}
			return list[at].ask(ctx, 1)
		}
		return o, nil
	}}
}

func amount(n int, of string) string { return controlplane.Grouped(int64(n)) + " " + of }

// growKeys has ever more keys, each of a tenant of its own: what an ask costs among them, and
// what they cost together that share a steady demand.
func (r *run) growKeys(ctx context.Context, s sizes) error {
	if !r.wanted(growKeys) {
		return nil
	}
	asking := scene{name: growKeys}
	var loads []load
	for _, n := range s.keys {
		asking.subjects = append(asking.subjects, subject{amount(n, "keys"), r.world.granter("keys", askers, n).open})
		loads = append(loads, load{at: n, name: "keys", agents: 1, callers: askers, rate: s.rate,
			pick: func(int, int64) (string, string) { return tenantName(seeded, rand.IntN(n)), "growth" }})
	}
	if err := r.play(ctx, []scene{asking}); err != nil {
		return err
	}
	if err := r.seed(ctx, s.keys[len(s.keys)-1]); err != nil {
		return err
	}
	return r.points(ctx, growKeys, "keys", loads)
}

// growTenants has the same keys of few tenants and of many.
func (r *run) growTenants(ctx context.Context, s sizes) error {
	if !r.wanted(growTenants) {
		return nil
	}
	keys := s.keys[0]
	few := keys / s.parts
	return r.points(ctx, growTenants, "tenants of "+amount(keys, "keys"), []load{
		{at: few, name: "tenants", agents: 1, callers: askers, rate: s.rate, pick: func(int, int64) (string, string) {
			return tenantName("few", rand.IntN(few)), partName(rand.IntN(s.parts))
		}},
		{at: keys, name: "tenants", agents: 1, callers: askers, rate: s.rate, pick: func(int, int64) (string, string) {
			return tenantName("own", rand.IntN(keys)), partName(0)
		}},
	})
}
