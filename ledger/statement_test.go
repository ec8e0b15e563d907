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

func (d *desk) adjust(rule func(*ledger.Book, ledger.Adjustment) (ledger.Answer, error), x ledger.Adjustment) (ledger.Answer, error) {
	var ans ledger.Answer
	err := d.update(ledger.Scope{Grants: []ledger.ID{x.ID}, Held: true}, func(b *ledger.Book) (err error) {
		ans, err = rule(b, x)
		return err
	})
	return ans, err
}

func (d *desk) newAdjustment(units ledger.Units) ledger.Adjustment {
	return ledger.Adjustment{ID: d.newID(), Account: d.account, Units: units, Who: "mina", Why: "outage"}
}

func (d *desk) credit(units ledger.Units) ledger.Answer {
	d.Helper()
	ans, err := d.adjust((*ledger.Book).Credit, d.newAdjustment(units))
	d.must(err)
	return ans
}

func (d *desk) release(units ledger.Units) ledger.Answer {
	d.Helper()
	ans, err := d.adjust((*ledger.Book).ReleaseHeld, d.newAdjustment(units))
	d.must(err)
	return ans
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

func TestR2_15ACreditRaisesTheLimitOfItsWindow(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 10, 10)
	d.spend(agent(1), 10)
	d.wantReason(d.spend(agent(1), 1), quota.Exhausted)
	before := d.state().Generation
	ans := d.credit(5)
	if ans.Grant.Amount != 5 || ans.Account.InForce() != quota.LimitOf(15) || ans.Account.Largest != quota.LimitOf(15) {
		t.Errorf("credited: %+v", ans)
	}
	d.want(books{S: 10, A: 5})
	if grew, credits := d.events(ledger.EventGrew), d.events(ledger.EventCredit); len(grew) != 1 || grew[0].Generation <= before ||
		len(credits) != 1 || credits[0].Units != 5 || credits[0].Note != "mina: outage" || credits[0].Grant != ans.Grant.ID {
		t.Errorf("the journal says grew %+v, credit %+v", grew, credits)
	}
	// The largest cost is what the window can take now, and what is spent stays spent.
	d.wantReason(d.spend(agent(1), 16), quota.TooLarge)
	d.wantReason(d.spend(agent(1), 15), quota.Exhausted)
	if !d.spend(agent(1), 5).Approved() {
		t.Error("what was credited cannot be spent")
	}
	// A policy that raises or cuts leaves the credit.
	d.apply(func(t *ledger.Terms) { t.Limit = quota.LimitOf(20) })
	d.want(books{S: 15, A: 10})
	if a := d.state(); a.OverLimit() != 0 || a.Overshoot != 0 {
		t.Errorf("over limit %d, overshoot %d", a.OverLimit(), a.Overshoot)
	}
	limits, err := d.store.LimitHistory(t.Context(), []ledger.AccountID{d.account})
	d.must(err)
	if len(limits) != 2 || limits[0].Limit != quota.LimitOf(15) || limits[0].Note != "credit of 5, mina: outage" || limits[1].Limit != quota.LimitOf(25) {
		t.Errorf("limits %+v", limits)
	}
}

// CASES A2: a credit that the arithmetic cannot hold is refused, and changes nothing.
func TestA2CreditsBeyondInt64AreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		terms func(*ledger.Terms)
		units ledger.Units
		code  ledger.Code
	}{
		"one too many": {func(*ledger.Terms) {}, quota.MaxUnits - 99, ledger.CodeOverflow},
		"all":          {func(*ledger.Terms) {}, quota.MaxUnits, ledger.CodeOverflow},
		"none":         {func(*ledger.Terms) {}, 0, ledger.CodeInvalid},
		"negative":     {func(*ledger.Terms) {}, -5, ledger.CodeInvalid},
		"no limit":     {func(t *ledger.Terms) { t.Limit = quota.NoLimit }, 5, ledger.CodeInvalid},
		"a rate":       {func(t *ledger.Terms) { t.Kind = quota.RateLimit }, 5, ledger.CodeInvalid},
		"concurrency":  {func(t *ledger.Terms) { t.Kind = quota.Concurrency }, 5, ledger.CodeInvalid},
	} {
		d := open(t, quota.Hard, 100, 50)
		d.apply(c.terms)
		before := d.state()
		_, err := d.adjust((*ledger.Book).Credit, d.newAdjustment(c.units))
		d.wantCode(err, c.code)
		if got := d.state(); got != before {
			t.Errorf("%s: the account was %+v and is %+v", name, before, got)
		}
	}
	d := open(t, quota.Hard, 100, 50)
	d.apply(func(*ledger.Terms) {})
	d.credit(quota.MaxUnits - 100)
	d.apply(func(t *ledger.Terms) { t.Limit = quota.LimitOf(200) }) // raised afterwards: the sum stays at its end
	d.want(books{A: quota.MaxUnits})
}

