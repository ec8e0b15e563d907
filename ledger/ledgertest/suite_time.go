package ledgertest

import (
	"slices"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// brief makes leases that are due at once.
func (r *room) brief() { r.terms.TTL, r.terms.Grace = time.Millisecond, time.Millisecond }

func dueOrder(r *room) {
	r.lease(r.id(), 20) // not due for a minute
	r.brief()
	var ids []ledger.AccountID
	for _, tenant := range []string{"c", "a", "b"} {
		r.account = endless(tenant)
		ids = append(ids, r.account)
		r.lease(r.id(), 1)
		r.lease(r.id(), 1)
		r.terms.TTL += 5 * time.Millisecond
	}
	if due := r.untilDue(3); !slices.Equal(due, ids) {
		r.Errorf("due %v, want %v", due, ids)
	}
	due, err := r.Store.Due(r.Context(), 2)
	r.must(err)
	if !slices.Equal(due, ids[:2]) {
		r.Errorf("the first two that are due: %v, want %v", due, ids[:2])
	}
	for _, r.account = range ids {
		r.until("both leases closed", func() bool { // the second is due a moment after the first
			r.expire()
			return r.state(r.account).Outstanding == 0
		})
		r.want(units{H: 2})
	}
	if due, err := r.Store.Due(r.Context(), 10); err != nil || len(due) != 0 {
		r.Errorf("due after all were closed: %v, %v", due, err)
	}
}

func sweepers(r *room) {
	r.brief()
	var asks []ledger.Ask
	for range 20 {
		asks = append(asks, r.newAsk(r.id(), 5))
	}
	_, err := r.tryAsk(asks...)
	r.must(err)
	r.untilDue(1)
	before := r.state(r.account)
	r.together(4, func(int) error {
		return r.update(ledger.Scope{}, func(b *ledger.Book) error { return b.Expire(r.account) })
	})
	r.want(units{H: 100})
	after := r.state(r.account)
	if after.Expired != 100 || after.Generation != before.Generation+1 {
		r.Errorf("expired %d, generation %d -> %d: want 100, and one step", after.Expired, before.Generation, after.Generation)
	}
	// A late report is taken from what is held.
	g := r.grant(asks[0].ID)
	r.must(r.report(reportOf(g, 4, 0, 1, true)))
	r.want(units{S: 4, H: 95})
}

func batches(r *room) {
	r.brief()
	r.terms.Limit, r.terms.Budget = quota.LimitOf(2_000), quota.LimitOf(2_000)
	const more = 6
	var asks []ledger.Ask
	for range ledger.DueBatch + more {
		asks = append(asks, r.newAsk(r.id(), 1))
	}
	_, err := r.tryAsk(asks...)
	r.must(err)
	last := r.grant(asks[0].ID).ClosesAt
	r.until("all leases due", func() bool {
		var now time.Time
		r.must(r.update(ledger.Scope{}, func(b *ledger.Book) error { now = b.Now(); return nil }))
		return now.After(last)
	})
	r.expire()
	r.want(units{O: more, H: ledger.DueBatch})
	r.expire()
	r.want(units{H: ledger.DueBatch + more})
	r.spend(r.newSpend(r.id(), 2_000-ledger.DueBatch-more))
	r.wantReason(r.spend(r.newSpend(r.id(), ledger.HeldBatch+1)), quota.Exhausted)
	if !r.spend(r.newSpend(r.id(), ledger.HeldBatch)).Approved() {
		r.Errorf("a spend that moves one batch is denied")
	}
	// What was moved is the oldest, and no longer held: the next batch can move.
	if !r.spend(r.newSpend(r.id(), 1)).Approved() {
		r.Error("the next held units are not at hand")
	}
	r.verify()
}

func foldKeepsSums(r *room) {
	agent := r.id()
	done, live := r.newAsk(agent, 20), r.newAsk(agent, 30)
	spend, denied := r.newSpend(agent, 7), r.newSpend(agent, 9_999)
	r.ask(done)
	r.ask(live)
	r.spend(spend)
	r.wantReason(r.spend(denied), quota.TooLarge)
	r.must(r.report(ledger.Report{ID: done.ID, Account: r.account, Agent: agent, Taken: 5, Returned: 15, Final: true}))
	want := units{S: 12, O: 30}
	r.want(want)
	folded := 0
	r.until("settled grants folded", func() bool {
		before := time.Now()
		r.must(r.update(ledger.Scope{FoldOld: before}, func(b *ledger.Book) error {
			n, err := b.Fold(r.account, before)
			folded += n
			return err
		}))
		return folded >= 3
	})
	r.want(want)
	if n := r.count(ledger.GrantQuery{}); folded != 3 || n != 1 {
		r.Errorf("%d folded, %d left: want 3 and the live one", folded, n)
	}
	_, err := r.tryAsk(done)
	r.wantCode(err, ledger.CodeTooOld)
	r.must(r.report(ledger.Report{ID: live.ID, Account: r.account, Agent: agent, Taken: 30, Final: true}))
	r.want(units{S: 42})
}

func prune(r *room) {
	now, agent := time.Now(), r.id()
	present := r.account
	r.lease(agent, 20)
	r.lease(r.id(), 480)
	r.wantReason(r.ask(r.newAsk(agent, 1)), quota.ExactLane)
	r.must(r.Store.Update(r.Context(), ledger.Scope{Agents: []ledger.ID{agent}}, func(b *ledger.Book) error {
		b.Admit(ledger.Hello{Incarnation: agent, Name: "x", Region: "eu"}, r.id())
		return nil
	}))
	leases := r.live()
	r.must(r.update(ledger.Scope{Grants: leases}, func(b *ledger.Book) error {
		for _, id := range leases {
			if _, err := b.Revoke(id, "test"); err != nil {
				return err
			}
		}
		return nil
	}))
	r.account.Window = quota.NewWindow(now.Add(-2*time.Hour), now.Add(-time.Hour))
	past := r.account
	r.open()
	r.must(r.report(ledger.Report{ID: r.id(), Account: past, Agent: agent, Taken: 5, Unleased: true}))
	r.closeWindow()

	n, err := r.Store.Prune(r.Context(), now.Add(-time.Hour), now.Add(-90*time.Minute))
	if err != nil || n != 0 {
		r.Errorf("pruned %d, %v: want nothing that is young", n, err)
	}
	n, err = r.Store.Prune(r.Context(), now.Add(-time.Hour), now)
	r.must(err)
	list, err := r.Store.Accounts(r.Context(), ledger.AccountQuery{})
	r.must(err)
	if n == 0 || len(list) != 1 || list[0].ID != present || r.count(ledger.GrantQuery{}) != 3 {
		r.Errorf("pruned %d, %d accounts and %d grants left: want the endless one and its 3", n, len(list), r.count(ledger.GrantQuery{}))
	}
	if left, due := r.revisions(), r.unstated(); len(left) != 0 || len(due) != 0 {
		r.Errorf("statements left: %v, to write: %v", left, due)
	}
	_, err = r.Store.Prune(r.Context(), time.Now().Add(time.Hour), now)
	r.must(err)
	events, err := r.Store.Events(r.Context(), 0, 0)
	r.must(err)
	incs, err := r.Store.Incarnations(r.Context(), time.Time{})
	r.must(err)
	r.account = present
	var agents int
	r.must(r.update(ledger.Scope{}, func(b *ledger.Book) error { agents = b.Agents(present.Key, r.terms); return nil }))
	if len(events) != 0 || len(incs) != 0 || agents != 1 {
		r.Errorf("%d events, %d incarnations and %d agents left, want none", len(events), len(incs), agents)
	}
	r.want(units{O: 500})
}

// live are the ids of all live leases.
func (r *room) live() []ledger.ID {
	r.Helper()
	list, err := r.Store.Grants(r.Context(), ledger.GrantQuery{States: []ledger.State{ledger.Live}})
	r.must(err)
	ids := make([]ledger.ID, len(list))
	for i, g := range list {
		ids[i] = g.ID
	}
	return ids
}

// pruneEndless: accounts whose windows never end go once a new one would know as much.
func pruneEndless(r *room) {
	quick := quota.Rate{Units: 100, Per: time.Second}
	agent, terms := r.id(), r.terms
	at := func(tenant string, use func()) ledger.AccountID {
		r.Helper()
		r.account, r.terms = endless(tenant), terms
		use()
		return r.account
	}
	spent := func(rate quota.Rate) func() {
		return func() {
			r.limitRate(rate, 20)
			if !r.spend(r.newSpend(agent, 5)).Approved() {
				r.Errorf("5 of 20 are denied")
			}
		}
	}
	jobs := func() { r.terms.Kind, r.terms.MaxHold = quota.Concurrency, time.Hour }
	kept := []ledger.AccountID{
		at("a quota for life", func() { r.spend(r.newSpend(agent, 5)) }),
		at("not refilled for years", spent(slow)),
		at("leased out", func() { r.limitRate(quick, 20); r.lease(agent, 5) }),
		at("a lease that is used up", func() {
			r.limitRate(quick, 20)
			g := r.lease(agent, 5)
			r.must(r.report(ledger.Report{ID: g.ID, Account: r.account, Agent: agent, Taken: 5}))
		}),
		at("at work", func() { jobs(); r.lease(agent, 3) }),
	}
	gone := []ledger.AccountID{
		at("refilled", spent(quick)),
		at("unlimited", func() { r.limitRate(quick, 20); r.terms.Limit = quota.NoLimit; r.spend(r.newSpend(agent, 5)) }),
		at("work done", func() {
			jobs()
			g := r.lease(agent, 3)
			r.must(r.report(ledger.Report{ID: g.ID, Account: r.account, Agent: agent, Seq: 1, Returned: 3, Final: true}))
		}),
	}
	past, soon := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	if n, err := r.Store.Prune(r.Context(), past, past); err != nil || n != 0 {
		r.Errorf("pruned %d, %v: all were at work within the hour", n, err)
	}
	n, err := r.Store.Prune(r.Context(), past, soon)
	r.must(err)
	left := r.accounts(ledger.AccountQuery{})
	slices.SortFunc(kept, ledger.CompareAccounts)
	if !slices.Equal(left, kept) {
		r.Errorf("left are %v,\nwant %v: all but %v", left, kept, gone)
	}
	if n != 6 { // three accounts, two spends and a lease
		r.Errorf("%d records went, want 6", n)
	}
	r.verify()
}
