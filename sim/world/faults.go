package world

import (
	"context"
	"maps"
	"time"

	"github.com/gofrs/uuid/v5"

	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/sim/oracle"
)

// act carries out one decision of the generator. What has no object at that moment (a crash of
// an agent that is down) does not happen, and is not counted.
func (w *World) act(a Action) {
	p, r := w.places[a.Agent], w.replicas[a.Replica]
	if a.Kind > lastCall {
		w.say("* %s", a)
	}
	switch a.Kind {
	case Take, Peek, Several, Reserve, Acquire:
		if p.node != nil {
			p.node.serve(a)
		}
		if c := w.twins[p.index]; c != nil && a.At.Microseconds()%3 == 0 { // a copy has callers too
			c.serve(a)
		}
	case LoseRequest, LoseReply, RepeatRequest, DelayRequest, DelayReply, LoseNotices:
		p.armed = append(p.armed, a) // counted when it strikes
	case Cut:
		w.strike(a, cut{agents: 1 << a.Agent, replicas: 1 << a.Replica, there: true, back: true})
	case CutOneWay:
		w.strike(a, cut{agents: 1 << a.Agent, replicas: 1 << a.Replica, there: a.Mask == 0, back: a.Mask == 1})
	case Partition:
		w.strike(a, cut{agents: a.Mask, replicas: 1<<len(w.replicas) - 1, there: true, back: true})
	case Suspend, Stall, CrashAgent, CopyAgent, StopAgent:
		if p.node != nil {
			w.strikeNode(a, p.node)
		}
	case JumpWall:
		w.fire(a.Kind)
		p.wall += a.For
	case CrashReplica, SkewReplica, NudgeReplica, LagReplica:
		w.strikeReplica(a, r)
	case Revoke, Credit, ReleaseHeld:
		w.operate(a, r)
	case CutWatch:
		w.fire(a.Kind)
		p.deaf = w.now + a.For
		for _, n := range w.running {
			if n.place == p {
				n.unhook()
			}
		}
	default:
		w.strikeDatabase(a)
	}
}

func (w *World) strike(a Action, c cut) {
	w.fire(a.Kind)
	c.until = w.now + a.For
	w.sever(c)
}

func (w *World) strikeNode(a Action, n *node) {
	w.fire(a.Kind)
	switch a.Kind {
	case Suspend:
		n.wakes = max(n.wakes, w.now+a.For)
	case Stall:
		n.late = a.For
	case CrashAgent:
		w.lose(n)
		w.after(a.For, func() { w.restart(n.place) })
	case CopyAgent:
		w.release(n)
	case StopAgent:
		w.stop(n)
		w.after(a.For, func() { w.restart(n.place) })
	}
}

// lose ends a process with all that it knew.
func (w *World) lose(n *node) {
	w.oracle.Lost(n.core.Incarnation())
	w.end(n)
}

// end takes a process out of the world.
func (w *World) end(n *node) {
	n.dead = true
	if n.listens != nil {
		n.listener.Close()
		n.listens, n.listener = nil, nil
	}
	for i, o := range w.running {
		if o == n {
			w.running = append(w.running[:i:i], w.running[i+1:]...)
			break
		}
	}
	if n.place.node == n {
		n.place.node = nil
	}
	if w.twins[n.place.index] == n {
		w.twins[n.place.index] = nil
	}
}

// stop begins the graceful stop of a process; it ends when it owes nothing, or after a while.
func (w *World) stop(n *node) {
	if n.stopping || n.dead {
		return
	}
	n.stopping = true
	n.twin = nil
	w.say("%s begins to stop", n.name)
	n.core.Stop(n.clock())
	n.pump()
	w.drained(n)
	w.after(stopTimeout, func() {
		if !n.dead && !w.calm {
			w.lose(n)
		}
	})
}

const stopTimeout = 5 * time.Second

// drained ends a stopping process that owes nothing.
func (w *World) drained(n *node) {
	if n.stopping && !n.dead && !n.core.Owes() {
		w.say("%s has stopped and owes nothing", n.name)
		w.end(n)
	}
}

