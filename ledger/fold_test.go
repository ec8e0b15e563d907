package ledger_test

import (
	"context"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

func TestFoldKeepsTheSums(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Bounded, 100, 30)
	d.store.SetRetention(time.Hour)
	done := d.lease(agent(1), 10)
	d.report(done, 4, 0, 6, true)
	d.spend(agent(1), 5)
	d.wantReason(d.spend(agent(1), 96), quota.Exhausted)
	live, held := d.lease(agent(1), 3), d.lease(agent(2), 7)
	d.expire(time.Minute)
	d.want(books{S: 9, H: 10, A: 81})
	if n := d.fold(time.Hour); n != 0 {
		t.Errorf("%d grants folded within retention", n)
	}
	d.now = d.now.Add(time.Hour + time.Minute)
	if n := d.fold(time.Hour); n != 3 {
		t.Errorf("%d grants folded, want the three that are settled", n)
	}
	d.want(books{S: 9, H: 10, A: 81})
	d.grant(live.ID)
	d.grant(held.ID)
	if n := len(d.records()); n != 2 {
		t.Errorf("%d records left, want the two with held units", n)
	}
	d.report(held, 7, 0, 0, true)
	d.want(books{S: 16, H: 3, A: 81})
}

func TestR2_2FoldedIdsAreTooOld(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 50)
	d.store.SetRetention(time.Hour)
	ahead := d.newAsk(agent(1), 10, 1)
	ahead.ID = idAt(d.now.Add(2*time.Hour), 1) // the agent's clock is ahead
	ans, err := d.tryAsk(ahead)
	d.must(err)
	d.report(ans.Grant, 10, 0, 0, true)
	d.now = d.now.Add(90 * time.Minute)
	d.fold(time.Hour)
	again, err := d.tryAsk(ahead)
	d.must(err)
	if !again.Repeated {
		t.Error("an id was forgotten and granted a second time")
	}
	d.now = d.now.Add(2 * time.Hour)
	if n := d.fold(time.Hour); n != 1 {
		t.Errorf("%d grants folded, want 1", n)
	}
	_, err = d.tryAsk(ahead)
	d.wantCode(err, ledger.CodeTooOld)
	d.want(books{S: 10, A: 90})
}

func TestIdsMustCarryTheirTime(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 50)
	timeless := ledger.ID{6: 0x40, 8: 0x80, 15: 1} // version 4
	ask, spend := d.newAsk(agent(1), 1, 1), d.newSpend(agent(1), 1)
	ask.ID, spend.ID = timeless, timeless
	_, err := d.tryAsk(ask)
	d.wantCode(err, ledger.CodeInvalid)
	_, err = d.trySpend(spend)
	d.wantCode(err, ledger.CodeInvalid)
	d.wantCode(d.cancel(timeless, agent(1)), ledger.CodeInvalid)
	for _, unleased := range []bool{true, false} {
		_, err = d.tryReport(ledger.Report{ID: timeless, Account: d.account, Agent: agent(1), Taken: 1, Unleased: unleased})
		d.wantCode(err, ledger.CodeInvalid)
	}
	if n := len(d.records()); n != 0 {
		t.Errorf("%d records, want none", n)
	}
}

func TestFoldThenReportInOneBook(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 50)
	d.store.SetRetention(time.Hour)
	g := d.lease(agent(1), 10)
	d.report(g, 4, 0, 6, true)
	d.now = d.now.Add(2 * time.Hour)
	before := d.now.Add(-time.Hour)
	d.must(d.update(ledger.Scope{FoldOld: before}, func(b *ledger.Book) error {
		for n := range 2 {
			if folded, err := b.Fold(d.account, before); err != nil || folded != 1-n {
				t.Errorf("folded %d, %v: want %d", folded, err, 1-n)
			}
		}
		_, err := b.Report(reportOf(g, 7, 0, 6, false))
		d.wantCode(err, ledger.CodeTooOld)
		return nil
	}))
	d.want(books{S: 4, A: 96})
}

func TestVerifyFindsWhatDoesNotAddUp(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*ledger.Account){
		"granted":           func(a *ledger.Account) { a.Granted++ },
		"consumed_reported": func(a *ledger.Account) { a.Leased-- },
		"spent":             func(a *ledger.Account) { a.Spent++ },
		"unleased":          func(a *ledger.Account) { a.Unleased++ },
		"outstanding":       func(a *ledger.Account) { a.Outstanding-- },
		"held":              func(a *ledger.Account) { a.Held++ },
		"uncertain":         func(a *ledger.Account) { a.Uncertain++ },
		"expired":           func(a *ledger.Account) { a.Expired++ },
		"revoked":           func(a *ledger.Account) { a.Revoked++ },
		"returned":          func(a *ledger.Account) { a.Returned++ },
	} {
		d := open(t, quota.Hard, 100, 50)
		g := d.lease(agent(1), 10)
		d.report(g, 4, 0, 0, false)
		d.verify()
		d.store.Tamper(d.account, change)
		found := map[string]bool{}
		v, err := d.store.Verify(context.Background(),
			func(diff ledger.Difference) { found[diff.Counter] = true }, func(int, int) {})
		d.must(err)
		if !found[name] || v.Differences == 0 {
			t.Errorf("a changed %s is not found: %v", name, found)
		}
	}
}

