package scenario

import (
	"time"

	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/ledger/quota"
)

// verdict is what a caller is told.
type verdict struct {
	allowed     bool
	unavailable bool // an outage, no denial
	reason      quota.Reason
	retryIn     time.Duration // 0: nothing was said
	spent       time.Duration // when it was counted, if that was before the answer came; 0: then
}

// call is one call that was not answered at once, or is tried again.
type call struct {
	*stream
	agent  *agent
	cost   int64
	which  int // of the demand's costs
	began  time.Duration
	tries  int
	serial int // grows when the struct is used for another call
	waiter *core.Waiter
}

// first is a call that arrives. Most are answered at once and leave nothing behind.
func (s *stream) first(a *agent, cost int64, which int) {
	s.run.meter.arrived(s, a, cost)
	s.run.meter.requested(s, a)
	v, ok := s.model.quick(a, s, cost)
	if ok && (v.allowed || s.Clients.Denied == GiveUp) {
		s.run.meter.answered(s, a, cost, which, 0, v)
		s.run.meter.ended(s, a, cost, which, v)
		return
	}
	c := s.newCall()
	c.agent, c.cost, c.which, c.began, c.tries = a, cost, which, s.now, 1
	if ok {
		c.answered(v)
		return
	}
	s.model.slow(c)
}

// answered is the one answer to a try.
func (c *call) answered(v verdict) {
	r := c.run
	r.meter.answered(c.stream, c.agent, c.cost, c.which, r.now-c.began, v)
	again := time.Duration(-1)
	if !v.allowed && c.tries < c.Clients.Tries {
		switch c.Clients.Denied {
		case Wait:
			if v.retryIn > 0 && r.now+v.retryIn < r.Duration {
				again = v.retryIn
			}
		case Retry:
			again = c.Clients.After
		}
	}
	if again < 0 {
		r.meter.ended(c.stream, c.agent, c.cost, c.which, v)
		c.free()
		return
	}
	c.serial++ // nothing that was planned for this try concerns the next one
	r.after(max(again, time.Microsecond), c.try)
}

// try sends a call that was denied once more.
func (c *call) try() {
	c.tries++
	if !c.agent.up {
		if len(c.up) == 0 {
			c.answered(verdict{unavailable: true, reason: quota.Unavailable})
			return
		}
		c.agent = c.up[c.agent.place%len(c.up)]
	}
	c.run.meter.requested(c.stream, c.agent)
	if v, ok := c.model.quick(c.agent, c.stream, c.cost); ok {
		c.answered(v)
		return
	}
	c.model.slow(c)
}

func (s *stream) newCall() *call {
	if n := len(s.spare); n > 0 {
		c := s.spare[n-1]
		s.spare = s.spare[:n-1]
		c.stream = s
		return c
	}
	return &call{stream: s}
}

func (c *call) free() {
	c.serial++
	c.waiter = nil
	c.spare = append(c.spare, c)
}
