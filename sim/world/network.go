package world

import (
	"time"

	"github.com/quotalease/quotalease/controlplane"
)

// callTimeout is how long an agent waits for an answer.
const callTimeout = 700 * time.Millisecond

// cut is a link that carries nothing for a while.
type cut struct {
	agents   int // mask
	replicas int // mask
	there    bool
	back     bool
	until    time.Duration
}

// fate is what happens to one request and its answer.
type fate struct {
	lost, lostBack      bool
	there, back, repeat time.Duration
}

// fate uses up what trouble waits for the next message of an agent, one of each kind.
func (p *place) fate() fate {
	f := fate{there: p.latency(), back: p.latency()}
	if len(p.armed) == 0 {
		return f
	}
	var used [kinds]bool
	rest := p.armed[:0]
	for _, a := range p.armed {
		if used[a.Kind] || a.Kind == LoseNotices {
			rest = append(rest, a)
			continue
		}
		used[a.Kind] = true
		p.world.fire(a.Kind)
		switch a.Kind {
		case LoseRequest:
			f.lost = true
		case LoseReply:
			f.lostBack = true
		case RepeatRequest:
			f.repeat = a.For
		case DelayRequest:
			f.there += a.For
		case DelayReply:
			f.back += a.For
		}
	}
	p.armed = rest
	return f
}

// latency is one way through the network.
func (p *place) latency() time.Duration {
	return p.distance + time.Duration(p.rng.IntN(4000))*time.Microsecond
}

// severed reports that nothing passes between an agent and a replica now.
func (w *World) severed(p *place, r *replica, back bool) bool {
	for _, c := range w.cuts {
		if w.now < c.until && c.agents>>p.index&1 == 1 && c.replicas>>r.place&1 == 1 && (back && c.back || !back && c.there) {
			return true
		}
	}
	return false
}

func (w *World) sever(c cut) {
	rest := w.cuts[:0]
	for _, old := range w.cuts {
		if w.now < old.until {
			rest = append(rest, old)
		}
	}
	w.cuts = append(rest, c)
	for _, n := range w.running {
		if n.listens != nil && w.severed(n.place, n.listens, true) {
			n.unhook()
		}
	}
}

// call is one Sync or Spend on its way.
type call struct {
	node   *node
	serial int
	tried  int // replicas that refused it
	over   bool
	ask    func(*controlplane.ControlPlane) (any, error)
	done   func(any) // called once, with nil if no answer came
}

func (n *node) call(ask func(*controlplane.ControlPlane) (any, error), done func(any)) {
	n.serial++
	c := &call{node: n, serial: n.serial, ask: ask, done: done}
	n.deliver(callTimeout, func() {
		if !c.over {
			n.first++ // connected, but silent: the next call begins at the next replica
			c.finish(nil)
		}
	})
	c.send()
}

func (c *call) finish(reply any) {
	if !c.over {
		c.over = true
		c.done(reply)
	}
}

// send carries the request to the next replica in turn, perhaps twice, perhaps not at all.
func (c *call) send() {
	n := c.node
	w := n.world
	r := w.replicas[(n.first+c.tried)%len(w.replicas)]
	f := n.place.fate()
	if !f.lost {
		w.after(f.there, func() { c.arrive(r, f) })
	}
	if f.repeat > 0 {
		w.after(f.there+f.repeat, func() { c.arrive(r, fate{back: f.back}) })
	}
}

// arrive is the request at a replica.
func (c *call) arrive(r *replica, f fate) {
	n := c.node
	w := n.world
	if w.severed(n.place, r, false) {
		return
	}
	if c.serial < n.arrived {
		w.fire(Reordered)
	}
	n.arrived = max(n.arrived, c.serial)
	var reply any
	var err error = errDown
	if r.cp != nil {
		reply, err = c.ask(r.cp)
		w.expectOutage(err, "answer "+n.name)
		if err != nil {
			w.say("%s cannot answer %s: %v", r, n.name, err)
		}
	}
	if f.lostBack || w.severed(n.place, r, true) {
		return
	}
	n.deliver(f.back, func() {
		switch {
		case c.over:
		case err == nil:
			n.first += c.tried
			c.finish(reply)
		case c.tried+1 < len(w.replicas):
			c.tried++
			c.send()
		default:
			c.finish(nil)
		}
	})
}
