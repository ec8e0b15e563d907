package world

import (
	"time"

	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/sim/oracle"
)

// longestRun is the max_hold of every concurrency limit here.
const longestRun = 2 * time.Second

// work runs on slots. It ends when its time has come, whatever becomes of the agent that let it
// begin; that hears of it if it can.
type work struct {
	node   *node
	tenant string
	permit string
	agent  core.ID
	runs   []run
}

// run is slots of one lease.
type run struct {
	in    ledger.AccountID
	lease core.ID
	slots int64
}

// begin lets work run that was just allowed.
func (n *node) begin(g *several) {
	w := n.world
	x := &work{node: n, tenant: g.group.Tenant, permit: g.group.Permit, agent: n.core.Incarnation()}
	g.group.EachPart(func(p core.Part) {
		dim := n.dimension(p.Key.Dimension)
		for _, s := range p.Slots {
			r := run{in: ledger.AccountID{Key: p.Key}, lease: s.Lease, slots: s.Slots}
			w.oracle.Began(w.moment(), n.holder, x.agent, r.lease, r.in, dim.Class, r.slots)
			x.runs = append(x.runs, r)
		}
	})
	if len(x.runs) == 0 {
		w.broken(oracle.Backed, "%s let work begin without slots: %s", n.name, x.permit)
		return
	}
	w.fire(Work)
	w.working++
	w.after(g.runs, x.end)
}

func (x *work) end() {
	n, w := x.node, x.node.world
	w.working--
	for _, r := range x.runs {
		w.oracle.Ended(w.moment(), n.holder, x.agent, r.lease, r.in, r.slots)
	}
	w.say("work on %d slots of %s at %s ends", x.runs[0].slots, x.runs[0].in.Key, n.name)
	n.deliver(0, func() {
		if _, err := n.core.Release(n.clock(), x.tenant, x.permit); err != nil {
			w.broken(oracle.Works, "release %s at %s: %v", x.permit, n.name, err)
		}
		if t := n.twin; t != nil {
			_, _ = t.core.Release(t.clock(), x.tenant, x.permit) // it does as the other one did
		}
		w.drained(n)
	})
}
