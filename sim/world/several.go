package world

import (
	"fmt"
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"

	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
	"github.com/quotalease/quotalease/sim/oracle"
)

// several is one caller of several keys, all or none.
type several struct {
	node    *node
	group   *core.Group
	twin    *several
	runs    time.Duration         // of work
	spends  map[quota.Key]core.ID // its items in the exact lane, once sent
	lost    map[quota.Key]core.ID // what it held of the original's leases when its node became another incarnation
	answers int
	left    bool
}

// takesOf reads the dimensions of a mask.
func takesOf(a Action) (takes []core.DimensionCost) {
	for i, name := range dimensions {
		if a.Mask>>i&1 == 1 {
			takes = append(takes, core.DimensionCost{Dimension: name, Cost: a.Cost})
		}
	}
	return takes
}

// serve lets a caller come.
func (n *node) serve(a Action) {
	n.world.sayOf(n, "%s", a)
	switch a.Kind {
	case Several, Acquire:
		n.takeSeveral(a)
	case Reserve:
		n.take(a.Key, a.Cost, 0, &caller{estimate: &estimate{maximum: a.Mask == 1, actual: a.Actual, after: a.For}})
	default:
		n.take(a.Key, a.Cost, a.Leaves, &caller{})
	}
}

// takeSeveral is such a caller, as the shell serves it.
func (n *node) takeSeveral(a Action) {
	if !n.awake() || n.stopping {
		return
	}
	g := n.wantAll(a)
	if t := n.twin; t != nil {
		g.twin = t.wantAll(a)
	}
	if g.answers == 0 {
		if a.Leaves > 0 {
			n.deliver(a.Leaves, g.leave)
		}
		patience := g.group.Patience()
		n.deliver(patience, func() { g.tire(patience) })
	}
	n.pump()
}

func (n *node) wantAll(a Action) *several {
	g := &several{node: n, group: &core.Group{Tenant: a.Key.Tenant, Takes: takesOf(a)}, spends: map[quota.Key]core.ID{}}
	g.group.Done = g.answer
	if a.Kind == Acquire {
		g.group.Permit, g.group.Hold, g.group.Wait, g.runs = fmt.Sprintf("work %d", n.acquires), longestRun, a.Waits, a.For
		n.acquires++
	}
	for _, t := range g.group.Takes {
		n.dimension(t.Dimension)
	}
	n.several = append(n.several, g)
	n.core.WantAll(n.clock(), g.group)
	return g
}

func (g *several) answer(o core.Outcome) {
	n := g.node
	g.answers++
	if g.answers > 1 || g.left {
		n.world.broken(oracle.OneAnswer, "a caller of several keys at %s got %d answers (it had left: %v)", n.name, g.answers, g.left)
	}
	n.several = slices.DeleteFunc(n.several, func(x *several) bool { return x == g })
	n.answeredSeveral(g, o)
}

// leave is a caller that hangs up.
func (g *several) leave() {
	if g.twin != nil && g.node.twin != nil {
		g.twin.leave()
	}
	if g.answers > 0 || g.left {
		return
	}
	g.left = true
	n := g.node
	n.core.AbandonAll(n.clock(), g.group)
	n.observe()
	n.several = slices.DeleteFunc(n.several, func(x *several) bool { return x == g })
	n.world.sayOf(n, "a caller of several keys of %s leaves", g.group.Tenant)
}

// tire is the end of its patience; one that was sent on to the exact lane has more.
func (g *several) tire(patience time.Duration) {
	if g.answers > 0 || g.left {
		return
	}
	if patience < time.Second && g.group.Exact() {
		g.node.deliver(time.Second-patience, func() { g.tire(time.Second) })
		return
	}
	g.giveUp()
	if g.twin != nil && g.node.twin != nil {
		g.twin.giveUp()
	}
}

func (g *several) giveUp() {
	if g.answers > 0 || g.left {
		return
	}
	if o, mine := g.node.core.GiveUpAll(g.node.clock(), g.group); mine {
		g.answer(o)
	}
}

