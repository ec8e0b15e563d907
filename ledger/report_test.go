package ledger_test

import (
	"errors"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// permutations calls try with every order of the reports.
func permutations(reports []ledger.Report, try func([]ledger.Report)) {
	var visit func(n int)
	visit = func(n int) {
		if n == len(reports) {
			try(reports)
			return
		}
		for i := n; i < len(reports); i++ {
			reports[n], reports[i] = reports[i], reports[n]
			visit(n + 1)
			reports[n], reports[i] = reports[i], reports[n]
		}
	}
	visit(0)
}

func TestD3ReportsInAnyOrderMergeAlike(t *testing.T) {
	t.Parallel()
	tries := 0
	steps := func(g ledger.Grant) []ledger.Report {
		return []ledger.Report{
			reportOf(g, 3, 0, 0, false), reportOf(g, 8, 2, 0, false), reportOf(g, 9, 2, 0, false), reportOf(g, 11, 2, 11, true),
		}
	}
	permutations(steps(ledger.Grant{}), func(order []ledger.Report) {
		tries++
		d := open(t, quota.Hard, 100, 50)
		g := d.lease(agent(1), 20)
		for _, r := range order {
			r.ID, r.Account, r.Agent = g.ID, g.Account, g.Agent
			_, err := d.tryReport(r)
			d.must(err)
			_, err = d.tryReport(r) // and each twice
			d.must(err)
		}
		d.want(books{S: 9, A: 91})
		if got := d.grant(g.ID); got.State != ledger.Final || got.Back != 11 {
			t.Errorf("state %s, returned %d: want final, 11", got.State, got.Back)
		}
	})
	if tries != 24 {
		t.Fatalf("%d orders tried, want 24", tries)
	}
}

func TestD3ReturnsInAnyOrderMergeAlike(t *testing.T) {
	t.Parallel()
	permutations([]ledger.Report{{Taken: 3}, {Taken: 8, Refunded: 2, Returned: 4}, {Taken: 9, Refunded: 2, Returned: 5}}, func(order []ledger.Report) {
		d := open(t, quota.Hard, 100, 50)
		g := d.lease(agent(1), 20)
		for _, r := range order {
			d.report(g, r.Taken, r.Refunded, r.Returned, false)
		}
		d.want(books{S: 7, O: 8, A: 85})
	})
}

func TestD3AReportInFlightIsCountedOnce(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 30)
	g := d.lease(agent(1), 20)
	late := reportOf(g, 15, 0, 0, false) // sent, but the next grant is computed before it arrives
	d.lease(agent(1), 10)
	d.want(books{O: 30, A: 70})
	_, err := d.tryReport(late)
	d.must(err)
	_, err = d.tryReport(late)
	d.must(err)
	d.want(books{S: 15, O: 15, A: 70})
}

func TestR2_6RefundAroundAFinalInAnyOrder(t *testing.T) {
	t.Parallel()
	three := []ledger.Report{{Taken: 10, Final: true}, {Taken: 10, Refunded: 2, Final: true}, {Taken: 10, Refunded: 3}}
	permutations(three, func(order []ledger.Report) {
		d := open(t, quota.Hard, 100, 50)
		g := d.lease(agent(1), 10)
		for _, r := range order {
			r.ID, r.Account, r.Agent = g.ID, g.Account, g.Agent
			_, err := d.tryReport(r)
			d.must(err)
		}
		d.want(books{S: 7, A: 93})
		if got := d.grant(g.ID); got.State != ledger.Final || got.Back != 3 {
			t.Errorf("order %+v: state %s, returned %d: want final, 3", order, got.State, got.Back)
		}
	})
}

func TestFinalIsSticky(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 50)
	g := d.lease(agent(1), 10)
	d.report(g, 4, 0, 6, true)
	after := d.report(g, 4, 0, 6, false)
	if after.State != ledger.Final {
		t.Errorf("state %s after a late report, want final", after.State)
	}
	// Use above a final is unleased: the 6 are back and may be with somebody else.
	d.report(g, 7, 0, 6, false)
	d.want(books{S: 7, A: 93})
	if got := d.state().Tally; got.Leased != 4 || got.Unleased != 3 || got.Returned != 6 {
		t.Errorf("leased %d, unleased %d, returned %d: want 4, 3, 6", got.Leased, got.Unleased, got.Returned)
	}
	// A final stays final through expiry too.
	d.expire(time.Minute)
	d.want(books{S: 7, A: 93})
}

