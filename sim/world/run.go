package world

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
	"github.com/quotalease/quotalease/sim/oracle"
)

// DefaultEvents is how many events a seed runs at least.
const DefaultEvents = 10_000

// Script is a history as it was decided: the same script makes the same history.
type Script struct {
	Seed    uint64
	Setup   Setup
	Actions []Action
	Busy    time.Duration // then trouble and callers end
	Asks    []Ask         // at rest, of what is free
}

// Ask is a caller that asks at rest until it is served.
type Ask struct {
	Agent int // place
	Copy  bool
	Key   quota.Key
}

// everyAsk is one caller for each agent, copy and key.
func everyAsk(setup Setup) (asks []Ask) {
	for agent := range setup.Agents {
		for _, copied := range []bool{false, true} {
			for _, tenant := range tenants {
				for _, dimension := range dimensions[:slotsFrom] {
					asks = append(asks, Ask{Agent: agent, Copy: copied, Key: quota.Key{Tenant: tenant, Dimension: dimension}})
				}
			}
		}
	}
	return asks
}

// Result is what became of one history.
type Result struct {
	Script Script
	Fault  *oracle.Fault // nil: every promise was kept
	Events int
	Digest uint64
	Fired  map[Kind]int
}

// Run makes up the history of a seed, of at least so many events, and runs it. A history for
// people goes to out, unless that is nil.
func Run(seed uint64, events int, out io.Writer) Result {
	setup := setupOf(seed)
	script := Script{Seed: seed, Setup: setup}
	// Where copies will be wanted is known by looking ahead: the generator sees nothing but
	// its seed.
	copies := map[int]bool{}
	for g, n := newGenerator(seed, setup), 0; n < events; n++ {
		if a := g.action(); a.Kind == CopyAgent {
			copies[a.Agent] = true
		}
	}
	w := newWorld(seed, setup, copies, out)
	for g := newGenerator(seed, setup); w.events < events && w.oracle.Fault() == nil; {
		a := g.action()
		script.Actions = append(script.Actions, a)
		w.next(a)
	}
	script.Busy, script.Asks = w.now, everyAsk(setup)
	w.settle(script.Asks)
	return w.result(script)
}

// Replay runs a script.
func Replay(s Script, out io.Writer) Result {
	copies := map[int]bool{}
	for _, a := range s.Actions {
		if a.Kind == CopyAgent {
			copies[a.Agent] = true
		}
	}
	w := newWorld(s.Seed, s.Setup, copies, out)
	for _, a := range s.Actions {
		if w.oracle.Fault() != nil {
			break
		}
		if a.Agent < s.Setup.Agents && a.Replica < s.Setup.Replicas {
			w.next(a)
		}
	}
	w.runUntil(s.Busy)
	w.settle(s.Asks)
	return w.result(s)
}

// next carries out an action when its time has come.
func (w *World) next(a Action) {
	w.runUntil(a.At)
	if w.oracle.Fault() != nil {
		return
	}
	w.events++
	w.mix(uint64(a.Kind), uint64(a.At))
	w.act(a)
	if a.Kind <= lastCall {
		w.fire(a.Kind)
	}
}

func (w *World) result(s Script) Result {
	r := Result{Script: s, Fault: w.oracle.Fault(), Events: w.events, Digest: w.digest, Fired: map[Kind]int{}}
	for k, n := range w.fired {
		if n > 0 {
			r.Fired[Kind(k)] = n
		}
	}
	return r
}

// Times after the last trouble.
const (
	restFor  = longestTTL + longestGrace + longestRun + 4*time.Second // everything must have come to rest by then
	watchFor = 3 * time.Second                                        // at rest agents hardly talk
	asksFor  = longestTTL + longestGrace + 2*time.Second              // who asks again and again is served by then
	mostRest = 20                                                     // Syncs of an agent in watchFor
)

// settle is the end of every history: trouble ends, and everything has to come to rest. Then
// what is free must be had for the asking, agents stop, and the books must be right.
func (w *World) settle(asks []Ask) {
	w.subside()
	w.rest()
	w.askFor(asks)
	w.found()
	w.rest()
	for _, n := range slices.Clone(w.running) {
		w.stop(n)
	}
	w.runUntil(w.now + restFor)
	for _, n := range w.running {
		w.broken(oracle.Stopped, "%s was told to stop and still owes", n.name)
	}
	if w.oracle.Fault() == nil {
		w.oracle.Rest(w.moment())
		w.bill()
		_, _ = w.database.Verify(context.Background(), func(d ledger.Difference) { w.broken(oracle.Conserved, "%s", d) }, func(int, int) {})
	}
}