func TestAuditFindsImpossibleGrants(t *testing.T) {
	t.Parallel()
	good := ledger.Grant{ID: agent(1), Kind: ledger.KindLease, State: ledger.Closed, Class: quota.Bounded, Amount: 10, Taken: 4, Uncertain: 2}
	audit := func(g ledger.Grant) []ledger.Difference {
		a := ledger.Account{Tally: g.Tally(), Overshoot: quota.MaxUnits}
		k := ledger.NewAudit(a, ledger.Tally{})
		k.Add(g, g.Tally())
		return k.Done()
	}
	if found := audit(good); len(found) != 0 {
		t.Fatalf("a good grant differs: %v", found)
	}
	for name, change := range map[string]func(*ledger.Grant){
		"negative amount":       func(g *ledger.Grant) { g.Amount = -1 },
		"negative use":          func(g *ledger.Grant) { g.Taken = -1 },
		"refund above use":      func(g *ledger.Grant) { g.Refunded = 5 },
		"return above amount":   func(g *ledger.Grant) { g.Back = 11 },
		"uncertain above rest":  func(g *ledger.Grant) { g.Uncertain = 7 },
		"final with a rest":     func(g *ledger.Grant) { g.State, g.Uncertain = ledger.Final, 0 },
		"denied with an amount": func(g *ledger.Grant) { g.State, g.Uncertain = ledger.Denied, 0 },
		"spend of another cost": func(g *ledger.Grant) { *g = ledger.Grant{Kind: ledger.KindSpend, State: ledger.Final, Amount: 3} },
	} {
		bad := good
		change(&bad)
		if len(audit(bad)) == 0 {
			t.Errorf("%s is not found", name)
		}
	}
	k := ledger.NewAudit(ledger.Account{Tally: good.Tally()}, ledger.Tally{})
	k.Add(good, ledger.Tally{})
	if len(k.Done()) == 0 {
		t.Error("a recorded tally that is not the grant's is not found")
	}
	late := ledger.Account{Overshoot: 1}
	late.Limit, late.Unleased = quota.LimitOf(3), 5
	if k := ledger.NewAudit(late, ledger.Tally{Unleased: 5}); len(k.Done()) != 1 {
		t.Error("an overshoot of 2 recorded as 1 is not found")
	}
}

// An account of an endless window goes once a new one would know as much.
func TestEndlessAccountsAreForgottenOnceTheyKnowNothing(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	perSecond := func(spent ledger.Units) ledger.Account {
		return ledger.Account{
			Terms: ledger.Terms{Kind: quota.RateLimit, Limit: quota.LimitOf(100), Rate: quota.Rate{Units: 1, Per: time.Second}},
			Clock: at, Bucket: ledger.Bucket{Spent: spent, At: at},
		}
	}
	slots := func(t ledger.Tally) ledger.Account {
		return ledger.Account{Terms: ledger.Terms{Kind: quota.Concurrency, Limit: quota.LimitOf(20)}, Clock: at, Tally: t}
	}
	change := func(a ledger.Account, f func(*ledger.Account)) ledger.Account { f(&a); return a }
	for name, c := range map[string]struct {
		account ledger.Account
		after   time.Duration
		want    bool
	}{
		"full again by then":       {perSecond(60), time.Minute, true},
		"a second too early":       {perSecond(60), 59 * time.Second, false},
		"it never was spent":       {perSecond(0), time.Millisecond, true},
		"used at that moment":      {perSecond(0), 0, false},
		"leased out":               {change(perSecond(0), func(a *ledger.Account) { a.Outstanding = 1 }), time.Minute, false},
		"of no known age":          {change(perSecond(0), func(a *ledger.Account) { a.Clock = time.Time{} }), time.Minute, false},
		"unlimited":                {change(perSecond(60), func(a *ledger.Account) { a.Limit = quota.NoLimit }), time.Second, true},
		"no slot is in use":        {slots(ledger.Tally{Granted: 5, Returned: 5}), time.Second, true},
		"one is in use":            {slots(ledger.Tally{Granted: 5, Leased: 1}), time.Hour, false},
		"one is held":              {slots(ledger.Tally{Granted: 5, Held: 1}), time.Hour, false},
		"one may be in use":        {slots(ledger.Tally{Granted: 5, Uncertain: 1}), time.Hour, false},
		"a quota for life":         {change(perSecond(0), func(a *ledger.Account) { a.Kind = quota.Period }), time.Hour, false},
		"its window ends some day": {change(perSecond(0), func(a *ledger.Account) { a.ID.Window = quota.NewWindow(at, at.Add(time.Hour)) }), time.Hour, false},
		"made, but never opened":   {ledger.Account{Clock: at}, time.Hour, false},
	} {
		if got := c.account.Forgettable(at.Add(c.after)); got != c.want {
			t.Errorf("%s: forgettable is %v", name, got)
		}
	}
}