// restart starts a new process where none runs.
func (w *World) restart(p *place) {
	switch {
	case p.node == nil:
		p.start()
	case p.node.stopping:
		w.after(100*time.Millisecond, func() { w.restart(p) })
	}
}

// release lets the copy of a process loose: a machine restored from a snapshot while the
// original runs on. Its connections are broken, its random numbers are its own.
func (w *World) release(n *node) {
	t := n.twin
	if t == nil || w.twins[n.place.index] != nil {
		return
	}
	n.twin, t.asleep = nil, false
	n.copied, t.copied = true, true
	t.random.reseed(w.seed, 5, uint64(n.place.index), uint64(n.place.starts))
	w.oracle.Copied(n.core.Incarnation(), n.holder, t.holder)
	w.twins[n.place.index] = t
	w.running = append(w.running, t)
	maps.Copy(t.asked, n.asked)
	for _, a := range n.asked {
		w.oracle.Shared(uuid.FromBytesOrNil(a.GetGrantId()))
	}
	maps.Copy(t.balance, n.balance)
	maps.Copy(t.news, n.news)
	for _, c := range n.waiting {
		if id := c.waiter.SpendID(); !id.IsNil() { // in flight or still in line: both go on with it
			w.oracle.Shared(id)
		}
	}
	for _, g := range n.several {
		g.group.EachPart(func(p core.Part) {
			if !p.Spend.IsNil() {
				w.oracle.Shared(p.Spend)
			}
		})
	}
	t.syncing, t.spending = n.syncing, n.spending
	t.first, t.wakes = n.first, n.wakes
	t.deliver(callTimeout/2, func() {
		if t.syncing {
			t.syncing = false
			t.core.SyncDone(t.clock(), nil)
		}
		if t.spending {
			t.spending = false
			t.core.SpendDone(t.clock(), t.clock(), nil)
		}
		for _, c := range append([]*caller(nil), t.waiting...) {
			c.giveUp()
		}
		for _, g := range append([]*several(nil), t.several...) {
			g.giveUp()
		}
	})
	w.after(0, t.pump)
	w.after(time.Millisecond, t.hook)
}

func (w *World) strikeReplica(a Action, r *replica) {
	w.fire(a.Kind)
	switch a.Kind {
	case CrashReplica:
		r.crash()
		w.after(a.For, func() {
			if r.cp == nil {
				r.start()
			}
		})
	case SkewReplica:
		r.skewed = max(r.skewed, w.now+a.For)
	case NudgeReplica:
		r.offset += a.For
	case LagReplica:
		r.lagging = w.now + a.For
	}
}

func (w *World) strikeDatabase(a Action) {
	d := w.database
	switch a.Kind {
	case DatabaseDown:
		w.fire(a.Kind)
		d.back = max(d.back, w.now+a.For)
	case DatabaseForward, DatabaseBack:
		w.fire(a.Kind)
		d.offset += a.For
	case DatabaseAstray:
		w.fire(a.Kind)
		d.astray = max(d.astray, w.now+a.For)
	case CommitUnknown, CommitConflict, CommitBroken, CommitUnheard:
		d.commits = append(d.commits, a.Kind)
	case ChangeLimit, ChangeClass, ChangeBudget, RemoveDimension, RemoveTenant:
		w.fire(a.Kind)
		w.apply(a.Policy)
	}
}

// apply makes a document the policy in force.
func (w *World) apply(i int) {
	doc := documents()[i].text
	version, changed, err := policy.Apply(context.Background(), w.log, doc, policy.SourceCLI, "operator", "simulation")
	if err != nil {
		w.broken(oracle.Works, "apply policy %d: %v", i, err)
		return
	}
	if !changed {
		return
	}
	w.version = version
	w.database.SetPolicyVersion(version)
	w.oracle.Policy(version, termsOf(doc, version))
	w.terms = termsOf(doc, version)
	for _, r := range w.replicas {
		r.behind = true
	}
}
