package scenario

import (
	"errors"
	"time"

	"github.com/gofrs/uuid/v5"

	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/controlplane"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
	"github.com/quotalease/quotalease/sim/clockwork"
)

// How the agent's shell is set up.
const (
	callTimeout   = 2 * time.Second
	spendPatience = time.Second // of a caller in the exact lane
	watchAgain    = 100 * time.Millisecond
	watchMost     = 5 * time.Second
)

var errDown = errors.New("the control plane is down")

// node is one agent process: a real core, and what its shell's loops do.
type node struct {
	*leases
	agent *agent
	core  *core.Core
	found []*core.Key // by demand, as long as the core cannot have forgotten one

	dead     bool
	leaving  bool // it reports and returns everything, and ends then
	pumpAt   time.Duration
	syncing  bool
	spending bool
	listener *controlplane.Listener
	hookWait time.Duration
	heardAt  time.Duration             // when the latest notice arrives: a stream keeps its order
	spent    map[core.ID]time.Duration // of the reply that is being taken in: when the ledger recorded it
}

func newNode(m *leases, a *agent, start uint64) *node {
	n := &node{leases: m, agent: a, found: make([]*core.Key, len(m.Demand)), pumpAt: -1, hookWait: watchAgain}
	n.core = core.New(core.Config{Name: m.Regions[a.region].Name, Region: m.Regions[a.region].Name,
		Random: clockwork.NewStream(m.Seed, 2, uint64(a.place), start), Wall: m.clock(), Start: n.clock()})
	m.after(0, n.pump)
	m.after(time.Millisecond, n.hook)
	return n
}

// clock is the machine's: every one was started at another time.
func (n *node) clock() core.Instant { return n.now + n.boot() }

func (n *node) boot() time.Duration { return time.Hour + time.Duration(n.agent.place)*time.Second }

func (n *node) end() {
	n.dead = true
	n.unhook()
}

// pump is the shell's loops: time passes for the core, and what is due is sent. It follows
// everything that changes the core.
func (n *node) pump() {
	if n.dead {
		return
	}
	now := n.clock()
	n.core.Tick(now)
	if !n.syncing {
		if req := n.core.BuildSync(now); req != nil {
			n.syncing = true
			n.resize(req)
			n.send(&message{Call: controlplane.Call{Sync: req}}, n.synced)
		}
	}
	if !n.spending {
		if req := n.core.BuildSpend(now, spendPatience); req != nil {
			n.spending = true
			n.send(&message{Call: controlplane.Call{Spend: req}}, func(x *message) { n.spendDone(now, x) })
		}
	}
	next := n.core.NextSync()
	if at, ok := n.core.NextTick(); ok {
		next = min(next, at)
	}
	clear(n.found)
	if n.leaving && !n.syncing && !n.spending && !n.core.Owes() {
		n.end()
		return
	}
	n.pumpLater(max(next-n.boot(), n.now+100*time.Microsecond))
}

// resize asks for leases of the scenario's size, whatever the core would like: to see what its own
// choice is worth. Repeats are resized alike.
func (n *node) resize(req *pb.SyncRequest) {
	if n.LeaseSize == 0 {
		return
	}
	for _, ask := range req.GetAsks() {
		if !ask.GetEmergency() {
			ask.Want = max(n.LeaseSize, ask.GetNeed())
			ask.Waiting = min(ask.GetWaiting(), ask.GetWant())
		}
	}
}

func (n *node) pumpLater(at time.Duration) {
	if n.pumpAt > n.now && n.pumpAt <= at {
		return
	}
	n.pumpAt = at
	n.after(at-n.now, func() {
		if n.pumpAt == at { // else another one was planned before it
			n.pump()
		}
	})
}

func (n *node) synced(x *message) {
	n.syncing = false
	was := n.core.Incarnation()
	n.core.SyncDone(n.clock(), x.SyncReply)
	if n.core.Incarnation() != was {
		n.unhook()
	}
}

func (n *node) spendDone(sent core.Instant, x *message) {
	n.spending = false
	n.spent = map[core.ID]time.Duration{}
	for _, d := range x.SpendReply.GetDecisions() {
		n.spent[uuid.FromBytesOrNil(d.GetGrantId())] = time.UnixMicro(d.GetIssuedAtUs()).Sub(n.Start)
	}
	n.core.SpendDone(n.clock(), sent, x.SpendReply)
	n.spent = nil
}

