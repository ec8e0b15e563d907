package ledger_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// closeWindow reports whether anything was written.
func (d *desk) closeWindow() (wrote bool) {
	d.Helper()
	d.must(d.update(ledger.Scope{}, func(b *ledger.Book) (err error) {
		wrote, err = b.CloseWindow(d.account)
		return err
	}))
	return wrote
}

func (d *desk) revisions() []ledger.Statement {
	d.Helper()
	list, err := d.store.Statements(context.Background(), ledger.StatementQuery{Revisions: true})
	d.must(err)
	return list
}

// revision is a statement in one line, as tables of worked numbers state it.
type revision struct {
	Billable, O, H, U ledger.Units
	Final             bool
	Note              string
}

func (d *desk) wantRevisions(want ...revision) {
	d.Helper()
	got := d.revisions()
	if len(got) != len(want) {
		d.Fatalf("%d revisions, want %d: %+v", len(got), len(want), got)
	}
	for i, s := range got {
		if is := (revision{s.Billable, s.Outstanding, s.Held, s.Uncertain, s.Final(), s.Note}); is != want[i] || s.Revision != int64(i+1) {
			d.Errorf("revision %d: %+v, want %+v", s.Revision, is, want[i])
		}
	}
	d.verify()
}

// afterEnd moves the clock to a time after the window's end.
func (d *desk) afterEnd(by time.Duration) { d.now = d.account.Window.End.Add(by) }

const finalAfter = 72 * time.Hour

// TestR2_16OnlyConfirmedUseIsBilled is a day with 20,000 of 50,000 spent, a lease that was
// reported in time, and one of 2,000 whose agent died: 1,500 of it are reported a day late.
func TestR2_16OnlyConfirmedUseIsBilled(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 50_000, 5_000)
	d.terms.FinalAfter = finalAfter
	d.spend(agent(1), 20_000)
	d.now = day.End.Add(-20 * time.Second)
	timely, lost := d.lease(agent(1), 1_000), d.lease(agent(2), 2_000)
	d.afterEnd(9 * time.Second)
	if d.closeWindow() {
		t.Error("closed while reports of its last leases may be on their way")
	}
	d.report(timely, 700, 0, 300, true)
	d.afterEnd(10 * time.Second)
	if !d.closeWindow() || d.closeWindow() {
		t.Error("the window is to be closed once, when its last leases are")
	}
	held := revision{Billable: 20_700, H: 2_000, Note: "window closed"}
	d.wantRevisions(held)
	a := d.state()
	if got := d.revisions()[0]; !got.ClosedAt.Equal(day.End.Add(10*time.Second)) || got.Opening != quota.LimitOf(50_000) || !got.OpenedAt.Equal(start) || a.ClosedAt != got.ClosedAt {
		t.Errorf("statement %+v, account %+v", got, a)
	}

	// Late, and not all of it: what stays open is held, limits, and is billed to nobody.
	d.afterEnd(24 * time.Hour)
	d.report(lost, 1_500, 0, 0, false)
	d.report(lost, 1_500, 0, 0, false)
	late := revision{Billable: 22_200, H: 500, Note: "late report"}
	d.wantRevisions(held, late)

	// 72 hours after the end it is final as it is, and what comes after that is still told.
	d.afterEnd(finalAfter - time.Microsecond)
	if d.closeWindow() {
		t.Error("final before its time")
	}
	d.afterEnd(finalAfter)
	if !d.closeWindow() || d.closeWindow() {
		t.Error("the statement is to become final once")
	}
	final := revision{Billable: 22_200, H: 500, Final: true, Note: "open for 72h0m0s after the window; final"}
	d.wantRevisions(held, late, final)
	d.afterEnd(finalAfter + time.Hour)
	d.report(lost, 1_600, 0, 400, true)
	d.wantRevisions(held, late, final, revision{Billable: 22_300, Final: true, Note: "late report; after final"})
	if got := d.revisions()[3]; !got.FinalAt.Equal(day.End.Add(finalAfter)) {
		t.Errorf("final at %s, want it to stay %s", got.FinalAt, day.End.Add(finalAfter))
	}
}

