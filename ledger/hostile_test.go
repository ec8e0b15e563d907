package ledger_test

import (
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

func TestA1HostileReports(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 50)
	g := d.lease(agent(1), 20)
	d.report(g, 5, 0, 0, false)
	before, record := d.state(), d.grant(g.ID)
	for _, c := range []struct {
		name                      string
		taken, refunded, returned ledger.Units
		final                     bool
		code                      ledger.Code
	}{
		{"negative use", -600, 0, 0, false, ledger.CodeInvalid},
		{"negative refund", 5, -1, 0, false, ledger.CodeInvalid},
		{"negative return", 5, 0, -1, false, ledger.CodeInvalid},
		{"2^31-1", 1<<31 - 1, 0, 0, false, ledger.CodeStep},
		{"2^63-1", quota.MaxUnits, 0, 0, false, ledger.CodeStep},
		{"one above the step", 106, 0, 0, false, ledger.CodeStep},
		{"refund above use", 5, 6, 0, false, ledger.CodeContradiction},
		{"return above the amount", 5, 0, 21, false, ledger.CodeContradiction},
		{"return of 2^63-1", 5, 0, quota.MaxUnits, false, ledger.CodeContradiction},
		{"final with units missing", 5, 0, 14, true, ledger.CodeContradiction},
	} {
		_, err := d.tryReport(reportOf(g, c.taken, c.refunded, c.returned, c.final))
		d.wantCode(err, c.code)
		if d.state() != before || d.grant(g.ID) != record {
			t.Errorf("%s: something changed", c.name)
		}
	}
	d.report(g, 6, 0, 14, true)
	d.want(books{S: 6, A: 94})
}

func TestA1ForeignReportsAreRefused(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 50)
	g := d.lease(agent(1), 20)
	stolen := reportOf(g, 0, 0, 20, true)
	stolen.Agent = agent(2)
	_, err := d.tryReport(stolen)
	d.wantCode(err, ledger.CodeForeign)
	d.wantCode(d.cancel(g.ID, agent(2)), ledger.CodeForeign)
	s := d.spend(agent(1), 5).Grant
	_, err = d.tryReport(reportOf(s, 0, 0, 5, true))
	d.wantCode(err, ledger.CodeForeign)
	d.wantCode(d.cancel(s.ID, agent(2)), ledger.CodeForeign)
	d.want(books{S: 5, O: 20, A: 75})

	elsewhere := reportOf(g, 1, 0, 0, false)
	d.account.Key.Dimension = "other"
	elsewhere.Account = d.account
	_, err = d.tryReport(elsewhere)
	d.wantCode(err, ledger.CodeForeign)
}

func TestA1RefusedReportOfUnknownIdLeavesNothing(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 50)
	d.terms.Limit = quota.NoLimit
	d.spend(agent(1), quota.MaxUnits-5)
	r := ledger.Report{ID: d.newID(), Account: d.account, Agent: agent(1), Taken: 10}
	d.must(d.update(ledger.Scope{Grants: []ledger.ID{r.ID}}, func(b *ledger.Book) error {
		_, err := b.Report(r)
		d.wantCode(err, ledger.CodeOverflow)
		return nil // a batch goes on with its other items
	}))
	if n := len(d.records()); n != 1 {
		t.Errorf("%d records, want only the spend", n)
	}
}

func TestAnUnknownIdIsRecordedAsWithdrawn(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 50)
	ask, spend := d.newAsk(agent(1), 10, 1), d.newSpend(agent(1), 10)
	gone := d.newAsk(agent(1), 10, 1)
	d.must(d.cancel(ask.ID, agent(1)))
	d.must(d.cancel(spend.ID, agent(1)))
	d.must(d.cancel(spend.ID, agent(1)))
	// A return of an unknown id is the same; use reported for one is unleased.
	_, err := d.tryReport(ledger.Report{ID: gone.ID, Account: d.account, Agent: agent(1), Taken: 3, Returned: 7, Final: true})
	d.must(err)
	for range 2 {
		ans, err := d.tryAsk(ask)
		d.must(err)
		d.wantReason(ans, quota.Cancelled)
		ans, err = d.tryAsk(gone)
		d.must(err)
		d.wantReason(ans, quota.Cancelled)
		ans, err = d.trySpend(spend)
		d.must(err)
		d.wantReason(ans, quota.Cancelled)
	}
	d.want(books{S: 3, A: 97})
	if got := d.state().Unleased; got != 3 {
		t.Errorf("unleased %d, want 3", got)
	}
}

func TestCancelOfAGrantedLeaseBringsItBack(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 50)
	ask := d.newAsk(agent(1), 20, 1)
	_, err := d.tryAsk(ask)
	d.must(err)
	d.must(d.cancel(ask.ID, agent(1)))
	d.must(d.cancel(ask.ID, agent(1)))
	d.want(books{A: 100})
	again, err := d.tryAsk(ask)
	d.must(err)
	if again.Grant.State != ledger.Final || again.Grant.Amount != 20 {
		t.Errorf("the ask repeated: %+v, want the approval and its present state, final", again.Grant)
	}
	d.expire(time.Minute)
	d.want(books{A: 100})
}
