package world

import (
	"slices"
	"time"

	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
	"github.com/quotalease/quotalease/sim/oracle"
)

// caller is one take that waits, as the agent's shell serves it.
type caller struct {
	node    *node
	waiter  *core.Waiter
	twin    *caller // the same caller of the node's twin
	key     quota.Key
	spend   core.ID // its item in the exact lane, once sent
	answers int
	left    bool
	then    func(core.Outcome) // what it does with its answer

	estimate *estimate    // it reserves
	reserved *reservation // what it has
}

// take is one caller: the fast way, else a wait for as long as the shell waits.
func (n *node) take(key quota.Key, cost int64, leaves time.Duration, c *caller) {
	if !n.awake() || n.stopping {
		return
	}
	c.node, c.key = n, key
	if t := n.twin; t != nil {
		c.twin = &caller{node: t, key: key, estimate: c.estimate}
	}
	c.take(cost)
	if c.twin != nil {
		c.twin.take(cost)
	}
	if c.answers == 0 {
		patience := time.Second
		if dim, ok := n.core.Dimension(key.Dimension); ok && !c.waiter.Exact() && cost > 0 {
			patience = dim.ColdWait
		}
		if leaves > 0 && leaves < patience {
			n.deliver(leaves, c.leave)
		}
		n.deliver(patience, func() { c.tire(patience) })
	}
	n.pump()
}

func (c *caller) take(cost int64) {
	n, key := c.node, c.key
	n.dimension(key.Dimension)
	now := n.clock()
	if k := n.core.Table.Find(key); k != nil {
		if t := k.Take(now, cost); t.Allowed || t.Denied {
			c.answers++
			if t.Denied && cost > 0 && !n.asleep {
				n.remembered(key, t.Reason)
			}
			c.answered(cost, core.Outcome{Taken: t})
			if t.Low {
				n.core.Low(now, k)
			}
			if c.then != nil {
				c.then(core.Outcome{Taken: t})
			}
			return
		}
	}
	c.waiter = &core.Waiter{Key: key, Cost: cost, Done: c.answer}
	n.waiting = append(n.waiting, c)
	n.core.Want(now, c.waiter)
}

// answer is the core's word to a waiting caller.
func (c *caller) answer(o core.Outcome) {
	c.answers++
	c.settle(o)
}

func (c *caller) settle(o core.Outcome) {
	n := c.node
	if c.answers > 1 || c.left {
		n.world.broken(oracle.OneAnswer, "a caller at %s got %d answers (it had left: %v)", n.name, c.answers, c.left)
	}
	n.waiting = slices.DeleteFunc(n.waiting, func(o *caller) bool { return o == c })
	c.answered(c.waiter.Cost, o)
	if c.then != nil {
		c.then(o)
	}
}

// leave is a caller that hangs up.
func (c *caller) leave() {
	if c.twin != nil && c.node.twin != nil {
		c.twin.leave()
	}
	if c.answers > 0 || c.left {
		return
	}
	n := c.node
	c.left = true
	n.waiting = slices.DeleteFunc(n.waiting, func(o *caller) bool { return o == c })
	n.core.Abandon(c.waiter)
	n.world.sayOf(n, "a caller of %s leaves", c.waiter.Key)
}

// tire is the end of a caller's patience. A caller that was sent on to the exact lane has more.
func (c *caller) tire(patience time.Duration) {
	n := c.node
	if c.answers > 0 || c.left {
		return
	}
	if patience < time.Second && (c.waiter.Exact() || c.waiter.Cost == 0) {
		n.deliver(time.Second-patience, func() { c.tire(time.Second) })
		return
	}
	c.giveUp()
	if c.twin != nil && n.twin != nil {
		c.twin.giveUp()
	}
}

func (c *caller) giveUp() {
	if c.answers > 0 || c.left {
		return
	}
	if o, mine := c.node.core.GiveUp(c.node.clock(), c.waiter); mine {
		c.answers++
		c.settle(o)
	}
}

// answered counts what a caller was told: that something is allowed must be backed by units of
// a lease, by a spend that the ledger recorded, or by a rule that lets it pass without.
func (c *caller) answered(cost int64, o core.Outcome) {
	n, key, w := c.node, c.key, c.node.world
	if n.asleep {
		c.reserve(cost, o, ledger.AccountID{})
		return
	}
	w.mix(uint64(n.place.index), uint64(cost), uint64(len(o.Reason)), flag(o.Allowed)|flag(o.Denied)<<1|flag(o.Unavailable)<<2)
	if o.Remaining < 0 || o.Reset < 0 || o.RetryIn < 0 || o.Allowed && (o.Denied || o.Unavailable) {
		w.broken(oracle.Works, "%s answers %+v", n.name, o)
	}
	if w.out != nil {
		w.say("%s answers %s", n.name, outcomeWords(key, cost, o))
	}
	n.look(key)
	if o.Allowed && cost > 0 {
		c.reserve(cost, o, n.allowed(key, cost, o, c.spend))
	}
	n.check(key)
}

// allowed finds what a caller was allowed, and in which account.
func (n *node) allowed(key quota.Key, cost int64, o core.Outcome, spend core.ID) ledger.AccountID {
	w := n.world
	lease, spent := o.Source()
	switch {
	case o.Reason == quota.OpenMode || o.Reason == quota.Cold:
		return n.passedFree(key, cost)
	case o.Reason == quota.Extended:
		w.fire(Extended)
		n.balance[key] -= cost
		return w.oracle.AccountOf(lease)
	case !spent.IsNil():
		if spent != spend || n.approved[spent] != cost {
			w.broken(oracle.Backed, "%s allowed %d of %s by spend %s, which the ledger did not grant it", n.name, cost, key, shortID(spent))
		}
		w.oracle.Spent(w.moment(), spent, cost)
		return w.oracle.AccountOf(spent)
	default:
		n.balance[key] -= cost
		return w.oracle.AccountOf(lease)
	}
}

func flag(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