func TestR2_16AStatementIsFinalWhenNothingIsOpen(t *testing.T) {
	t.Parallel()
	d := open(t, quota.BestEffort, 100, 50)
	g := d.lease(agent(1), 20)
	d.afterEnd(time.Hour)
	d.closeWindow()
	d.report(g, 12, 0, 8, true)
	d.wantRevisions(
		revision{U: 20, Note: "window closed"},
		revision{Billable: 12, Final: true, Note: "late report; final"},
	)
	// Without final_after nothing but a report makes it final.
	if due, err := d.store.Unstated(t.Context(), 10); err != nil || len(due) != 0 {
		t.Errorf("due: %v, %v", due, err)
	}
}

// CASES A3: a refund after the window gives nothing to the present window, and amends the old
// one's statement.
func TestA3RefundAfterTheWindowAmendsItsStatement(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Exact, 10, 0)
	s := d.newSpend(agent(1), 4)
	_, err := d.trySpend(s)
	d.must(err)
	d.afterEnd(time.Minute)
	d.closeWindow()
	yesterday := d.account
	d.account.Window = quota.NewWindow(day.End, day.End.Add(24*time.Hour))
	d.spend(agent(1), 10)
	present := d.state()
	d.account = yesterday
	for range 2 {
		d.must(d.update(ledger.Scope{Grants: []ledger.ID{s.ID}}, func(b *ledger.Book) error { return b.Cancel(s.ID, yesterday, agent(1)) }))
	}
	d.wantRevisions(
		revision{Billable: 4, Final: true, Note: "window closed; final"},
		revision{Final: true, Note: "late report; after final"},
	)
	if got := d.stateOf(present.ID); got != present || present.Settled() != 10 {
		t.Errorf("the present window was %+v and is %+v", present, got)
	}
}

// What one transaction changes is one revision, and what it undoes is none.
func TestATransactionAddsOneRevision(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 50)
	x, y := d.lease(agent(1), 20), d.lease(agent(2), 20)
	d.afterEnd(time.Hour)
	d.must(d.update(ledger.Scope{Grants: []ledger.ID{x.ID, y.ID}}, func(b *ledger.Book) error {
		if _, err := b.CloseWindow(d.account); err != nil {
			return err
		}
		for _, g := range []ledger.Grant{x, y} {
			if _, err := b.Report(reportOf(g, 5, 0, 15, true)); err != nil {
				return err
			}
		}
		return nil
	}))
	d.wantRevisions(revision{Billable: 10, Final: true, Note: "window closed; final"})
}

func TestWhileClocksDisagreeNoWindowIsClosed(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 50)
	d.spend(agent(1), 4)
	d.afterEnd(time.Hour)
	d.store.SetClockSuspect(true)
	if d.closeWindow() {
		t.Error("closed by a clock that cannot be trusted")
	}
	if _, err := d.adjust((*ledger.Book).Credit, d.newAdjustment(5)); !errors.Is(err, ledger.ErrClock) {
		t.Errorf("a credit by that clock: %v, want ErrClock", err)
	}
	d.store.SetClockSuspect(false)
	if !d.closeWindow() {
		t.Error("not closed when the clocks agree again")
	}
}

// TestStatementsSayWhatTheLedgerSays lets reports, credits, releases and time come in any order:
// the latest revision is what the account says, revisions are numbered without gaps, no two that
// follow each other say the same, and what was final stays so.
func TestStatementsSayWhatTheLedgerSays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		class := rapid.SampledFrom([]quota.Class{quota.Hard, quota.Bounded, quota.BestEffort}).Draw(t, "class")
		d := open(t, class, 100, 100)
		d.terms.FinalAfter = rapid.SampledFrom([]time.Duration{0, time.Hour, finalAfter}).Draw(t, "final after")
		d.now = day.End.Add(-time.Minute)
		var leases []ledger.Grant
		for n := range rapid.IntRange(1, 3).Draw(t, "leases") {
			leases = append(leases, d.lease(agent(uint64(n+1)), ledger.Units(10+n)))
		}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"time", "close", "report", "credit", "release", "expire"}).Draw(t, "step") {
			case "time":
				d.now = d.now.Add(time.Duration(rapid.Int64Range(0, int64(30*time.Hour)).Draw(t, "passes")))
			case "close":
				d.closeWindow()
			case "report":
				d.randomReport(t, leases)
			case "credit":
				d.credit(ledger.Units(rapid.IntRange(1, 50).Draw(t, "credit")))
			case "release":
				d.release(ledger.Units(rapid.IntRange(1, 50).Draw(t, "units")))
			case "expire":
				d.expire(0)
			}
			d.checkStatements()
		}
	})
}

