package world

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"

	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/controlplane"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
	"github.com/quotalease/quotalease/sim/oracle"
)

// place is a machine on which agents run, one after the other.
type place struct {
	world    *World
	index    int
	rng      *rand.Rand // of the network around it
	distance time.Duration
	boot     time.Duration // its boot clock at the beginning
	drift    int64         // of its boot clock, in ppm
	wall     time.Duration // offset of its wall clock
	starts   int
	armed    []Action // trouble that waits for its next message
	deaf     time.Duration
	node     *node // nil while nothing runs
}

// clock is the machine's boot clock. It counts through a suspend.
func (p *place) clock() core.Instant {
	return p.boot + p.world.now + p.world.now/1_000_000*time.Duration(p.drift)
}

// when is the true time at which the boot clock will show at.
func (p *place) when(at core.Instant) time.Duration {
	d := at - p.boot
	return d - d/1_000_000*time.Duration(p.drift) + time.Microsecond
}

// drowsy is how long after a resume a goroutine runs again: which is first, nobody knows.
func (p *place) drowsy() time.Duration { return time.Duration(p.rng.IntN(40_000)) * time.Microsecond }

// node is one agent process: a real core, and the loops of its shell.
type node struct {
	world  *World
	place  *place
	name   string
	holder oracle.Holder
	core   *core.Core
	random *stream
	twin   *node // a copy that runs in step until it is let loose
	asleep bool  // it is such a copy: nothing that it does counts
	copied bool  // it has a copy, or is one: what stood in line for the exact lane both send

	dead     bool
	wakes    time.Duration // suspended until then
	late     time.Duration // of its timers, once
	pumpAt   time.Duration
	syncing  bool
	spending bool
	stopping bool
	first    int // of the replicas: the one to ask first
	serial   int // of calls
	arrived  int // the latest call that a replica saw
	syncs    int

	listens  *replica
	listener *controlplane.Listener
	waiting  []*caller
	several  []*several
	acquires int
	// balance is what leases of a key lack that no caller was told of.
	balance map[quota.Key]int64
	asked   map[askFor]*pb.Ask // in flight
	// displaced are keys of which the ledger refused a window: what was used in it is charged to
	// the window of its receipt.
	displaced map[quota.Key]bool
	news      map[quota.Key]news
	dims      map[string]*core.Dimension // as the catalogue has them or last had them
	approved  map[core.ID]int64          // spends of the reply that is being taken in
}

// start begins a process.
func (p *place) start() {
	p.starts++
	w := p.world
	n := w.newNode(p, agentName(p.index), seeded(w.seed, 4, uint64(p.index), uint64(p.starts)))
	p.node = n
	if w.copies[p.index] { // a copy will be wanted: it grows up in step
		n.twin = w.newNode(p, copyName(p.index), seeded(w.seed, 4, uint64(p.index), uint64(p.starts)))
		n.twin.asleep = true
	}
	w.running = append(w.running, n)
	w.say("%s starts as incarnation %s", n.name, shortID(n.core.Incarnation()))
	w.after(0, n.pump)
	w.after(time.Millisecond, n.hook)
}

func (w *World) newNode(p *place, name string, random *stream) *node {
	w.holders++
	return &node{
		world: w, place: p, name: name, holder: w.holders, random: random, pumpAt: -1,
		asked: map[askFor]*pb.Ask{}, displaced: map[quota.Key]bool{}, balance: map[quota.Key]int64{}, dims: map[string]*core.Dimension{}, news: map[quota.Key]news{},
		core: core.New(core.Config{Name: name, Region: "eu", Random: random,
			Wall: epoch.Add(w.now + p.wall), Start: p.clock()}),
	}
}

// is reports that the process still goes by the incarnation of a message.
func (n *node) is(h *pb.Hello) bool {
	return string(h.GetIncarnation()) == string(n.core.Incarnation().Bytes())
}

func (n *node) clock() core.Instant { return n.place.clock() }

func (n *node) awake() bool { return !n.dead && n.world.now >= n.wakes }

// deliver runs do at the process after d, once it is awake, and lets it act on it.
func (n *node) deliver(d time.Duration, do func()) {
	n.world.after(d, func() {
		switch {
		case n.dead:
		case !n.awake():
			n.deliver(n.wakes-n.world.now+n.place.drowsy(), do)
		default:
			do()
			n.pump()
		}
	})
}

