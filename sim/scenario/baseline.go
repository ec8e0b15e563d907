package scenario

import (
	"fmt"
	"time"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger/quota"
)

// newModel makes the method that a run is to try.
func newModel(r *run, b Baseline) (model, error) {
	switch b.Method {
	case Ours:
		return newLeases(r)
	case StaticSplit, CarryOver:
		keep := 0
		if b.Method == CarryOver {
			keep = b.Keep
		}
		started := int64(0)
		for _, g := range r.Regions {
			started += int64(g.Agents)
		}
		return &split{run: r, each: b.Each, started: started, keep: int64(keep), local: map[seat]*credit{}}, nil
	case CentralCounter:
		return &central{run: r, timeout: b.Timeout}, nil
	}
	return nil, fmt.Errorf("run method %q: there is not valid", b.Method)
}

// split gives every instance a share of its own, by its configuration: no instance knows of
// another. With keep, what an instance did not use is added to its next windows.
type split struct {
	*run
	each    int64
	started int64
	keep    int64
	local   map[seat]*credit
}

// seat is one key at one instance.
type seat struct {
	place int
	key   quota.Key
}

// credit is what an instance has left in a window.
type credit struct {
	window *Window
	left   int64
}

func (m *split) begin(a *agent) {}

// crash loses nothing but the count: a configured share is whole again after a restart.
func (m *split) crash(a *agent) {
	for at := range m.local {
		if at.place == a.place {
			delete(m.local, at)
		}
	}
}

func (m *split) quick(a *agent, s *stream, cost int64) (verdict, bool) {
	acc := s.account
	at := seat{a.place, s.Key}
	c := m.local[at]
	if c == nil {
		c = &credit{}
		m.local[at] = c
	}
	share := m.each
	if share == 0 {
		share = acc.limit / m.started
	}
	if c.window != acc.window {
		carried := int64(0)
		if c.window != nil {
			carried = min(c.left, m.keep*share)
		}
		c.window, c.left = acc.window, share+carried
	}
	if c.left < cost {
		return verdict{reason: quota.Exhausted, retryIn: acc.ends - m.now}, true
	}
	c.left -= cost
	return verdict{allowed: true}, true
}

func (m *split) slow(*call)               {}
func (m *split) stop(a *agent)            { m.crash(a) }
func (m *split) adjusted(Event)           {} // a share is configured: nobody tells the instances
func (m *split) links(*agent)             {}
func (m *split) down(bool)                {}
func (m *split) finish() error            { return nil }
func (m *split) applied(*policy.Document) {}
func (m *split) free(a *account) int64    { return a.limit - a.window.Used }

// central asks one counter about every call, and waits for the answer. Without one it denies:
// to allow what nobody counted would not be a limit.
type central struct {
	*run
	timeout time.Duration
	isDown  bool
}

func (m *central) begin(*agent) {}
func (m *central) crash(*agent) {}
func (m *central) stop(*agent)  {}

func (m *central) quick(*agent, *stream, int64) (verdict, bool) { return verdict{}, false }

func (m *central) slow(c *call) {
	sent := m.now
	m.meter.trip(c.agent)
	lost := func() {
		m.after(sent+m.timeout-m.now, func() { c.answered(verdict{unavailable: true, reason: quota.Unavailable}) })
	}
	m.after(m.latency(c.agent), func() {
		if c.agent.there > 0 || m.isDown {
			lost()
			return
		}
		acc := c.account
		acc.roll()
		v := verdict{reason: quota.Exhausted, retryIn: acc.ends - m.now}
		if acc.window.Used+acc.window.promised+c.cost <= acc.inForce() || acc.limit < 0 {
			v = verdict{allowed: true, spent: m.now}
			acc.window.promised += c.cost
		}
		w := acc.window
		m.after(m.latency(c.agent), func() {
			if c.agent.back > 0 {
				lost()
				return
			}
			if v.allowed {
				w.promised -= c.cost
			}
			c.answered(v)
		})
	})
}

func (m *central) adjusted(Event)           {}
func (m *central) links(*agent)             {}
func (m *central) down(is bool)             { m.isDown = is }
func (m *central) finish() error            { return nil }
func (m *central) applied(*policy.Document) {}
func (m *central) free(a *account) int64    { return a.inForce() - a.window.Used - a.window.promised }
