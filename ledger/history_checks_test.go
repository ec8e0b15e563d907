package ledger_test

import (
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// checkSafety is 3.3 in both forms, the bound of each class, and conservation.
func (m *model) checkSafety() {
	m.verify()
	for id, tr := range m.truths {
		a := m.stateOf(id)
		tr.peak = max(tr.peak, a.Largest.Units)
		unreported := tr.unleased - tr.told
		if most := a.Settled() + a.Outstanding + a.Held + a.Uncertain + unreported; tr.used > most {
			m.Fatalf("true use %d > S+O+H+U+D = %d: %+v", tr.used, most, a.Tally)
		}
		if most := tr.largest + tr.unleased; tr.used > most {
			m.Fatalf("true use %d > largest Q+U and unleased use = %d+%d", tr.used, tr.largest, tr.unleased)
		}
		if m.constant {
			m.checkBound(a, tr)
		}
	}
}

// checkBound is what each class promises under a constant limit and budget, beyond what an
// operator released.
func (m *model) checkBound(a ledger.Account, tr *truth) {
	over := tr.used - tr.unleased - a.Limit.Units
	switch m.class {
	case quota.Exact, quota.Hard:
		if over > a.Released || a.Uncertain > a.Released {
			m.Fatalf("%s is %d over, with %d given back and %d released", m.class, over, a.Uncertain, a.Released)
		}
	case quota.Bounded:
		if over > a.Budget.Units+a.Released {
			m.Fatalf("bounded is %d over, with a budget of %d and %d released", over, a.Budget.Units, a.Released)
		}
	case quota.BestEffort:
		if a.Held != 0 {
			m.Fatalf("best_effort holds %d", a.Held)
		}
	}
}

// checkChange holds any single act to the rules of S and of the generation.
func (m *model) checkChange(before ledger.Account, refunded ledger.Units) {
	after := m.state()
	if fell := before.Settled() - after.Settled(); fell > refunded {
		m.Fatalf("S fell by %d, refunded were %d", fell, refunded)
	}
	room := func(a ledger.Account) (headroom, exposure ledger.Units) {
		headroom = a.Limit.Units + a.Credit - a.Leased - a.Spent - a.Unleased - a.Outstanding - a.Held
		exposure = a.Budget.Units - a.Outstanding
		if a.Class != quota.Hard {
			exposure -= a.Uncertain
		}
		return headroom, exposure
	}
	h0, e0 := room(before)
	h1, e1 := room(after)
	want := before.Generation
	if h1 > h0 || e1 > e0 {
		want++
	}
	if after.Generation != want {
		m.Fatalf("generation %d -> %d, want %d: headroom %d -> %d, exposure %d -> %d",
			before.Generation, after.Generation, want, h0, h1, e0, e1)
	}
	if after.Clock.Before(before.Clock) || after.Overshoot < before.Overshoot || after.Committed < before.Committed {
		m.Fatalf("clock, overshoot or committed fell: %+v to %+v", before, after)
	}
}

// checkDecision holds an answer to 3.1, 3.2, 3.4 and 3.10. before is the account when all
// that was due had been closed.
func (m *model) checkDecision(before ledger.Account, ans ledger.Answer, spend bool) {
	g, after := ans.Grant, m.state()
	if first, ok := m.first[g.ID]; ok {
		if !ans.Repeated || g.Amount != first.Amount || g.Reason != first.Reason || g.Generation != first.Generation ||
			!g.IssuedAt.Equal(first.IssuedAt) || !g.ExpiresAt.Equal(first.ExpiresAt) {
			m.Fatalf("the answer was %+v and is %+v", first, g)
		}
		if after.Tally != before.Tally {
			m.Fatalf("a repeat moved units: %+v to %+v", before.Tally, after.Tally)
		}
		return
	}
	m.first[g.ID] = g
	if ans.Repeated { // withdrawn before it arrived
		return
	}
	m.checkChange(before, 0)
	if g.Generation != before.Generation {
		m.Fatalf("decided at generation %d, the account had %d", g.Generation, before.Generation)
	}
	moved := after.Uncertain - before.Uncertain
	if g.Amount == 0 {
		if after.Tally != before.Tally {
			m.Fatalf("a denial moved units: %+v to %+v", before.Tally, after.Tally)
		}
		m.checkDenial(before, g)
		return
	}
	m.checkApproval(before, after, g, moved, spend)
	tr := m.truth(g.Account)
	tr.largest = max(tr.largest, after.Limit.Units+after.Credit+after.Uncertain)
}

func (m *model) checkApproval(before, after ledger.Account, g ledger.Grant, moved ledger.Units, spend bool) {
	if want := max(0, g.Amount-before.Headroom()); moved != want {
		m.Fatalf("%d moved to U for %d of headroom %d, want %d", moved, g.Amount, before.Headroom(), want)
	}
	if moved > 0 {
		room := before.Budget.Units - before.Outstanding - before.Uncertain
		if !spend {
			room /= 2
		}
		if before.Class != quota.Bounded || moved > room {
			m.Fatalf("%d moved to U, where %s allows %d", moved, before.Class, room)
		}
	}
	if after.Headroom() < 0 || g.Amount < g.Need || g.Amount > g.Asked {
		m.Fatalf("granted %d (asked %d, need %d): headroom is %d", g.Amount, g.Asked, g.Need, after.Headroom())
	}
	if after.Committed < after.Settled()+after.Outstanding+after.Held {
		m.Fatalf("committed %d after a grant that charges %d", after.Committed, after.Settled()+after.Outstanding+after.Held)
	}
	if spend {
		return
	}
	m.checkLife(g)
	out := after.Outstanding
	if after.Class != quota.Hard {
		out += after.Uncertain
	}
	if out > after.Budget.Units || after.Class == quota.Exact {
		m.Fatalf("%s lets out %d with a budget of %d", after.Class, out, after.Budget.Units)
	}
}

// checkDenial: what fits is not denied, and the reason is the right one.
func (m *model) checkDenial(before ledger.Account, g ledger.Grant) {
	free, limit := before.Headroom(), before.Limit.Units+before.Credit
	if g.Kind == ledger.KindSpend && g.Asked <= free {
		m.Fatalf("a spend of %d is denied (%s) with headroom %d", g.Asked, g.Reason, free)
	}
	tooLarge := g.Need > limit && limit > 0
	if (g.Reason == quota.TooLarge) != tooLarge {
		m.Fatalf("need of %d under a limit of %d: %s", g.Need, limit, g.Reason)
	}
	if g.Reason == quota.Exhausted && before.Settled()+before.Held+g.Need <= limit {
		m.Fatalf("exhausted, though S+H+%d = %d <= Q", g.Need, before.Settled()+before.Held+g.Need)
	}
}

// checkSettled: when everything has been said, S is what was used, to the unit. What crashed
// agents did not say is in H or U; a spend whose agent never heard, or whose refund was lost,
// is in S.
func (m *model) checkSettled() {
	if m.cloned || m.tooOld || m.forgot {
		return
	}
	want := map[ledger.AccountID]ledger.Units{}
	for id, tr := range m.truths {
		want[id] = tr.used
	}
	for _, n := range m.left {
		for _, b := range n.buckets {
			record := m.peek(b.ID)
			want[b.Account] -= (b.taken - b.refunded) - (record.Taken - record.Refunded)
		}
		for id, debt := range n.debts {
			want[id] -= debt.Taken - m.peek(debt.ID).Taken
		}
	}
	for _, n := range append(m.nodes, m.left...) {
		for _, w := range n.waits {
			if w.spend != nil && !w.used {
				record := m.peek(w.spend.ID)
				want[w.spend.Account] += record.Taken - record.Refunded
			}
		}
	}
	for id := range want {
		if got := m.stateOf(id).Settled(); got != want[id] {
			m.Fatalf("S is %d when all is said, want %d", got, want[id])
		}
	}
}