// answeredSeveral counts what a caller of several keys was told. If it is allowed, each key has
// units of a lease, a spend that the ledger recorded, or a rule that lets it pass. If it is not,
// nothing of it stays.
func (n *node) answeredSeveral(g *several, o core.Outcome) {
	w := n.world
	if n.asleep {
		return
	}
	w.mix(uint64(n.place.index), uint64(len(o.Reason)), flag(o.Allowed)|flag(o.Denied)<<1|flag(o.Unavailable)<<2)
	if w.out != nil {
		w.say("%s answers %s", n.name, severalWords(g.group, o))
	}
	parts := 0
	g.group.EachPart(func(p core.Part) {
		parts++
		n.look(p.Key)
		switch {
		case !o.Allowed:
			if !p.Lease.IsNil() || p.Free || len(p.Slots) > 0 {
				w.broken(oracle.AllOrNone, "%s denied a caller of several keys and kept %d of %s", n.name, p.Cost, p.Key)
			}
		case !p.Lease.IsNil() && p.Lease == g.lost[p.Key]:
		case !p.Lease.IsNil():
			n.balance[p.Key] -= p.Cost
		case len(p.Slots) > 0:
		case p.Free && p.Reason == quota.Extended:
			n.balance[p.Key] -= p.Cost
		case p.Free:
			n.passedFree(p.Key, p.Cost)
		case n.approved[g.spends[p.Key]] == p.Cost:
			w.oracle.Spent(w.moment(), g.spends[p.Key], p.Cost)
		default:
			w.broken(oracle.AllOrNone, "%s allowed a caller of several keys that has nothing of %s", n.name, p.Key)
		}
	})
	if o.Allowed && g.runs > 0 {
		n.begin(g)
	}
	if (o.Denied || o.Unavailable && n.core.PolicyVersion() > 0 && !n.stopping) && parts > 0 && o.Key.Dimension == "" {
		w.broken(oracle.AllOrNone, "%s does not say which of several keys denied", n.name)
	}
	g.group.EachPart(func(p core.Part) { n.check(p.Key) })
	n.observe()
}

// passedFree counts what passed without a lease.
func (n *node) passedFree(key quota.Key, units int64) ledger.AccountID {
	w := n.world
	dim := n.dimension(key.Dimension)
	id := ledger.AccountID{Key: key, Window: dim.Calendar.WindowAt(n.core.LedgerTime(n.clock()))}
	w.oracle.Unleased(w.moment(), n.core.Incarnation(), id, dim.Class, units)
	return id
}

// dimension is as the catalogue has it or, where that dropped it, last had it.
func (n *node) dimension(name string) *core.Dimension {
	if dim, ok := n.core.Dimension(name); ok {
		n.dims[name] = dim
	}
	return n.dims[name]
}

// observe looks at the leases of every key that callers of several keys have a part in: what
// they lack beyond what callers were told of is in the hands of those who wait.
func (n *node) observe() {
	if n.asleep || n.dead {
		return
	}
	for _, g := range n.several {
		g.group.EachPart(func(p core.Part) { n.look(p.Key) })
	}
	for _, g := range n.several {
		g.group.EachPart(func(p core.Part) { n.check(p.Key) })
	}
}

// look notes what leases of a key lack since the last look.
func (n *node) look(key quota.Key) {
	if k := n.core.Table.Find(key); k != nil {
		m := n.world.moment()
		k.EachLease(func(id core.ID, taken int64) { n.balance[key] += n.world.oracle.UsedUpTo(m, n.holder, id, taken) })
	}
}

// check holds what leases of a key lack to what callers were told of, and what waits.
func (n *node) check(key quota.Key) {
	var waits int64
	for _, g := range n.several {
		g.group.EachPart(func(p core.Part) {
			if p.Key == key && !p.Lease.IsNil() && p.Lease != g.lost[key] {
				waits += p.Cost
			}
		})
	}
	if n.balance[key] != waits {
		n.world.broken(oracle.Backed, "leases of %s at %s lack %d that no caller was told of, %d wait for other keys", key, n.name, n.balance[key], waits)
		n.balance[key] = waits
	}
}

// loseSeveral is a copy that became another incarnation: what callers hold of the original's
// leases stays charged, whatever becomes of them. What an earlier one lost is lost already.
func (n *node) loseSeveral() {
	for _, g := range n.several {
		was := g.lost
		g.lost = map[quota.Key]core.ID{}
		g.group.EachPart(func(p core.Part) {
			if p.Lease.IsNil() {
				return
			}
			g.lost[p.Key] = p.Lease
			if was[p.Key] != p.Lease {
				n.balance[p.Key] -= p.Cost
			}
		})
		if g.twin != nil && n.twin != nil {
			g.twin.lost = g.lost // a copy that is let loose later begins with this node's balance
		}
	}
}

// sendsSeveral notes the items of the exact lane that are on their way.
func (n *node) sendsSeveral() {
	for _, g := range n.several {
		g.group.EachPart(func(p core.Part) {
			if p.Spend != (uuid.UUID{}) {
				g.spends[p.Key] = p.Spend
			}
		})
	}
}
