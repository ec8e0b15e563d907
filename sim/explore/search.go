package explore

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
)

// Found is what an exploration came to.
type Found struct {
	World  *World
	States int
	Steps  int
	Depth  int      // of the state that is farthest from the beginning
	Rests  int      // states in which nothing is left to come
	Probes int      // callers who asked when nothing else went on
	Closed bool     // no new state appeared: these are all there are
	Fault  string   // the first promise broken, by the way of fewest choices
	Path   []string // that way
}

// node is a state that was reached, and how. States are not kept: the frontier's are, as far as
// there is room, and the others are played again from the beginning.
type node struct {
	parent int32
	step   step
}

// search explores a world breadth first.
type search struct {
	world   *World
	nodes   []node
	known   map[sum][]Budget // what was left when a state was reached
	workers []*replicas
	found   *Found
	ended   func(*state) // looks at a state at rest, if it is there
}

// Sizes of the work.
const (
	batch     = 2048   // states that are expanded before their successors are entered
	keepAlive = 40_000 // states of the frontier that are kept
)

// place is a state of the frontier.
type place struct {
	node int32
	s    *state // nil: not kept
}

// child is a successor that a worker made.
type child struct {
	step step
	sum  sum
	left Budget
	s    *state
}

// expansion is what a worker made of one state.
type expansion struct {
	children []child
	steps    int // that were made
	rest     bool
	probes   int
	err      error
	fault    string
	at       *step // that led to the fault; nil: what comes undisturbed, or to a caller who insists, did
	asker    int   // the agent that such a caller asked, -1: there was none
}

// Explore visits every state that a world can reach, until no new one appears, a promise is
// broken, there are more than most, or ctx ends. progress is told now and then.
func Explore(ctx context.Context, w *World, most int, progress func(Found)) (*Found, error) {
	w.number()
	return (&search{world: w}).run(ctx, most, runtime.GOMAXPROCS(0), progress)
}

func (x *search) run(ctx context.Context, most, workers int, progress func(Found)) (*Found, error) {
	w := x.world
	x.known, x.found = map[sum][]Budget{}, &Found{World: w}
	for range workers {
		rs, err := newReplicas(w)
		if err != nil {
			return nil, err
		}
		x.workers = append(x.workers, rs)
	}
	first, err := begin(w, x.workers[0])
	if err != nil {
		return nil, fmt.Errorf("begin world %s: %w", w.Name, err)
	}
	x.nodes = append(x.nodes, node{parent: -1})
	x.known[first.fingerprint()] = []Budget{first.left}
	for layer := []place{{0, first}}; len(layer) > 0; x.found.Depth++ {
		if layer, err = x.expandAll(ctx, layer, most); err != nil || x.found.Fault != "" {
			return x.result(), err
		}
		if len(x.nodes) > most {
			return x.result(), nil
		}
		progress(*x.result())
	}
	x.found.Closed = true
	return x.result(), nil
}

func (x *search) result() *Found {
	x.found.States = len(x.nodes)
	return x.found
}

// expandAll makes the next layer.
func (x *search) expandAll(ctx context.Context, layer []place, most int) ([]place, error) {
	var next []place
	for len(layer) > 0 && len(x.nodes) <= most {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		part := layer[:min(batch, len(layer))]
		for i, e := range x.expandSome(part) {
			if e.err != nil {
				return nil, e.err
			}
			if e.fault != "" {
				x.found.Fault = e.fault
				var err error
				x.found.Path, err = x.tell(x.workers[0], part[i].node, e)
				return nil, err
			}
			next = x.enter(part[i].node, e, next)
			part[i].s = nil
		}
		layer = layer[len(part):]
	}
	return next, nil
}

// enter adds the new ones among a state's successors.
func (x *search) enter(parent int32, e expansion, next []place) []place {
	x.found.Steps += e.steps
	x.found.Probes += e.probes
	if e.rest {
		x.found.Rests++
	}
	for _, c := range e.children {
		if x.covers(c) {
			continue
		}
		n := int32(len(x.nodes))
		x.known[c.sum] = append(x.known[c.sum], c.left)
		x.nodes = append(x.nodes, node{parent, c.step})
		if len(next) >= keepAlive {
			c.s = nil
		}
		next = append(next, place{n, c.s})
	}
	return next
}

// covers reports that all that can come of a state was or will be seen: the same state was reached with no
// less left in any budget. Budgets only bound what may happen.
func (x *search) covers(c child) bool {
	if x.world.whole {
		return slices.Contains(x.known[c.sum], c.left)
	}
	return slices.ContainsFunc(x.known[c.sum], c.left.within)
}

// expandSome has the workers expand some states, in the order in which they stand.
func (x *search) expandSome(part []place) []expansion {
	out := make([]expansion, len(part))
	var wg sync.WaitGroup
	for i, rs := range x.workers {
		wg.Go(func() {
			for j := i; j < len(part); j += len(x.workers) {
				out[j] = x.expand(rs, part[j])
			}
		})
	}
	wg.Wait()
	return out
}

func (x *search) expand(rs *replicas, at place) (e expansion) {
	e.asker = -1
	s := at.s
	if s == nil {
		if s, e.err = x.play(rs, at.node); e.err != nil {
			return e
		}
	}
	if s.tick >= s.world.Horizon {
		if e.end(rs, s); e.rest && x.ended != nil {
			x.ended(s)
		}
		return e
	}
	if e.probe(rs, s); e.fault != "" {
		return e
	}
	steps := s.steps()
	for i, next := range steps {
		to := s
		if i < len(steps)-1 {
			to = s.copy()
		}
		forced := to.let(rs, next, nil)
		if e.steps += 1 + forced; to.fault != "" {
			return expansion{fault: to.fault, at: &next, asker: -1}
		}
		if c := (child{next, to.fingerprint(), to.left, to}); !x.covers(c) {
			e.children = append(e.children, c)
		}
	}
	return e
}

// let lets a step happen, and then all for which there is no choice, up to the horizon. It counts
// those. A teller, if there is one, takes it down.
func (s *state) let(rs *replicas, x step, t *teller) (forced int) {
	do := t.or(s)
	do(rs, x)
	for s.fault == "" && s.tick < s.world.Horizon {
		steps := s.steps()
		if len(steps) != 1 {
			break
		}
		do(rs, steps[0])
		forced++
	}
	return forced
}

// pathTo is how a state was reached.
func (x *search) pathTo(n int32) []step {
	var path []step
	for ; x.nodes[n].parent >= 0; n = x.nodes[n].parent {
		path = append(path, x.nodes[n].step)
	}
	for i, j := 0, len(path)-1; i < j; i, j = i+1, j-1 {
		path[i], path[j] = path[j], path[i]
	}
	return path
}

// play makes a state anew.
func (x *search) play(rs *replicas, n int32) (*state, error) {
	s, err := begin(x.world, rs)
	if err != nil {
		return nil, err
	}
	for _, next := range x.pathTo(n) {
		s.let(rs, next, nil)
	}
	if s.fault != "" {
		return nil, fmt.Errorf("play a path of world %s again: it went well before, and now: %s", x.world.Name, s.fault)
	}
	return s, nil
}