func TestACreditForAWindowThatIsOverAmendsItsStatement(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 50)
	d.spend(agent(1), 80)
	d.apply(func(t *ledger.Terms) { t.Limit = quota.LimitOf(50) })
	d.afterEnd(time.Minute)
	d.closeWindow()
	largest := d.state().Largest
	d.credit(30)
	list := d.revisions()
	if len(list) != 2 || list[0].OverLimit != 30 || list[0].Limit != quota.LimitOf(50) ||
		list[1].OverLimit != 0 || list[1].Limit != quota.LimitOf(80) || list[1].Credit != 30 || list[1].Billable != 80 ||
		list[1].Note != "credit of 30, mina: outage; after final" {
		t.Errorf("revisions %+v", list)
	}
	if got := d.state().Largest; got != largest {
		t.Errorf("the largest limit of its time was %v and is %v", largest, got)
	}
}

func TestReleasedUnitsMayBeGrantedAgain(t *testing.T) {
	t.Parallel()
	for _, class := range []quota.Class{quota.Hard, quota.Bounded} {
		d := open(t, class, 100, 100)
		d.lease(agent(1), 30)
		d.now = d.now.Add(time.Second)
		d.lease(agent(2), 20)
		d.expire(time.Minute)
		d.want(books{H: 50, A: 50})
		x := d.newAdjustment(35)
		for i := range 2 {
			ans, err := d.adjust((*ledger.Book).ReleaseHeld, x)
			d.must(err)
			if ans.Grant.Amount != 35 || ans.Repeated != (i == 1) || ans.Account.Released != 35 {
				t.Errorf("%s, time %d: %+v", class, i+1, ans)
			}
		}
		d.want(books{H: 15, U: 35, A: 85})
		for _, g := range d.records() {
			want := map[ledger.ID]ledger.Units{agent(1): 30, agent(2): 5}[g.Agent]
			if g.Kind == ledger.KindLease && g.Uncertain != want {
				t.Errorf("%s: %d of the lease of %s given back, want %d: the oldest first", class, g.Uncertain, g.Agent, want)
			}
		}
		if events := d.events(ledger.EventReleased); len(events) != 1 || events[0].Units != 35 || events[0].Note != "mina: outage" {
			t.Errorf("the journal says %+v", events)
		}
		if ans := d.release(quota.MaxUnits); ans.Grant.Amount != 15 {
			t.Errorf("%s: all that is left: %d, want 15", class, ans.Grant.Amount)
		}
		if ans := d.release(quota.MaxUnits); ans.Grant.Amount != 0 || ans.Account.Released != 50 {
			t.Errorf("%s: nothing is left, and %d are released", class, ans.Grant.Amount)
		}
	}
}

// What a release gave away and was used after all lifts hard above its limit: by so much, and
// no more.
func TestR2_6HardIsOverByWhatAnOperatorReleasedAtMost(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 100)
	g := d.lease(agent(1), 100)
	d.expire(time.Minute)
	d.wantReason(d.spend(agent(2), 1), quota.Exhausted)
	d.release(40)
	if !d.spend(agent(2), 40).Approved() || d.spend(agent(2), 1).Approved() {
		t.Error("40 were released, and 40 can be spent")
	}
	d.report(g, 100, 0, 0, true)
	d.want(books{S: 140, A: -40})
	if a := d.state(); a.Released != 40 {
		t.Errorf("released %d", a.Released)
	}
}

func TestReleasingAmendsTheStatement(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 50)
	d.lease(agent(1), 20)
	d.afterEnd(time.Hour)
	d.closeWindow()
	d.release(8)
	d.wantRevisions(revision{H: 20, Note: "window closed"}, revision{H: 12, U: 8, Note: "released 8, mina: outage"})
}

// A rate's held units limit nothing: there is nothing to give back.
func TestHeldUnitsOfARateAreNotReleased(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 50)
	d.apply(func(t *ledger.Terms) { t.Kind = quota.RateLimit })
	_, err := d.adjust((*ledger.Book).ReleaseHeld, d.newAdjustment(1))
	d.wantCode(err, ledger.CodeInvalid)
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