func TestAFinalMustAccountForEveryUnit(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 50)
	g := d.lease(agent(1), 10)
	_, err := d.tryReport(reportOf(g, 4, 0, 5, true))
	d.wantCode(err, ledger.CodeContradiction)
	d.want(books{O: 10, A: 90})
	d.report(g, 4, 0, 6, true)
	d.want(books{S: 4, A: 96})
}

func TestUseBeyondTheAmountIsUnleased(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 50)
	g := d.lease(agent(1), 10)
	d.report(g, 13, 0, 0, false)
	d.want(books{S: 13, A: 87})
	d.report(g, 13, 0, 4, false) // 13 + 4 exceed 10 by 7
	if got := d.state().Tally; got.Leased != 6 || got.Unleased != 7 || got.Returned != 4 {
		t.Errorf("leased %d, unleased %d, returned %d: want 6, 7, 4", got.Leased, got.Unleased, got.Returned)
	}
	d.want(books{S: 13, A: 87})
}

func TestALateReportTakesFromHFirstThenU(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Bounded, 100, 20)
	d.spend(agent(1), 80)
	g := d.lease(agent(1), 20)
	d.expire(40 * time.Second)
	d.spend(agent(2), 8)
	d.want(books{S: 88, H: 12, U: 8})
	d.report(g, 5, 0, 0, false)
	d.want(books{S: 93, H: 7, U: 8})
	d.report(g, 15, 0, 0, false)
	d.want(books{S: 103, U: 5, A: -3})
	if a := d.state(); a.Overshoot != 3 || a.RealisedOvershoot() != 3 {
		t.Errorf("overshoot %d, want the 3 that the report reveals", a.Overshoot)
	}
	d.report(g, 15, 0, 5, true)
	d.want(books{S: 103, A: -3})
	if es := d.events(ledger.EventOvershoot); len(es) != 1 || es[0].Units != 3 {
		t.Errorf("overshoot on record: %+v, want once 3", es)
	}
}

func TestARefundOnAClosedLeaseGoesToItsClass(t *testing.T) {
	t.Parallel()
	for class, want := range map[quota.Class]books{
		quota.Hard:       {S: 7, H: 3, A: 90},
		quota.Bounded:    {S: 7, H: 3, A: 90},
		quota.BestEffort: {S: 7, U: 3, A: 93},
	} {
		d := open(t, class, 100, 50)
		g := d.lease(agent(1), 10)
		d.report(g, 10, 0, 0, false)
		d.expire(40 * time.Second)
		d.report(g, 10, 3, 0, false)
		d.want(want)
	}
}

func TestARefundOnALiveLeaseIsOutstandingAgain(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 50)
	g := d.lease(agent(1), 10)
	d.report(g, 10, 0, 0, false)
	d.report(g, 10, 4, 0, false)
	d.want(books{S: 6, O: 4, A: 90})
	d.report(g, 12, 4, 0, false)
	d.want(books{S: 8, O: 2, A: 90})
}

func TestD6UnreportedUnitsAreChargedByClass(t *testing.T) {
	t.Parallel()
	// An agent dies with 37 of 50 used and nothing reported. What is unknown is 50.
	for class, want := range map[quota.Class]books{
		quota.Hard:       {H: 50, A: 950},
		quota.Bounded:    {H: 50, A: 950},
		quota.BestEffort: {U: 50, A: 1000},
	} {
		d := open(t, class, 1_000, 100)
		g := d.lease(agent(1), 50)
		d.expire(39_999 * time.Millisecond)
		d.want(books{O: 50, A: 950})
		d.expire(time.Millisecond)
		d.want(want)
		// The same ids, reported after all, settle it to the unit.
		d.report(g, 37, 0, 13, true)
		d.want(books{S: 37, A: 963})
	}
}

func TestD7ADenialDropsNoPendingUse(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 30, 30)
	g := d.lease(agent(1), 30)
	d.wantReason(d.ask(agent(1), 10), quota.LeasedOut) // 25 are used and unreported
	d.report(g, 25, 0, 0, false)
	d.wantReason(d.ask(agent(1), 10), quota.LeasedOut)
	d.want(books{S: 25, O: 5})
}