// pump is the shell's loops: time passes for the core, and what is due is sent.
func (n *node) pump() {
	w := n.world
	if n.dead {
		return
	}
	if !n.awake() {
		n.pumpLater(n.wakes + n.place.drowsy())
		return
	}
	now := n.clock()
	for _, name := range dimensions {
		n.dimension(name)
	}
	n.observe() // before anything is reported or dropped
	n.core.Tick(now)
	n.observe()
	if !n.syncing {
		if req := n.core.BuildSync(now); req != nil {
			n.sync(req)
		}
	}
	if !n.spending {
		if req := n.core.BuildSpend(now, time.Second); req != nil {
			n.spend(req)
		}
	}
	if t := n.twin; t != nil { // in step: it says the same, and nobody hears it
		t.core.Tick(now)
		t.core.BuildSync(now)
		t.core.BuildSpend(now, time.Second)
	}
	next := n.core.NextSync()
	if at, ok := n.core.NextTick(); ok {
		next = min(next, at)
	}
	n.pumpLater(max(n.place.when(next), w.now+time.Millisecond))
}

func (n *node) pumpLater(at time.Duration) {
	w := n.world
	at += n.late
	n.late = 0
	if n.pumpAt > w.now && n.pumpAt <= at {
		return
	}
	n.pumpAt = at
	w.after(at-w.now, func() {
		if n.pumpAt == at { // else another one was planned before it
			n.pump()
		}
	})
}

func (n *node) sync(req *pb.SyncRequest) {
	n.syncing = true
	n.syncs++
	n.sent(req)
	n.call(func(cp *controlplane.ControlPlane) (any, error) {
		reply, err := cp.Desk().Sync(context.Background(), req)
		if err != nil {
			return nil, err
		}
		n.world.told(n, req, reply)
		return reply, nil
	}, func(reply any) {
		n.syncing = false
		got, _ := reply.(*pb.SyncReply)
		if got.GetNewIncarnation() {
			clear(n.asked)
		}
		for _, d := range got.GetDecisions() {
			n.settled(d.GetGrantId())
		}
		if n.world.out != nil {
			n.sayUnlessNothing("hears", syncWords(got))
		}
		n.hearsSync(req, got)
		was := n.core.Incarnation()
		n.core.SyncDone(n.clock(), got)
		if n.twin != nil {
			n.twin.core.SyncDone(n.clock(), got)
		}
		if n.core.Incarnation() != was {
			n.world.oracle.Lost(was) // a copy's, or unseen for so long that the ledger forgot it
			n.world.say("%s goes on as incarnation %s", n.name, shortID(n.core.Incarnation()))
			n.loseSeveral()
			n.unhook() // the stream tells of the old one's leases
		}
		n.world.drained(n)
	})
}

// sent tells the oracle what a Sync says.
func (n *node) sent(req *pb.SyncRequest) {
	w := n.world
	if w.out != nil {
		n.sayUnlessNothing("says", requestWords(req))
	}
	m := w.moment()
	for _, r := range req.GetReports() {
		if r.GetUnleased() && n.displaced[keyOf(r.GetKey())] {
			w.oracle.Forgotten(accountOf(r))
		}
		w.oracle.Sent(m, n.holder, oracle.Report{
			ID: uuid.FromBytesOrNil(r.GetGrantId()), Taken: r.GetTaken(), Refunded: r.GetRefunded(),
			Returned: r.GetReturned(), Final: r.GetFinal(), Unleased: r.GetUnleased(), Slots: r.GetSeq() > 0,
		})
	}
	for _, r := range req.GetRenewals() {
		w.oracle.Sent(m, n.holder, oracle.Report{ID: uuid.FromBytesOrNil(r.GetGrantId()), Returned: r.GetReturned(), Slots: true})
	}
	for _, c := range req.GetCancels() {
		n.settled(c.GetGrantId())
	}
	for _, a := range req.GetAsks() {
		if t := w.twins[n.place.index]; t != nil { // what was to be asked when it was copied, both ask
			id := uuid.FromBytesOrNil(a.GetGrantId())
			if by, ok := w.askers[id]; ok && by != n.holder {
				w.oracle.Shared(id)
			}
			w.askers[id] = n.holder
		}
		key := askOf(a)
		if was := n.asked[key]; was != nil && (string(was.GetGrantId()) != string(a.GetGrantId()) || was.GetWant() != a.GetWant() || was.GetNeed() != a.GetNeed()) {
			w.broken(oracle.OneAsk, "%s asked for %d of %s (%s) while an ask for %d (%s) was in flight", n.name,
				a.GetWant(), key.key, shortBytes(a.GetGrantId()), was.GetWant(), shortBytes(was.GetGrantId()))
		}
		n.asked[key] = a
	}
}

