package ledger_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// TestSlotHistories drives random histories of slots (renewals and reports lost, repeated and
// reordered, crashes, withdrawals, cuts) against a model that knows which work is running.
func TestSlotHistories(t *testing.T) {
	t.Parallel()
	for _, class := range []quota.Class{quota.Exact, quota.Hard, quota.Bounded, quota.BestEffort} {
		for _, constant := range []bool{true, false} {
			name := class.String() + " with cuts"
			if constant {
				name = class.String() + " with constant terms"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				rapid.Check(t, func(rt *rapid.T) {
					limit := rapid.SampledFrom([]ledger.Units{0, 1, 5, 12, 20}).Draw(rt, "limit")
					budget := rapid.SampledFrom([]ledger.Units{0, 2, 5, 20}).Draw(rt, "budget")
					m := &slotModel{desk: openSlots(rt, class, limit, budget), constant: constant}
					m.terms.MaxHold = 2 * time.Minute
					m.apply(func(*ledger.Terms) {})
					m.play(rt)
				})
			})
		}
	}
}

// slotLease is a lease of slots as an honest agent holds it.
type slotLease struct {
	ledger.Grant
	stop     time.Time // no work begins from then on
	seq      int64
	flying   int64       // the renewal whose answer is awaited; 0: none
	sent     time.Time   // when that was first sent
	jobs     []time.Time // work that runs, by the latest time at which it ends
	returned ledger.Units
	sealed   bool // no work begins any more
}

func (l *slotLease) running() ledger.Units { return ledger.Units(len(l.jobs)) }

// tend gives back what idles once no work may begin.
func (l *slotLease) tend(now time.Time) {
	l.sealed = l.sealed || !now.Before(l.stop)
	if l.sealed {
		l.returned = l.Amount - l.running()
	}
}

func (l *slotLease) idle(now time.Time) ledger.Units {
	l.tend(now)
	return l.Amount - l.returned - l.running()
}

type slotNode struct {
	id     ledger.ID
	leases []*slotLease
	dead   bool
}

// slotModel is a world of agents that run jobs.
type slotModel struct {
	*desk
	constant bool
	nodes    []*slotNode // dead ones too: their jobs go on
	network  []func()
	born     uint64
	stale    bool // a message was so slow that what it told of had ended: it is charged as if it ran
}

func (m *slotModel) play(rt *rapid.T) {
	for range 3 {
		m.join()
	}
	actions := map[string]func(*rapid.T){
		"":           func(*rapid.T) { m.check() },
		"ask":        m.doAsk,
		"ask more":   m.doAsk,
		"begin":      m.doBegin,
		"begin more": m.doBegin,
		"end":        m.doEnd,
		"give back":  m.doGiveBack,
		"renew":      m.doRenew,
		"renew more": m.doRenew,
		"report":     m.doReport,
		"deliver":    m.doDeliver,
		"crash":      m.doCrash,
		"sweep":      func(*rapid.T) { m.expire(0) },
		"pass":       m.doPass,
		"pass more":  m.doPass,
	}
	if !m.constant {
		actions["cut"] = m.doLimit
	}
	rt.Repeat(actions)
	m.settle()
}

func (m *slotModel) join() {
	m.born++
	m.nodes = append(m.nodes, &slotNode{id: agent(m.born)})
}

func (m *slotModel) alive(rt *rapid.T) *slotNode {
	return pick(rt, "node", slices.DeleteFunc(slices.Clone(m.nodes), func(n *slotNode) bool { return n.dead }))
}

func (m *slotModel) anyLease(rt *rapid.T) *slotLease {
	n := m.alive(rt)
	if len(n.leases) == 0 {
		rt.Skip("no lease")
	}
	return pick(rt, "lease", n.leases)
}

// send delivers a message now, later, never, or more than once.
func (m *slotModel) send(rt *rapid.T, deliver func()) {
	m.network = append(m.network, deliver)
	if rapid.Bool().Draw(rt, "at once") {
		deliver()
	}
}

func (m *slotModel) doDeliver(rt *rapid.T) {
	if len(m.network) == 0 {
		rt.Skip("silence")
	}
	pick(rt, "message", m.network)()
}