// bill lets the windows end, and their statements become final.
func (w *World) bill() {
	const long = 3 * time.Minute // the rest of the longest window, and final_after
	w.database.offset += long
	for _, r := range w.replicas {
		r.offset += long
	}
	w.runUntil(w.now + 2*time.Second)
	w.oracle.Billed(w.moment())
}

// subside ends all trouble.
func (w *World) subside() {
	if w.oracle.Fault() != nil {
		return
	}
	w.say("* trouble and callers end")
	w.calm, w.cuts = true, nil
	w.database.commits = nil
	w.database.back, w.database.astray = 0, 0
	for _, r := range w.replicas {
		r.offset, r.skewed, r.lagging = w.database.offset, 0, 0
		if r.cp == nil {
			r.start()
		}
	}
	for _, p := range w.places {
		p.armed, p.deaf = nil, 0
		w.restart(p)
	}
	for _, n := range w.running {
		n.wakes = min(n.wakes, w.now)
		n.pump()
	}
}

// rest is what must be true a ttl and a grace after the last trouble.
func (w *World) rest() {
	// A ledger whose clock was ahead closes nothing before its time comes again.
	w.runUntil(w.now + restFor + max(0, w.latest.Sub(w.database.now())))
	for _, n := range w.running {
		n.syncs = 0
	}
	w.runUntil(w.now + watchFor)
	if w.oracle.Fault() != nil {
		return
	}
	for _, n := range w.running {
		if n.core.Owes() {
			w.broken(oracle.Rests, "%s still owes a report or a lease", n.name)
		}
		if waiting := len(n.waiting) + len(n.several); waiting > 0 {
			w.broken(oracle.Rests, "%d callers of %s still wait", waiting, n.name)
		}
		if n.syncs > mostRest {
			w.broken(oracle.Rests, "%s sent %d Syncs in %s of rest", n.name, n.syncs, watchFor)
		}
	}
	w.oracle.Rest(w.moment())
}

// found is what must be true once an agent and its copy have both talked again.
func (w *World) found() {
	for _, p := range w.places {
		if n, t := p.node, w.twins[p.index]; n != nil && t != nil && t.core.Incarnation() == n.core.Incarnation() {
			w.broken(oracle.Found, "%s and %s still go by one incarnation", n.name, t.name)
		}
	}
}

// askFor lets callers ask until they are served. A quota that has units for one must serve it
// within asksFor.
func (w *World) askFor(asks []Ask) {
	if w.oracle.Fault() != nil {
		return
	}
	end := w.now + asksFor
	for _, a := range asks {
		n := w.places[a.Agent].node
		if a.Copy {
			n = w.twins[a.Agent]
		}
		if n != nil {
			w.askUntil(n, a.Key, end)
		}
	}
	w.runUntil(end + time.Second)
}

func (w *World) askUntil(n *node, key quota.Key, end time.Duration) {
	if n.dead || w.oracle.Fault() != nil {
		return
	}
	n.take(key, 1, 0, &caller{then: func(o core.Outcome) {
		switch {
		case o.Allowed || o.Bad != nil:
		case w.now < end:
			w.after(min(max(o.RetryIn, 20*time.Millisecond), 300*time.Millisecond), func() { w.askUntil(n, key, end) })
		default:
			w.unserved(n, key, o)
		}
	}})
}

// unserved is a caller that was refused to the end: right only if nothing is free.
func (w *World) unserved(n *node, key quota.Key, o core.Outcome) {
	dim, ok := n.core.Dimension(key.Dimension)
	if !ok {
		return
	}
	id := ledger.AccountID{Key: key, Window: dim.Calendar.WindowAt(w.database.now())}
	terms, ok := w.terms(key, id.Window)
	if !ok {
		return
	}
	s, _ := w.oracle.State(id)
	if terms.Kind == quota.RateLimit {
		// Each agent and each copy asks once, and holds as much again for a while.
		if comes := int64(terms.Rate.Units) * int64(asksFor) / int64(terms.Rate.Per); terms.Limit.Units > 0 && comes >= int64(4*len(w.places)) {
			w.broken(oracle.Served, "a caller of %s at %s was refused for %s (%s) while the bucket fills", key, n.name, asksFor, outcomeWords(key, 1, o))
		}
		return
	}
	if free := int64(terms.Limit.Units) - int64(s.Row.Settled()+s.Row.Outstanding+s.Row.Held); free > 0 {
		w.broken(oracle.Served, "a caller of %s at %s was refused for %s (%s) while %d were free", key, n.name, asksFor, outcomeWords(key, 1, o), free)
	}
}