func (d *desk) randomReport(t *rapid.T, leases []ledger.Grant) {
	g := rapid.SampledFrom(leases).Draw(t, "lease")
	taken := ledger.Units(rapid.IntRange(0, int(g.Amount)).Draw(t, "taken"))
	_, err := d.tryReport(reportOf(g, taken, 0, g.Amount-taken, rapid.Bool().Draw(t, "final")))
	var refused *ledger.ProtocolError // a final that an earlier report contradicts
	if err != nil && !errors.As(err, &refused) {
		t.Fatal(err)
	}
}

func (d *desk) checkStatements() {
	d.verify()
	a, list := d.state(), d.revisions()
	if int64(len(list)) != a.Revision || a.ClosedAt.IsZero() != (len(list) == 0) {
		d.Fatalf("%d revisions of account %+v", len(list), a)
	}
	for i, s := range list {
		if s.Revision != int64(i+1) || s.Final() != strings.Contains(s.Note, "final") {
			d.Fatalf("revision %d is %+v", i+1, s)
		}
		if i == 0 {
			continue
		}
		before := list[i-1]
		if before.Final() && s.FinalAt != before.FinalAt || s.At.Before(before.At) {
			d.Fatalf("%+v follows %+v", s, before)
		}
		before.Revision, before.At, before.Note = s.Revision, s.At, s.Note
		if before == s {
			d.Fatalf("revision %d says nothing new: %+v", s.Revision, s)
		}
	}
	if len(list) == 0 {
		return
	}
	want := ledger.Statement{
		Account: a.ID, Revision: a.Revision, Billable: a.Settled(), Held: a.Held, Uncertain: a.Uncertain, Outstanding: a.Outstanding,
		Overshoot: a.Overshoot, OverLimit: a.OverLimit(), Limit: quota.LimitOf(100 + a.Credit), Credit: a.Credit,
		Opening: quota.LimitOf(100), OpenedAt: a.OpenedAt, ClosedAt: a.ClosedAt, FinalAt: a.FinalAt,
	}
	latest := list[len(list)-1]
	want.At, want.Note = latest.At, latest.Note
	if latest != want {
		d.Fatalf("the latest revision is\n%+v\nwant\n%+v", latest, want)
	}
	if open := a.Outstanding + a.Held + a.Uncertain; open == 0 && !latest.Final() {
		d.Fatalf("nothing is open, and it is not final: %+v", latest)
	}
}

// What was authorised for an outage keeps a statement open until it is confirmed unspent or used.
func TestAnAllowanceKeepsAStatementOpen(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 50)
	d.terms.Pot = 30
	ask := d.newAsk(agent(1), 30, 1)
	ask.Emergency = true
	ans, err := d.tryAsk(ask)
	d.must(err)
	if ans.Grant.Amount != 30 {
		t.Fatalf("allowed %+v, want 30", ans.Grant)
	}
	d.afterEnd(time.Hour)
	d.closeWindow()
	d.report(ans.Grant, 12, 0, 0, false)
	d.report(ans.Grant, 12, 0, 18, true)
	d.wantRevisions(
		revision{Note: "window closed"},
		revision{Billable: 12, Note: "late report"},
		revision{Billable: 12, Final: true, Note: "late report; final"},
	)
	for i, want := range []ledger.Units{30, 18, 0} {
		if got := d.revisions()[i].Emergency; got != want {
			t.Errorf("revision %d leaves %d of the allowance open, want %d", i+1, got, want)
		}
	}
}