// send carries a message to the replica and its answer back, or lets its time run out.
func (n *node) send(x *message, done func(*message)) {
	n.meter.trip(n.agent)
	sent := n.now
	finish := func() {
		if !n.dead {
			done(x)
			n.pump()
		}
	}
	lost := func() {
		x.SyncReply, x.SpendReply = nil, nil
		n.after(max(0, sent+callTimeout-n.now), finish)
	}
	back := func(way time.Duration) {
		switch {
		case n.agent.back > 0, n.now+way > sent+callTimeout:
			lost()
		default:
			if x.Err != nil {
				x.SyncReply, x.SpendReply = nil, nil
			}
			n.after(way, finish)
		}
	}
	x.answer = func(*message) { back(n.latency(n.agent)) }
	n.after(n.latency(n.agent), func() {
		switch {
		case n.agent.there > 0:
			lost()
		case n.isDown: // nothing listens: the connection is refused
			x.Err = errDown
			back(n.latency(n.agent))
		default:
			n.arrive(x)
		}
	})
}

// quick is the agent's fast way: a lease in hand, or a denial that is remembered.
func (m *leases) quick(a *agent, s *stream, cost int64) (verdict, bool) {
	n := m.nodes[a.place]
	if n == nil {
		return verdict{unavailable: true}, true
	}
	if s.Hold > 0 {
		return verdict{}, false // slots are asked for, never just taken
	}
	k := n.found[s.index]
	if k == nil {
		if k = n.core.Table.Find(s.Key); k == nil {
			return verdict{}, false
		}
		n.found[s.index] = k
	}
	now := n.clock()
	t := k.Take(now, cost)
	if !t.Allowed && !t.Denied {
		return verdict{}, false
	}
	if t.Low {
		n.core.Low(now, k)
		n.pump()
	}
	return verdict{allowed: t.Allowed, reason: t.Reason, retryIn: t.RetryIn}, true
}

// slow is a caller who waits for the core's answer, as long as the shell lets it.
func (m *leases) slow(c *call) {
	n := m.nodes[c.agent.place]
	if c.Hold > 0 {
		n.start(c)
		return
	}
	w := &core.Waiter{Key: c.Key, Cost: c.cost}
	c.waiter = w
	serial := c.serial
	over := false
	w.Done = func(o core.Outcome) {
		over = true
		v := outcome(o)
		if at, ok := n.spent[w.SpendID()]; ok {
			v.spent = at
		}
		c.answered(v)
	}
	n.core.Want(n.clock(), w)
	if !over {
		patience := spendPatience
		if dim, ok := n.core.Dimension(c.Key.Dimension); ok && !w.Exact() {
			patience = dim.ColdWait
		}
		m.after(patience, func() { n.tire(c, w, serial, patience) })
	}
	n.pump()
}

// tire is the end of a caller's patience. One that was sent on to the exact lane has more.
func (n *node) tire(c *call, w *core.Waiter, serial int, patience time.Duration) {
	if c.serial != serial || c.waiter != w {
		return
	}
	if w.Exact() && patience < spendPatience {
		n.after(spendPatience-patience, func() { n.tire(c, w, serial, spendPatience) })
		return
	}
	if n.dead {
		c.answered(verdict{unavailable: true})
		return
	}
	if o, mine := n.core.GiveUp(n.clock(), w); mine {
		c.answered(outcome(o))
		n.pump()
	}
}

func outcome(o core.Outcome) verdict {
	return verdict{allowed: o.Allowed, unavailable: o.Unavailable || o.Bad != nil, reason: reason(o), retryIn: o.RetryIn}
}

func reason(o core.Outcome) quota.Reason {
	if o.Unavailable {
		return quota.Unavailable
	}
	return o.Reason
}

// hook begins to listen for notices, and tries again until it can.
func (n *node) hook() {
	if n.dead || n.leaving || n.listener != nil {
		return
	}
	if !n.isDown && n.agent.there == 0 && n.agent.back == 0 && n.agent.unheard == 0 {
		l, err := n.cp.Listen(n.core.Incarnation().Bytes())
		n.note("listen", err)
		n.listener, n.hookWait = l, watchAgain
		n.hear()
		return
	}
	n.after(n.core.Jitter(n.hookWait), n.hook)
	n.hookWait = min(2*n.hookWait, watchMost)
}

// unhook loses the stream of notices.
func (n *node) unhook() {
	if n.listener == nil {
		return
	}
	n.listener.Close()
	n.listener = nil
	if !n.dead {
		n.after(n.core.Jitter(watchAgain), n.hook)
	}
}

// hear takes what the stream brings.
func (n *node) hear() {
	for {
		notices := n.listener.Notices()
		if len(notices) == 0 {
			return
		}
		n.heardAt = max(n.heardAt, n.now+n.latency(n.agent))
		n.after(n.heardAt-n.now, func() { n.noticed(notices) })
	}
}

func (n *node) noticed(notices []*pb.Notice) {
	if n.dead || n.agent.back > 0 || n.agent.unheard > 0 {
		return
	}
	for _, x := range notices {
		n.core.Notice(n.clock(), x)
	}
	n.pump()
}
