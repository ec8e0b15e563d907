package core

import (
	"container/heap"
	"math"
	"slices"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// A permit is some work's right to its slots. It ends when the work does; if nobody says so,
// because the caller died, it lapses: a hold after it was last renewed. What has ended is
// remembered for a while, so that to say so twice is no mistake.
const (
	maxPermits  = 100_000 // at one time
	maxEnded    = 100_000
	endedFor    = 5 * time.Minute
	longestHold = 30 * 24 * time.Hour
)

// permitID is a caller's name for a permit: one tenant's are not another's.
type permitID struct{ tenant, id string }

type permit struct {
	id    permitID
	takes []KeyCost // as asked for, to know a repeat
	holds []hold
	hold  time.Duration // most between two signs of life
	until Instant
	said  Outcome
	index int // in the heap; gone once ended
	began Instant
	ended Instant
	told  func() // that it ended; nil: nobody asks
}

// Ended is what a release ended.
type Ended struct {
	First bool          // it was no repeat
	Held  time.Duration // since the permit was given
	Slots []DimensionCost
}

// repeatPermit answers an acquire whose id is known: the same again, or an error.
func (c *Core) repeatPermit(now Instant, g *Group, takes []KeyCost) (Outcome, bool) {
	c.forgetPermits(now)
	p, known := c.permits[permitID{g.Tenant, g.Permit}]
	switch {
	case !known && c.permitHeap.Len() >= maxPermits:
		return Outcome{Unavailable: true}, true
	case !known:
		return Outcome{}, false
	case !slices.Equal(p.takes, takes):
		return Outcome{Bad: &quota.FieldError{Field: "id", Allowed: "a repeat of the acquire that the id was used for, or a new id"}}, true
	case p.index == gone:
		return Outcome{Bad: &quota.FieldError{Field: "id", Allowed: "a new id: that work has ended"}}, true
	}
	return p.said, true
}

// keepPermit remembers what a group was allowed, until it is given back.
func (c *Core) keepPermit(now Instant, g *Group, o Outcome) {
	p := &permit{id: permitID{g.Tenant, g.Permit}, takes: g.merged, hold: longestHold, said: o, began: now, told: g.Ended}
	if g.Hold > 0 {
		p.hold = g.Hold
	}
	for i := range g.parts {
		part := &g.parts[i]
		p.holds = append(p.holds, part.holds...)
		if most := part.key.dim().MaxHold; part.key.slots != nil && most > 0 {
			p.hold = min(p.hold, most)
		}
	}
	p.until = now + p.hold
	c.permits[p.id], g.permit = p, p
	heap.Push(&c.permitHeap, p)
}

// Release ends a permit's work. A repeat changes nothing.
func (c *Core) Release(now Instant, tenant, id string) (Ended, error) {
	p, err := c.permit(now, tenant, id)
	if err != nil || p.index == gone {
		return Ended{}, err
	}
	e := Ended{First: true, Held: now - p.began}
	for _, h := range p.holds {
		e.Slots = append(e.Slots, DimensionCost{Dimension: h.key.Dimension(), Cost: h.slots})
	}
	c.endPermit(now, p)
	return e, nil
}

// Withdraw undoes an acquire whose caller left as it was granted: nobody knows of the permit. What
// it took goes back, and its id may be used again. A repeat of it withdraws nothing: the permit
// is that of the first.
func (c *Core) Withdraw(now Instant, g *Group) {
	p := g.permit
	if p == nil || p.index == gone {
		return
	}
	delete(c.permits, p.id)
	c.putDownPermit(now, p)
	for i := range g.parts {
		part := &g.parts[i]
		switch {
		case !part.key.known(): // it stays charged
		case part.lease != nil:
			c.refund(now, part.key, part.lease, part.cost)
		case !part.spent.IsNil():
			c.takeBack(part.spent, part.key)
		}
	}
}

// Held is how long a permit may go on without a sign of life.
func (c *Core) Held(now Instant, tenant, id string) time.Duration {
	if p, ok := c.permits[permitID{tenant, id}]; ok && p.index != gone {
		return p.until - now
	}
	return 0
}

// RenewPermit says that a permit's work goes on. It never shortens what was promised.
func (c *Core) RenewPermit(now Instant, tenant, id string) error {
	p, err := c.permit(now, tenant, id)
	if err != nil {
		return err
	}
	if p.index == gone {
		return &UnknownIDError{quota.FieldError{Field: "id", Allowed: "that of a permit which was not released and has not lapsed"}}
	}
	p.until = now + p.hold
	heap.Fix(&c.permitHeap, p.index)
	return nil
}

func (c *Core) permit(now Instant, tenant, id string) (*permit, error) {
	c.forgetPermits(now)
	p, ok := c.permits[permitID{tenant, id}]
	if !ok {
		return nil, &UnknownIDError{quota.FieldError{Field: "id", Allowed: "that of a permit which this agent gave the tenant"}}
	}
	return p, nil
}

// endPermit gives back a permit's slots.
func (c *Core) endPermit(now Instant, p *permit) {
	if p.index == gone {
		return
	}
	p.ended = now
	c.endedPermits = append(c.endedPermits, p)
	c.putDownPermit(now, p)
}

// putDownPermit ends a permit, whether or not it is remembered.
func (c *Core) putDownPermit(now Instant, p *permit) {
	heap.Remove(&c.permitHeap, p.index)
	holds := p.holds
	p.holds = nil
	putDown(holds)
	for _, h := range holds {
		h.key.denial.Store(nil) // it was decided while these slots were in use
		c.tend(now, h.key)
	}
	if p.told != nil {
		p.told()
	}
}

// lapse ends the permits whose callers gave no sign of life.
func (c *Core) lapse(now Instant) {
	for len(c.permitHeap) > 0 && c.permitHeap[0].until <= now {
		p := c.permitHeap[0]
		for _, h := range p.holds {
			c.lapsed[h.key.Dimension()] += h.slots
		}
		c.endPermit(now, p)
	}
}

// nextLapse is when lapse has something to do.
func (c *Core) nextLapse() Instant {
	if len(c.permitHeap) == 0 {
		return math.MaxInt64
	}
	return c.permitHeap[0].until
}

// forgetPermits lets go of ended permits that are too old or too many. What is over by now ends
// first: after a suspend a caller may be here before the tick, and is told how things stand.
func (c *Core) forgetPermits(now Instant) {
	c.lapse(now)
	n := max(0, len(c.endedPermits)-maxEnded)
	for n < len(c.endedPermits) && now-c.endedPermits[n].ended >= endedFor {
		n++
	}
	for _, p := range c.endedPermits[:n] {
		delete(c.permits, p.id)
	}
	clear(c.endedPermits[:n])
	c.endedPermits = c.endedPermits[n:]
}

// permitHeap orders permits by when they lapse.
type permitHeap []*permit

// Len, Less, Swap, Push and Pop are heap.Interface's.
func (h permitHeap) Len() int           { return len(h) }
func (h permitHeap) Less(i, j int) bool { return h[i].until < h[j].until }
func (h permitHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *permitHeap) Push(x any) {
	p := x.(*permit)
	p.index = len(*h)
	*h = append(*h, p)
}
func (h *permitHeap) Pop() any {
	last := len(*h) - 1
	p := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	p.index = gone
	return p
}