func TestC4ServerAhead(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 50)
	ask := d.newAsk(agent(1), 20, 1)
	_, err := d.tryAsk(ask)
	d.must(err)
	d.expire(40 * time.Second)
	again, err := d.tryAsk(ask)
	d.must(err)
	if again.Grant.State != ledger.Closed {
		t.Errorf("the agent is told %s, want closed", again.Grant.State)
	}
	if told := d.report(again.Grant, 20, 0, 0, false); told.State != ledger.Closed {
		t.Errorf("the report is answered with %s, want closed", told.State)
	}
	d.want(books{S: 20, A: 80})
	d.lease(agent(1), 20)
}

func TestO7EachWindowIsChargedItsOwn(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Bounded, 100, 10)
	var windows []ledger.AccountID
	for range 3 {
		windows = append(windows, d.account)
		d.account.Window = quota.NewWindow(d.account.Window.End, d.account.Window.End.Add(24*time.Hour))
	}
	d.now = d.account.Window.Start.Add(time.Hour) // contact again, in the fourth window
	for _, id := range windows {
		d.account = id
		r := ledger.Report{ID: d.newID(), Account: id, Agent: agent(1), Taken: 5, Unleased: true}
		for range 2 {
			g, err := d.tryReport(r)
			d.must(err)
			if g.Kind != ledger.KindUnleased || g.Amount != 0 {
				t.Errorf("recorded as %+v, want a zero-amount grant", g)
			}
		}
		d.want(books{S: 5, A: 95})
		if got := d.state().Unleased; got != 5 {
			t.Errorf("unleased %d in %s, want 5", got, id.Window)
		}
	}
}

func TestUnleasedUseIsOwedInSteps(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 10, 5)
	r := ledger.Report{ID: d.newID(), Account: d.account, Agent: agent(1), Taken: 25, Unleased: true}
	_, err := d.tryReport(r)
	d.wantCode(err, ledger.CodeStep)
	if n := len(d.records()); n != 0 {
		t.Errorf("%d records after a refused report, want none", n)
	}
	for _, taken := range []ledger.Units{10, 20, 25} {
		r.Taken = taken
		_, err := d.tryReport(r)
		d.must(err)
	}
	d.want(books{S: 25, A: -15})
	// The largest limit that the window had counts, also after a cut.
	d.apply(func(t *ledger.Terms) { t.Limit = quota.LimitOf(0) })
	r.Taken = 36
	_, err = d.tryReport(r)
	d.wantCode(err, ledger.CodeStep)
	r.Taken = 35
	_, err = d.tryReport(r)
	d.must(err)
}

func TestAWindowOfLimitZeroTakesStepsOfOne(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 0, 0)
	r := ledger.Report{ID: d.newID(), Account: d.account, Agent: agent(1), Taken: 2, Unleased: true}
	_, err := d.tryReport(r)
	d.wantCode(err, ledger.CodeStep)
	r.Taken = 1
	_, err = d.tryReport(r)
	d.must(err)
	d.want(books{S: 1, A: -1})
}

func TestUnleasedUseIsNeverTooOldInItsWindow(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 10)
	d.store.SetRetention(time.Hour)
	known := ledger.Report{ID: d.newID(), Account: d.account, Agent: agent(1), Taken: 5, Unleased: true}
	first := ledger.Report{ID: d.newID(), Account: d.account, Agent: agent(2), Taken: 7, Unleased: true}
	_, err := d.tryReport(known)
	d.must(err)
	d.now = d.now.Add(3 * time.Hour)
	d.fold(time.Hour)
	known.Taken = 6
	for _, r := range []ledger.Report{known, first} {
		_, err := d.tryReport(r)
		d.must(err)
	}
	d.want(books{S: 13, A: 87})
}

func TestAReportNeedsAnOpenedAccount(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 10)
	r := ledger.Report{ID: d.newID(), Account: d.account, Agent: agent(1), Taken: 1}
	d.must(d.update(ledger.Scope{}, func(b *ledger.Book) error {
		if _, err := b.Report(r); !errors.Is(err, ledger.ErrNotOpened) {
			t.Errorf("report on an account without terms: %v, want ErrNotOpened", err)
		}
		if err := b.Cancel(r.ID, d.account, agent(1)); !errors.Is(err, ledger.ErrNotOpened) {
			t.Errorf("cancel on an account without terms: %v, want ErrNotOpened", err)
		}
		r := r
		r.Account.Key.Dimension = "other"
		if _, err := b.Report(r); !errors.Is(err, ledger.ErrNotLocked) {
			t.Errorf("report on an account that is not locked: %v, want ErrNotLocked", err)
		}
		return nil
	}))
	if n := len(d.records()); n != 0 {
		t.Errorf("%d records, want none", n)
	}
}
