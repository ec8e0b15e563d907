package ledger_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// TestHistories drives random histories (lost, repeated and reordered messages, crashes,
// copies, cuts and raises) and holds the ledger to section 3 after every step, against a
// model that knows what was really used.
func TestHistories(t *testing.T) {
	t.Parallel()
	for _, class := range []quota.Class{quota.Exact, quota.Hard, quota.Bounded, quota.BestEffort} {
		for _, constant := range []bool{true, false} {
			name := class.String() + " with changing terms"
			if constant {
				name = class.String() + " with constant terms"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				rapid.Check(t, func(rt *rapid.T) {
					limit := rapid.SampledFrom([]ledger.Units{0, 7, 20, 30, 40, 50, 80}).Draw(rt, "limit")
					budget := rapid.SampledFrom([]ledger.Units{0, 4, 10, 15, 20, 30, 60}).Draw(rt, "budget")
					newModel(rt, class, limit, budget, constant).play(rt)
				})
			})
		}
	}
}

func (m *model) play(rt *rapid.T) {
	actions := map[string]func(*rapid.T){
		"":             func(*rapid.T) { m.checkSafety() },
		"ask":          m.doAsk,
		"spend":        m.doSpend,
		"take":         m.doTake,
		"refund":       m.doRefund,
		"return":       m.doReturn,
		"seal":         m.doSeal,
		"report":       m.doReport,
		"deliver":      m.doDeliver,
		"deliver more": m.doDeliver,
		"ask more":     m.doAsk,
		"ask ahead":    m.doAskAhead,
		"spend all":    m.doSpendGroup,
		"spend more":   m.doSpend,
		"take more":    m.doTake,
		"report more":  m.doReport,
		"lose":         m.doLose,
		"withdraw":     m.doWithdraw,
		"undo":         m.doUndoSpend,
		"owe":          m.doOwe,
		"crash":        m.doCrash,
		"copy":         m.doCopy,
		"revoke":       m.doRevoke,
		"expire":       m.doExpire,
		"pass":         func(rt *rapid.T) { m.pass(rapid.SampledFrom(lapses).Draw(rt, "lapse")) },
		"next window":  m.doNextWindow,
		"fold":         m.doFold,
		"lie":          m.doLie,
		"release":      m.doRelease,
		"close":        m.doClose,
	}
	if !m.constant {
		actions["credit"] = m.doCredit
		actions["terms"] = m.doTerms
	}
	rt.Repeat(actions)
	m.settle()
}

func (m *model) anyNode(rt *rapid.T) *node { return pick(rt, "node", m.nodes) }

// pick chooses one of a list, and prints its place rather than its insides.
func pick[T any](rt *rapid.T, what string, list []T) T {
	places := make([]int, len(list))
	for i := range places {
		places[i] = i
	}
	return list[rapid.SampledFrom(places).Draw(rt, what)]
}

// lapses reach just before, at, and after the close of a lease.
var lapses = []time.Duration{0, time.Microsecond, 3 * time.Second, 15 * time.Second, 40*time.Second - time.Microsecond, 40 * time.Second}

// anyBucket is a bucket of any node, or none.
func (m *model) anyBucket(rt *rapid.T) *bucket {
	n := m.anyNode(rt)
	if len(n.buckets) == 0 {
		rt.Skip("no lease")
	}
	return pick(rt, "bucket", n.buckets)
}

func amount(rt *rapid.T, most ledger.Units) ledger.Units {
	if most < 1 {
		rt.Skip("nothing there")
	}
	return min(most, rapid.SampledFrom([]ledger.Units{1, 2, 3, 5, 8, 13, 25}).Draw(rt, "units"))
}

func (m *model) doAsk(rt *rapid.T) {
	n := m.anyNode(rt)
	want := amount(rt, 25)
	m.sendAsk(rt, n, m.newAsk(n.id, want, amount(rt, want)))
}

func (m *model) sendAsk(rt *rapid.T, n *node, ask ledger.Ask) {
	w := &waiting{ask: &ask}
	n.waits = append(n.waits, w)
	m.post(func() { m.deliverAsk(n, w, false) })
	if rapid.Bool().Draw(rt, "at once") {
		m.deliverAsk(n, w, rapid.Bool().Draw(rt, "reply lost"))
	}
}

func (m *model) doSpend(rt *rapid.T) {
	n := m.anyNode(rt)
	spend := m.newSpend(n.id, amount(rt, 12))
	w := &waiting{spend: &spend}
	n.waits = append(n.waits, w)
	m.post(func() { m.deliverSpend(w, false) })
	if rapid.Bool().Draw(rt, "at once") {
		m.deliverSpend(w, rapid.Bool().Draw(rt, "reply lost"))
	}
}