func (m *slotModel) doAsk(rt *rapid.T) {
	n := m.alive(rt)
	want := rapid.SampledFrom([]ledger.Units{1, 2, 3, 6}).Draw(rt, "want")
	ask, sent := m.newAsk(n.id, want, min(want, rapid.SampledFrom([]ledger.Units{1, 2, 6}).Draw(rt, "need"))), m.now
	over := false // heard, or withdrawn
	withdraw := func() { m.must(m.cancel(ask.ID, ask.Agent)) }
	m.send(rt, func() {
		before := m.state()
		ans, err := m.tryAsk(ask)
		m.must(err)
		m.checkGrant(before, ans)
		lost := rapid.SampledFrom([]bool{false, false, true}).Draw(rt, "reply lost")
		switch g := ans.Grant; {
		case lost && !over && rapid.Bool().Draw(rt, "given up"):
			over = true
			m.network = append(m.network, withdraw)
			withdraw()
		case !lost && !over && !n.dead:
			over = true
			if g.Amount > 0 {
				l := &slotLease{Grant: g, stop: sent.Add(g.TTL), sealed: g.State != ledger.Live || !g.RevokedAt.IsZero()}
				n.leases = append(n.leases, l)
				for range g.Need { // callers wait for those
					m.begin(l)
				}
			}
		}
	})
}

// begin starts a job if a slot is idle. It takes at most as long as the longest run may.
func (m *slotModel) begin(l *slotLease) bool {
	if l.idle(m.now) < 1 {
		return false
	}
	l.jobs = append(l.jobs, m.now.Add(m.terms.MaxHold))
	return true
}

func (m *slotModel) doBegin(rt *rapid.T) {
	if !m.begin(m.anyLease(rt)) {
		rt.Skip("no slot")
	}
}

func (m *slotModel) doEnd(rt *rapid.T) {
	l := m.anyLease(rt)
	if len(l.jobs) == 0 {
		rt.Skip("no job")
	}
	i := rapid.IntRange(0, len(l.jobs)-1).Draw(rt, "job")
	l.jobs = slices.Delete(l.jobs, i, i+1)
}

func (m *slotModel) doGiveBack(rt *rapid.T) {
	l := m.anyLease(rt)
	if l.idle(m.now) < 1 {
		rt.Skip("no slot")
	}
	l.returned++
}

func (m *slotModel) doRenew(rt *rapid.T) {
	l := m.anyLease(rt)
	l.tend(m.now)
	l.seq++
	l.flying, l.sent = l.seq, m.now
	r := renewalOf(l.Grant, l.seq, l.running(), l.returned)
	m.send(rt, func() {
		m.arrives(r.ID, r.InUse)
		ans, err := m.tryRenew(r)
		m.must(err)
		g := ans.Grant
		m.send(rt, func() { // the answer, which may be slow, or come twice
			if l.flying != r.Seq {
				return
			}
			l.flying = 0
			switch {
			case g.State != ledger.Live:
				l.sealed = true
			case g.Seq == r.Seq:
				l.sealed = l.sealed || !g.RevokedAt.IsZero()
				l.stop = later(l.stop, l.sent.Add(g.TTL))
			}
			l.tend(m.now)
		})
	})
}

func later(x, y time.Time) time.Time {
	if y.After(x) {
		return y
	}
	return x
}

func (m *slotModel) reportOf(l *slotLease) ledger.Report {
	l.tend(m.now)
	l.seq++
	return slotReport(l.Grant, l.seq, l.running(), l.returned)
}

func (m *slotModel) doReport(rt *rapid.T) {
	r := m.reportOf(m.anyLease(rt))
	m.send(rt, func() { m.deliverReport(r) })
}

// arrives notes a message on use that the ledger has ended.
func (m *slotModel) arrives(id ledger.ID, inUse ledger.Units) {
	g := m.grant(id)
	m.stale = m.stale || inUse > 0 && !g.EndsAt.After(m.now)
}

func (m *slotModel) deliverReport(r ledger.Report) {
	m.arrives(r.ID, r.InUse)
	if _, err := m.tryReport(r); err != nil {
		m.Fatalf("report %+v: %v", r, err)
	}
}

// doCrash ends an agent without a word. Its jobs go on.
func (m *slotModel) doCrash(rt *rapid.T) {
	m.alive(rt).dead = true
	m.join()
}

func (m *slotModel) doPass(rt *rapid.T) {
	m.pass(rapid.SampledFrom([]time.Duration{
		time.Microsecond, 7 * time.Second, 29 * time.Second, 30 * time.Second, 40 * time.Second, 100 * time.Second,
	}).Draw(rt, "lapse"))
}

