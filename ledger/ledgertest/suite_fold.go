package ledgertest

import (
	"slices"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// foldable is one step of a walk.
func (r *room) foldable(before time.Time, after ledger.ID, limit int) ([]ledger.AccountID, ledger.ID) {
	r.Helper()
	accounts, next, err := r.Store.Foldable(r.Context(), before, after, limit)
	r.must(err)
	return accounts, next
}

// moment is a time after all that was made before it, to the millisecond of ids.
func (r *room) moment() time.Time {
	r.Helper()
	made := time.Now().UnixMilli()
	r.until("another millisecond", func() bool { return time.Now().UnixMilli() > made })
	return time.Now()
}

func foldableAccounts(r *room) {
	if accounts, next := r.foldable(r.moment(), ledger.ID{}, 0); len(accounts) != 0 || !next.IsNil() {
		r.Errorf("an empty ledger has %v to fold, and goes on after %s", accounts, next)
	}
	agent := r.id()
	on := func(tenant string) ledger.AccountID {
		r.account = endless(tenant)
		return r.account
	}
	var want []ledger.AccountID
	want = append(want, on("denied"))
	r.wantReason(r.spend(r.newSpend(agent, 9_999)), quota.TooLarge)
	want = append(want, on("final"))
	r.must(r.report(reportOf(r.lease(agent, 20), 5, 0, 15, true)))
	on("live")
	r.lease(agent, 20)
	want = append(want, on("spent"))
	r.spend(r.newSpend(agent, 7))
	r.spend(r.newSpend(agent, 7))
	on("touched")
	touched := r.lease(agent, 20)
	on("unleased")
	r.open()
	r.must(r.report(ledger.Report{ID: r.id(), Account: r.account, Agent: agent, Taken: 5, Unleased: true}))
	r.brief()
	on("held")
	r.lease(agent, 20)
	r.untilDue(1)
	r.expire()
	r.terms.Class = quota.BestEffort
	on("uncertain")
	r.lease(agent, 20)
	r.untilDue(1)
	r.expire()

	cut := r.moment()
	on("touched")
	r.must(r.report(reportOf(touched, 20, 0, 0, true)))
	on("young")
	r.spend(r.newSpend(agent, 7))
	if got, next := r.foldable(cut, ledger.ID{}, 0); !slices.Equal(got, want) || !next.IsNil() {
		r.Errorf("%v to fold, want %v, and no more", got, want)
	}
	want = append(want, endless("touched"), endless("young"))
	if got, _ := r.foldable(r.moment(), ledger.ID{}, 0); !slices.Equal(got, want) {
		r.Errorf("%v to fold later, want %v", got, want)
	}
}

func foldablePages(r *room) {
	agent := r.id()
	made := make([]ledger.ID, 12)
	for i := range made {
		made[i] = r.id()
	}
	slices.SortFunc(made, ledger.CompareIDs)
	for i, id := range made {
		r.account = endless([]string{"a", "b", "live"}[i/4])
		if i/4 == 2 {
			ask := r.newAsk(agent, 1)
			ask.ID = id
			r.ask(ask)
			continue
		}
		s := r.newSpend(agent, 1)
		s.ID = id
		r.spend(s)
	}
	now := r.moment()
	a, b := endless("a"), endless("b")
	after := ledger.ID{}
	for i, c := range []struct {
		limit int
		want  []ledger.AccountID
		next  ledger.ID
	}{
		{3, []ledger.AccountID{a}, made[2]},
		{3, []ledger.AccountID{a, b}, made[5]},
		{2, []ledger.AccountID{b}, made[7]},
		{2, nil, made[9]}, // nothing to fold is not the end
		{2, nil, made[11]},
		{2, nil, ledger.ID{}},
	} {
		got, next := r.foldable(now, after, c.limit)
		if !slices.Equal(got, c.want) || next != c.next {
			r.Errorf("page %d: %v, go on after %s, want %v and %s", i, got, next, c.want, c.next)
		}
		after = next
	}
	// A walk goes on after an id that is no grant's, as after one that was folded since.
	if got, next := r.foldable(now, ledger.LowestID(now.Add(-time.Hour)), 8); !slices.Equal(got, []ledger.AccountID{a, b}) || next != made[7] {
		r.Errorf("after an id of an hour ago: %v, go on after %s, want %v and %s", got, next, []ledger.AccountID{a, b}, made[7])
	}
	if got, next := r.foldable(now, ledger.LowestID(now), 8); len(got) != 0 || !next.IsNil() {
		r.Errorf("above all that is old: %v, go on after %s", got, next)
	}
}

// foldedIsGone walks and folds until nothing is left to do, past a grant that must stay.
func foldedIsGone(r *room) {
	agent := r.id()
	r.lease(agent, 20)
	for _, tenant := range []string{"b", "a"} {
		r.account = endless(tenant)
		r.spend(r.newSpend(agent, 7))
		r.spend(r.newSpend(agent, 7))
	}
	before := r.moment()
	r.until("old grants folded", func() bool {
		accounts, next := r.foldable(before, ledger.ID{}, 0)
		if !next.IsNil() {
			r.Errorf("a walk over 5 grants goes on after %s", next)
		}
		for _, r.account = range accounts {
			r.must(r.update(ledger.Scope{FoldOld: before}, func(b *ledger.Book) error {
				_, err := b.Fold(r.account, before)
				return err
			}))
		}
		return len(accounts) == 0
	})
	if n := r.count(ledger.GrantQuery{}); n != 1 {
		r.Errorf("%d grants left, want the live one", n)
	}
	r.account = endless("a")
	r.want(units{S: 14})
}
