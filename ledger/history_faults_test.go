package ledger_test

import (
	"time"

	"pgregory.net/rapid"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// doWithdraw cancels what an agent still waits for.
func (m *model) doWithdraw(rt *rapid.T) {
	for _, w := range m.anyNode(rt).waits {
		if !w.over {
			w.over = true
			m.postCancel(rt, w)
			return
		}
	}
	rt.Skip("nobody waits")
}

// doUndoSpend takes back an item of the exact lane whose work was done.
func (m *model) doUndoSpend(rt *rapid.T) {
	for _, w := range m.anyNode(rt).waits {
		if w.used {
			w.used = false
			m.truth(w.spend.Account).used -= w.spend.Cost
			m.postCancel(rt, w)
			return
		}
	}
	rt.Skip("nothing was spent")
}

func (m *model) postCancel(rt *rapid.T, w *waiting) {
	id, by := w.id(), ledger.ID{}
	if w.ask != nil {
		by = w.ask.Agent
	} else {
		by = w.spend.Agent
	}
	deliver := func() {
		m.within(w.account(), func() {
			before, record := m.state(), m.peek(id)
			err := m.cancel(id, by)
			if err != nil && !m.tolerable(err, id) {
				m.Fatalf("cancel: %v", err)
			}
			var refund ledger.Units
			if record.Kind == ledger.KindSpend {
				refund = record.Taken - record.Refunded
			}
			m.checkChange(before, refund)
		})
	}
	m.post(deliver)
	if rapid.Bool().Draw(rt, "at once") {
		deliver()
	}
}

// doOwe uses units without a lease and says so later.
func (m *model) doOwe(rt *rapid.T) {
	n := m.anyNode(rt)
	units := amount(rt, 3)
	debt, ok := n.debts[m.account]
	if !ok {
		debt = &ledger.Report{ID: m.newID(), Account: m.account, Agent: n.id, Unleased: true}
		n.debts[m.account] = debt
	}
	debt.Taken += units
	tr := m.truth(m.account)
	tr.used += units
	tr.unleased += units
	r := *debt
	m.post(func() { m.deliverReport(r) })
}

// doCrash ends a node without a word; its messages are still under way.
func (m *model) doCrash(rt *rapid.T) {
	i := rapid.IntRange(0, len(m.nodes)-1).Draw(rt, "node")
	n := m.nodes[i]
	for _, w := range n.waits {
		w.over = true
	}
	m.left = append(m.left, n)
	m.nodes = append(m.nodes[:i:i], m.nodes[i+1:]...)
	m.join()
}

// doCopy lets a copy of a node spend from the same lease: at most what the lease had left.
func (m *model) doCopy(rt *rapid.T) {
	b := m.anyBucket(rt)
	if b.sealed {
		rt.Skip("sealed")
	}
	units := amount(rt, b.left())
	twin := *b
	twin.taken += units
	tr := m.truth(b.Account)
	tr.used += units
	tr.unleased += units
	m.cloned = true
	r := twin.report()
	m.post(func() { m.deliverReport(r) })
}

func (m *model) doRevoke(rt *rapid.T) {
	b := m.anyBucket(rt)
	m.within(b.Account, func() {
		before := m.state()
		m.must(m.update(ledger.Scope{Grants: []ledger.ID{b.ID}}, func(k *ledger.Book) error {
			_, err := k.Revoke(b.ID, "test")
			return err
		}))
		m.checkChange(before, 0)
		if after := m.state(); after.Outstanding != before.Outstanding {
			m.Fatalf("revoking moved O from %d to %d", before.Outstanding, after.Outstanding)
		}
	})
}

func (m *model) doExpire(*rapid.T) {
	before := m.state()
	m.expire(0)
	m.checkChange(before, 0)
}

func (m *model) doNextWindow(rt *rapid.T) {
	if rapid.SampledFrom([]bool{true, true, true, true, false}).Draw(rt, "luck") {
		rt.Skip("not yet")
	}
	m.pass(m.account.Window.End.Sub(m.now))
}

func (m *model) doFold(*rapid.T) {
	for id := range m.truths {
		m.within(id, func() {
			before := m.state()
			m.forgot = m.fold(modelWindow/2) > 0 || m.forgot
			if m.state() != before {
				m.Fatalf("folding changed the account from %+v to %+v", before, m.state())
			}
		})
	}
}

// doLie sends reports that cannot be true: nothing may change.
func (m *model) doLie(rt *rapid.T) {
	b := m.anyBucket(rt)
	m.within(b.Account, func() {
		if g := m.peek(b.ID); g.ID.IsNil() {
			return // folded
		}
		r := rapid.SampledFrom([]ledger.Report{
			{Taken: -600}, {Taken: 1<<31 - 1}, {Taken: quota.MaxUnits}, {Refunded: -1}, {Returned: -1},
			{Taken: 1, Refunded: 2}, {Taken: b.taken, Refunded: b.refunded, Returned: b.Amount + 1},
		}).Draw(rt, "lie")
		r.ID, r.Account, r.Agent = b.ID, b.Account, b.Agent
		before, record := m.state(), m.peek(b.ID)
		if _, err := m.tryReport(r); err == nil {
			m.Fatalf("%+v is accepted", r)
		}
		if m.state() != before || m.peek(b.ID) != record {
			m.Fatalf("a refused report changed something")
		}
	})
}

func (m *model) doTerms(rt *rapid.T) {
	before := m.state()
	m.apply(func(t *ledger.Terms) {
		t.Limit = quota.LimitOf(rapid.SampledFrom([]ledger.Units{0, 10, 25, 50, 90}).Draw(rt, "limit"))
		t.Budget = quota.LimitOf(rapid.SampledFrom([]ledger.Units{0, 5, 20, 40}).Draw(rt, "budget"))
		if rapid.IntRange(0, 4).Draw(rt, "new class") == 0 {
			t.Class = rapid.SampledFrom([]quota.Class{quota.Exact, quota.Hard, quota.Bounded, quota.BestEffort}).Draw(rt, "class")
		}
	})
	m.openAll()
	if after := m.state(); after.Settled() != before.Settled() || after.Bound() != before.Bound() {
		m.Fatalf("new terms moved units: %+v to %+v", before.Tally, after.Tally)
	}
}

// settle ends a history: everything is said, and everything due is closed.
func (m *model) settle() {
	m.pass(time.Minute)
	for _, n := range m.nodes {
		for _, b := range n.buckets {
			b.seal()
			m.deliverReport(b.report())
		}
		for _, debt := range n.debts {
			for step := ledger.Units(1); step <= debt.Taken; step++ {
				r := *debt
				r.Taken = step
				m.deliverReport(r)
			}
		}
	}
	for id := range m.truths {
		m.within(id, func() { m.expire(0) })
	}
	m.checkSafety()
	m.checkSettled()
}