// askFor is what an agent may have one ask in flight for.
type askFor struct {
	key    quota.Key
	window int64 // its start; 0: the current one, or the endless one
	extend bool  // an allowance for an outage
}

func askOf(a *pb.Ask) askFor {
	return askFor{key: keyOf(a.GetKey()), window: a.GetWindow().GetStartUs(), extend: a.GetEmergency()}
}

// sayUnlessNothing leaves Syncs that carry nothing out of the history.
func (n *node) sayUnlessNothing(does, what string) {
	if !strings.HasSuffix(what, ": "+nothing) {
		n.world.say("%s %s %s", n.name, does, what)
	}
}

// settled notes that an ask was answered or withdrawn.
func (n *node) settled(id []byte) {
	for key, a := range n.asked {
		if string(a.GetGrantId()) == string(id) {
			delete(n.asked, key)
		}
	}
}

func (n *node) spend(req *pb.SpendRequest) {
	n.spending = true
	sent := n.clock()
	if n.world.out != nil {
		n.world.say("%s says %s", n.name, spendWords(req))
	}
	for _, c := range n.waiting {
		if id := c.waiter.SpendID(); !id.IsNil() {
			c.spend = id
		}
	}
	n.sendsSeveral()
	n.call(func(cp *controlplane.ControlPlane) (any, error) {
		reply, err := cp.Desk().Spend(context.Background(), req)
		if err != nil {
			return nil, err
		}
		n.world.decided(reply.GetDecisions(), n.copied || !n.is(req.GetHello()), nil, req.GetItems())
		n.allOrNone(req, reply)
		for _, r := range req.GetRefunds() {
			if id := uuid.FromBytesOrNil(r.GetGrantId()); n.world.forgotten(id) {
				n.world.oracle.StaysCharged(id)
			}
		}
		for i, d := range reply.GetDecisions() {
			if n.copied {
				continue // the other may have sent it in time, and been answered first
			}
			if void := req.GetItems()[i].GetNotAfterUs(); d.GetAmount() > 0 && d.GetIssuedAtUs() > void {
				n.world.broken(oracle.Fresh, "spend %s of %s was granted %d us after its time", shortBytes(d.GetGrantId()), n.name, d.GetIssuedAtUs()-void)
			}
		}
		return reply, nil
	}, func(reply any) {
		n.spending = false
		got, _ := reply.(*pb.SpendReply)
		n.approved = map[core.ID]int64{}
		for _, d := range got.GetDecisions() {
			if d.GetAmount() > 0 {
				n.approved[uuid.FromBytesOrNil(d.GetGrantId())] = d.GetAmount()
			}
		}
		if n.world.out != nil {
			n.world.say("%s hears %s", n.name, spendReplyWords(got))
		}
		n.hearsSpend(req, got)
		n.core.SpendDone(n.clock(), sent, got)
		n.approved = nil
		if n.twin != nil {
			n.twin.core.SpendDone(n.clock(), sent, got)
		}
		n.world.drained(n)
	})
}

// allOrNone holds the answer to a Spend to that of each group.
func (n *node) allOrNone(req *pb.SpendRequest, reply *pb.SpendReply) {
	for i, d := range reply.GetDecisions() {
		x := req.GetItems()[i]
		if i == 0 || x.GetGroup() == 0 || x.GetGroup() != req.GetItems()[i-1].GetGroup() {
			continue
		}
		if (d.GetAmount() > 0) != (reply.GetDecisions()[i-1].GetAmount() > 0) {
			n.world.broken(oracle.AllOrNone, "of one group of %s %d of %s were decided and %d of %s", n.name, reply.GetDecisions()[i-1].GetAmount(),
				keyOf(req.GetItems()[i-1].GetKey()), d.GetAmount(), keyOf(x.GetKey()))
		}
	}
}