// pass lets time go by, and with it what runs for as long as it may.
func (m *slotModel) pass(by time.Duration) {
	m.now = m.now.Add(by)
	for _, n := range m.nodes {
		for _, l := range n.leases {
			l.jobs = slices.DeleteFunc(l.jobs, func(ends time.Time) bool { return !ends.After(m.now) })
		}
	}
}

func (m *slotModel) doLimit(rt *rapid.T) {
	m.apply(func(t *ledger.Terms) {
		t.Limit = quota.LimitOf(rapid.SampledFrom([]ledger.Units{0, 3, 8, 20}).Draw(rt, "limit"))
	})
	if rapid.Bool().Draw(rt, "recalled") {
		m.must(m.update(ledger.Scope{Live: true}, func(b *ledger.Book) error {
			_, err := b.Recall(m.account, "cut")
			return err
		}))
	}
}

// used is how many jobs run at this moment.
func (m *slotModel) used() (n ledger.Units) {
	for _, node := range m.nodes {
		for _, l := range node.leases {
			n += l.running()
		}
	}
	return n
}

// check is 3.3 and 3.9: what runs is accounted for, and within what the class allows.
func (m *slotModel) check() {
	m.verify()
	a, used := m.state(), m.used()
	if most := a.Settled() + a.Outstanding + a.Held + a.Uncertain; used > most {
		m.Fatalf("%d jobs run, the ledger accounts for %d: %+v", used, most, a.Tally)
	}
	if a.Unleased != 0 {
		m.Fatalf("%d used without a lease, of honest agents", a.Unleased)
	}
	if !m.constant {
		return
	}
	over := used - a.Limit.Units
	switch a.Class {
	case quota.Exact, quota.Hard:
		if over > 0 || a.Uncertain != 0 || !m.stale && (a.Overshoot != 0 || a.Headroom() < 0) {
			m.Fatalf("%s has %d jobs of %d running: %+v", a.Class, used, a.Limit.Units, a)
		}
	case quota.Bounded:
		if over > a.Budget.Units || a.Uncertain > a.Budget.Units {
			m.Fatalf("bounded has %d jobs of %d running, with a budget of %d", used, a.Limit.Units, a.Budget.Units)
		}
	case quota.BestEffort:
		if a.Held != 0 {
			m.Fatalf("best_effort holds %d", a.Held)
		}
	}
}

// checkGrant holds a decision to headroom, need and the exposure of idle slots.
func (m *slotModel) checkGrant(before ledger.Account, ans ledger.Answer) {
	g, a := ans.Grant, m.state()
	if ans.Repeated || g.Reason == quota.Cancelled {
		return
	}
	idle := g.Amount - g.Need
	switch {
	case g.Amount == 0 && g.Need <= a.Headroom():
		m.Fatalf("%d denied (%s) with headroom %d", g.Need, g.Reason, a.Headroom())
	case g.Amount == 0:
		return
	case a.Headroom() < 0 || idle < 0 || g.Amount > g.Asked:
		m.Fatalf("granted %d of %d, %d needed: headroom is %d", g.Amount, g.Asked, g.Need, a.Headroom())
	case idle > 0 && (a.Exposure() < 0 || a.Class == quota.Exact):
		m.Fatalf("%s lets out %d idle: exposure is %d", a.Class, idle, a.Exposure())
	}
	if a.Generation < before.Generation || a.Clock.Before(before.Clock) {
		m.Fatalf("generation or clock fell: %+v to %+v", before, a)
	}
}

// settle ends a history: every job ends, the living say so, and time ends the rest.
func (m *slotModel) settle() {
	m.check()
	for _, n := range m.nodes {
		for _, l := range n.leases {
			l.jobs, l.sealed = nil, true
			if n.dead {
				continue
			}
			for _, late := range m.network {
				late()
			}
			r := m.reportOf(l)
			if got := m.delivered(r); got.State != ledger.Final {
				m.Fatalf("all is said of %+v", got)
			}
		}
	}
	m.check()
	m.expire(40*time.Second + 2*m.terms.MaxHold)
	a := m.state()
	if a.Settled() != 0 || a.Outstanding != 0 || a.Held != 0 || a.Uncertain != 0 || a.Headroom() != a.Limit.Units {
		m.Fatalf("when all has ended the account has %+v", a)
	}
	m.verify()
}

func (m *slotModel) delivered(r ledger.Report) ledger.Grant {
	g, err := m.tryReport(r)
	var p *ledger.ProtocolError
	if errors.As(err, &p) {
		m.Fatalf("report %+v: %v", r, err)
	}
	m.must(err)
	return g
}