// tolerable is an answer that an ask or a spend may get instead of a decision.
func (m *model) tolerable(err error, id ledger.ID) bool {
	var p *ledger.ProtocolError
	if errors.As(err, &p) && p.Code == ledger.CodeTooOld {
		return m.older(id)
	}
	return errors.Is(err, ledger.ErrWindow)
}

// older reports an id from before the ledger's memory.
func (m *model) older(id ledger.ID) bool {
	oldest := idAt(m.now.Add(-modelWindow/2), 1<<62) // ids have milliseconds
	return bytes.Compare(id[:], oldest[:]) < 0
}

func (m *model) deliverAsk(n *node, w *waiting, lost bool) {
	m.within(w.ask.Account, func() {
		m.expire(0)
		before := m.state()
		ans, err := m.tryAsk(*w.ask)
		if err != nil {
			if !m.tolerable(err, w.ask.ID) {
				m.Fatalf("ask: %v", err)
			}
			return
		}
		m.checkDecision(before, ans, false)
		if lost || w.over {
			return
		}
		hear := func() {
			if w.over {
				return
			}
			w.over = true
			// A lease that the ledger has already ended is dropped, and so reported.
			if g := ans.Grant; g.Amount > 0 {
				n.buckets = append(n.buckets, &bucket{Grant: g})
				if g.State != ledger.Live {
					n.buckets[len(n.buckets)-1].seal()
				}
			}
		}
		m.post(hear) // a slow reply
		if !ans.Repeated {
			hear()
		}
	})
}

func (m *model) deliverSpend(w *waiting, lost bool) {
	m.within(w.spend.Account, func() {
		m.expire(0)
		before := m.state()
		ans, err := m.trySpend(*w.spend)
		if err != nil {
			if !m.tolerable(err, w.spend.ID) {
				m.Fatalf("spend: %v", err)
			}
			return
		}
		m.checkDecision(before, ans, true)
		if lost || w.over {
			return
		}
		w.over = true
		if ans.Approved() {
			w.used = true
			m.truth(w.spend.Account).used += w.spend.Cost
		}
	})
}

func (m *model) doTake(rt *rapid.T) {
	b := m.anyBucket(rt)
	n := amount(rt, b.left())
	b.taken += n
	m.truth(b.Account).used += n
}

func (m *model) doRefund(rt *rapid.T) {
	b := m.anyBucket(rt)
	n := amount(rt, b.taken-b.refunded)
	b.refunded += n
	if b.sealed && rapid.Bool().Draw(rt, "as returned") {
		b.returned = b.Amount - (b.taken - b.refunded)
	}
	m.truth(b.Account).used -= n
}

func (m *model) doReturn(rt *rapid.T) {
	b := m.anyBucket(rt)
	b.returned += amount(rt, b.left())
}

func (m *model) doSeal(rt *rapid.T) { m.anyBucket(rt).seal() }

func (m *model) doReport(rt *rapid.T) {
	r := m.anyBucket(rt).report()
	m.post(func() { m.deliverReport(r) })
	if rapid.Bool().Draw(rt, "at once") {
		m.deliverReport(r)
	}
}

func (m *model) deliverReport(r ledger.Report) {
	m.within(r.Account, func() {
		before, record := m.state(), m.peek(r.ID)
		_, err := m.tryReport(r)
		var p *ledger.ProtocolError
		switch {
		case err == nil:
			m.checkChange(before, max(0, r.Refunded-record.Refunded))
		case errors.As(err, &p) && p.Code == ledger.CodeTooOld && m.older(r.ID):
			m.tooOld = true
		case errors.As(err, &p) && p.Code == ledger.CodeStep && r.Unleased && r.Taken-record.Taken > max(m.truth(r.Account).peak, 1):
			// The agent owes more than a window could hold, and will say so in steps.
		default:
			m.Fatalf("report %+v: %v", r, err)
		}
		if err == nil && r.Unleased {
			m.truth(r.Account).told += max(0, r.Taken-record.Taken)
		}
	})
}

// peek is the record of an id, or a zero one.
func (m *model) peek(id ledger.ID) ledger.Grant {
	for _, g := range m.records() {
		if g.ID == id {
			return g
		}
	}
	return ledger.Grant{}
}

func (m *model) doDeliver(rt *rapid.T) {
	if len(m.network) == 0 {
		rt.Skip("silence")
	}
	pick(rt, "message", m.network)()
}

func (m *model) doLose(rt *rapid.T) {
	if len(m.network) == 0 {
		rt.Skip("silence")
	}
	i := rapid.IntRange(0, len(m.network)-1).Draw(rt, "message")
	m.network = append(m.network[:i:i], m.network[i+1:]...)
}
