package ledger_test

import (
	"context"
	"errors"

	"pgregory.net/rapid"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// openAt brings an account to the terms in force.
func (m *model) openAt(id ledger.AccountID) {
	m.within(id, func() {
		m.must(m.update(ledger.Scope{}, func(b *ledger.Book) error {
			_, err := b.Open(id, m.terms)
			return err
		}))
	})
}

// openAll brings every account whose window is not over to the terms in force.
func (m *model) openAll() {
	for id := range m.truths {
		if m.now.Before(id.Window.End) {
			m.openAt(id)
		}
	}
}

// doAskAhead asks for the window that is about to begin.
func (m *model) doAskAhead(rt *rapid.T) {
	end := m.account.Window.End
	if left := end.Sub(m.now); left > m.terms.TTL/2 {
		if rapid.SampledFrom([]bool{true, true, true, false}).Draw(rt, "luck") {
			rt.Skip("not yet")
		}
		m.pass(left - m.terms.TTL/2)
	}
	n := m.anyNode(rt)
	next := ledger.AccountID{Key: m.account.Key, Window: quota.NewWindow(end, end.Add(modelWindow))}
	m.truth(next)
	m.openAt(next)
	want := amount(rt, 25)
	ask := m.newAsk(n.id, want, amount(rt, want))
	ask.Account = next
	m.sendAsk(rt, n, ask)
}

// checkLife: a lease is never live in two windows, nor for longer than a ttl.
func (m *model) checkLife(g ledger.Grant) {
	w := g.Account.Window
	if g.StartsAt.IsZero() != w.Contains(g.IssuedAt) || !g.StartsAt.IsZero() && !g.StartsAt.Equal(w.Start) ||
		g.IssuedAt.Before(w.Start.Add(-m.terms.TTL/2)) || g.ExpiresAt.After(w.End) || g.ExpiresAt.Sub(g.IssuedAt) > m.terms.TTL {
		m.Fatalf("a lease of %s issued at %s starts at %s and expires at %s", w, g.IssuedAt, g.StartsAt, g.ExpiresAt)
	}
}

// doSpendGroup spends on two keys, on one of them perhaps twice, all or none.
func (m *model) doSpendGroup(rt *rapid.T) {
	n := m.anyNode(rt)
	other := m.account
	other.Key.Dimension = "other"
	accounts := []ledger.AccountID{m.account, other, m.account}[:rapid.IntRange(2, 3).Draw(rt, "items")]
	group := make([]*waiting, len(accounts))
	for i, id := range accounts {
		spend := m.newSpend(n.id, amount(rt, 12))
		spend.Account = id
		group[i] = &waiting{spend: &spend}
	}
	n.waits = append(n.waits, group...)
	m.post(func() { m.deliverGroup(group, false) })
	if rapid.Bool().Draw(rt, "at once") {
		m.deliverGroup(group, rapid.Bool().Draw(rt, "reply lost"))
	}
}

func (m *model) deliverGroup(group []*waiting, lost bool) {
	before := map[ledger.AccountID]ledger.Account{}
	var scope ledger.Scope
	var items []ledger.Spend
	var terms []ledger.Terms
	for _, w := range group {
		id := w.spend.Account
		scope.Accounts, scope.Grants = append(scope.Accounts, id), append(scope.Grants, w.spend.ID)
		items, terms = append(items, *w.spend), append(terms, m.terms)
		m.truth(id)
		m.openAt(id)
		m.within(id, func() { m.expire(0) })
		before[id] = m.stateOf(id)
	}
	var answers []ledger.Answer
	err := m.store.Update(context.Background(), scope, func(b *ledger.Book) (err error) {
		answers, err = b.SpendAll(items, terms)
		return err
	})
	if err != nil {
		m.wantNothingOf(before, err, items)
		return
	}
	m.checkGroup(before, answers)
	for i, w := range group {
		if ans := answers[i]; !lost && !w.over {
			w.over = true
			if ans.Approved() {
				w.used = true
				m.truth(w.spend.Account).used += w.spend.Cost
			}
		}
	}
}

// wantNothingOf holds an error to one that a group may get, and to having changed nothing.
func (m *model) wantNothingOf(before map[ledger.AccountID]ledger.Account, err error, items []ledger.Spend) {
	var p *ledger.ProtocolError
	old := false
	for _, s := range items {
		old = old || m.older(s.ID)
	}
	// Of a group that is older than the ledger's memory, a part may be forgotten.
	forgotten := errors.As(err, &p) && (p.Code == ledger.CodeTooOld || p.Code == ledger.CodeTerms) && old
	if !errors.Is(err, ledger.ErrWindow) && !forgotten {
		m.Fatalf("group: %v", err)
	}
	for id, a := range before {
		if m.stateOf(id) != a {
			m.Fatalf("a refused group changed %+v to %+v", a, m.stateOf(id))
		}
	}
}

// checkGroup: all or none, and once.
func (m *model) checkGroup(before map[ledger.AccountID]ledger.Account, answers []ledger.Answer) {
	approved, failed := 0, 0
	spent := map[ledger.AccountID]ledger.Units{}
	for _, ans := range answers {
		g := ans.Grant
		if first, ok := m.first[g.ID]; ok && (!ans.Repeated || g.Amount != first.Amount || g.Reason != first.Reason) {
			m.Fatalf("the answer was %+v and is %+v", first, g)
		}
		m.first[g.ID] = g
		if !ans.Repeated {
			spent[g.Account] += g.Amount
		}
		if ans.Approved() {
			approved++
		} else if g.Reason != quota.Cancelled || g.State == ledger.Withdrawn {
			failed++
		}
	}
	if approved != 0 && approved != len(answers) || approved == 0 && failed == 0 {
		m.Fatalf("%d of %d items spent, %d failed: want all, or none and a reason", approved, len(answers), failed)
	}
	for id, was := range before {
		after := m.stateOf(id)
		if got := after.Settled() - was.Settled(); got != spent[id] || after.Outstanding != was.Outstanding || after.Bound() != was.Bound()+spent[id] {
			m.Fatalf("a group spent %d of %s: %+v to %+v", spent[id], id, was.Tally, after.Tally)
		}
		if spent[id] > 0 {
			if after.Headroom() < 0 {
				m.Fatalf("a group leaves a headroom of %d", after.Headroom())
			}
			tr := m.truth(id)
			tr.largest = max(tr.largest, after.Limit.Units+after.Uncertain)
		}
	}
}
