package scenario

import (
	"strconv"

	"github.com/quotalease/quotalease/agent/core"
)

// start asks for the slots of a piece of work. Work that began goes on to its end, whatever becomes
// of the agent: only that the agent still knows of it is not certain.
func (n *node) start(c *call) {
	n.jobs++
	over := false
	g := &core.Group{Tenant: c.Key.Tenant, Takes: []core.DimensionCost{{Dimension: c.Key.Dimension, Cost: c.cost}}, Permit: strconv.Itoa(n.jobs)}
	told := func(o core.Outcome) {
		over = true
		if o.Allowed {
			n.began(c, g.Permit)
		}
		c.answered(outcome(o))
	}
	g.Done = told
	n.core.WantAll(n.clock(), g)
	if !over {
		n.after(spendPatience, func() {
			switch {
			case over:
			case n.dead:
				c.answered(verdict{unavailable: true})
			default:
				if o, mine := n.core.GiveUpAll(n.clock(), g); mine {
					told(o)
				}
				n.pump()
			}
		})
	}
	n.pump()
}

// began is work that has its slots, until its time is over.
func (n *node) began(c *call, permit string) {
	s, region, cost := c.stream, c.agent.region, c.cost
	s.meter.running += cost
	s.meter.most = max(s.meter.most, s.meter.running)
	n.after(s.Hold, func() {
		s.account.ended(cost, region)
		s.meter.running -= cost
		if n.dead {
			return
		}
		if ended, err := n.core.Release(n.clock(), s.Key.Tenant, permit); err != nil || !ended.First {
			s.meter.lost++
		}
		n.pump()
	})
}
