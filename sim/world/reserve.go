package world

import (
	"time"

	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
	"github.com/quotalease/quotalease/sim/oracle"
)

// estimate is what a caller reserves, and how it will settle.
type estimate struct {
	maximum bool
	actual  int64
	after   time.Duration
}

// reservation is one that a node made.
type reservation struct {
	node        *node
	twin        *reservation // the same of the node's twin
	key         quota.Key
	estimate    int64
	terms       estimate
	class       quota.Class
	id          core.ID
	incarnation core.ID
	account     ledger.AccountID
	lease       core.ID
	spend       core.ID
	settled     bool
}

// reserve makes a reservation of what a caller was just allowed, and settles it later.
func (c *caller) reserve(cost int64, o core.Outcome, account ledger.AccountID) {
	n, w := c.node, c.node.world
	if c.estimate == nil || !o.Allowed || cost == 0 {
		return
	}
	dim, ok := n.core.Dimension(c.key.Dimension)
	if !ok {
		return
	}
	r := &reservation{node: n, key: c.key, estimate: cost, terms: *c.estimate, class: dim.Class, account: account}
	r.terms.maximum = r.terms.maximum || !dim.MayExceed()
	if r.terms.maximum {
		r.terms.actual = min(r.terms.actual, cost)
	}
	if r.id, ok = n.core.Reserve(n.clock(), c.key, cost, r.terms.maximum, o); !ok {
		w.broken(oracle.Works, "%s cannot reserve %d of %s", n.name, cost, c.key)
		return
	}
	r.lease, r.spend = o.Source()
	r.incarnation = n.core.Incarnation()
	c.reserved = r
	if !n.asleep && r.terms.after > 0 {
		n.deliver(r.terms.after, func() { c.settleReserved() })
	}
}

// settleReserved says what was really used, at the node and at a copy of it.
func (c *caller) settleReserved() {
	c.reserved.settle()
	t := c.twin
	if t == nil || t.reserved == nil {
		return
	}
	if n := t.node; n.asleep && c.node.twin == n {
		t.reserved.settle()
	} else if !n.asleep && n.awake() {
		t.reserved.settle()
		n.pump()
	}
}

func (r *reservation) settle() {
	n, w := r.node, r.node.world
	if r.settled {
		return // a copy that was let loose has had its own time
	}
	r.settled = true
	if n.dead || n.stopping || n.core.Incarnation() != r.incarnation {
		return // it counts in full
	}
	rest := r.estimate - r.terms.actual
	if rest > 0 && !r.lease.IsNil() {
		n.balance[r.key] += rest // before a caller in wait gets it
	}
	err := n.core.Settle(n.clock(), r.id, r.terms.actual)
	if n.asleep {
		return
	}
	if err != nil {
		w.broken(oracle.Works, "settle %d of %s at %s: %v", r.terms.actual, r.key, n.name, err)
		return
	}
	if w.out != nil {
		w.say("%s settles %d of %s as %d", n.name, r.estimate, r.key, r.terms.actual)
	}
	m := w.moment()
	switch {
	case rest < 0:
		w.oracle.Unleased(m, r.incarnation, r.account, r.class, -rest)
	case rest == 0, !r.lease.IsNil():
	case !r.spend.IsNil():
		w.oracle.Settled(m, r.spend, r.terms.actual)
	default:
		w.oracle.Unleased(m, r.incarnation, r.account, r.class, -rest)
	}
	n.look(r.key)
	n.check(r.key)
}
