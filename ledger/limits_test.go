package ledger_test

import (
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

func TestR1_3CostAboveTheLimitIsTooLarge(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 10, 10)
	d.wantReason(d.spend(agent(1), 20), quota.TooLarge)
	ask, err := d.tryAsk(d.newAsk(agent(1), 20, 20))
	d.must(err)
	d.wantReason(ask, quota.TooLarge)
	if ask.Account.Limit.Units != 10 {
		t.Errorf("the answer states %d as the largest cost, want 10", ask.Account.Limit.Units)
	}
	// The whole limit is not too large, even when it does not fit now.
	if !d.spend(agent(1), 4).Approved() {
		t.Fatal("4 of 10 denied")
	}
	d.wantReason(d.spend(agent(1), 10), quota.Exhausted)
	d.want(books{S: 4, A: 6})
}

func TestR1_14ChangingALimitCarriesTheSpentStateOver(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 50)
	g := d.lease(agent(1), 20)
	d.report(g, 12, 0, 0, false)
	d.spend(agent(1), 30)
	d.want(books{S: 42, O: 8, A: 50})
	for _, c := range []struct{ limit, headroom quota.Units }{{200, 150}, {60, 10}, {40, -10}, {100, 50}} {
		d.apply(func(t *ledger.Terms) { t.Limit = quota.LimitOf(c.limit) })
		d.want(books{S: 42, O: 8, A: c.headroom})
	}
	if n := len(d.events(ledger.EventLimit)); n != 4 {
		t.Errorf("%d limit changes in the journal, want 4", n)
	}
}

func TestW3RaisedLimit(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Exact, 10, 0)
	burst := func() (passed int) {
		for range 50 {
			if d.spend(agent(1), 1).Approved() {
				passed++
			}
		}
		return passed
	}
	if n := burst(); n != 10 {
		t.Fatalf("%d of 50 pass under 10, want 10", n)
	}
	before := d.state().Generation
	d.apply(func(t *ledger.Terms) { t.Limit = quota.LimitOf(20) })
	grew := d.events(ledger.EventGrew)
	if len(grew) != 1 || grew[0].Generation <= before {
		t.Errorf("those who were denied hear %+v, want one newer generation than %d", grew, before)
	}
	if n := burst(); n != 10 {
		t.Errorf("%d pass after the raise, want 10 more: denials are not charged", n)
	}
	d.want(books{S: 20})
}

func TestW4LoweredLimit(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 10)
	d.spend(agent(1), 80)
	g := d.lease(agent(1), 10)
	d.apply(func(t *ledger.Terms) { t.Limit = quota.LimitOf(50) })
	d.want(books{S: 80, O: 10, A: -40})
	a := d.state()
	if a.OverLimit() != 30 || a.RealisedOvershoot() != 0 || a.Overshoot != 0 {
		t.Errorf("over limit %d, overshoot %d: want 30 and 0, a cut breaks no promise", a.OverLimit(), a.RealisedOvershoot())
	}
	var recalled int
	d.must(d.update(ledger.Scope{Live: true}, func(b *ledger.Book) error {
		var err error
		recalled, err = b.Recall(d.account, "limit cut to 50")
		return err
	}))
	if told := d.events(ledger.EventRevoked); recalled != 1 || len(told) != 1 || told[0].Grant != g.ID || told[0].Units != 10 {
		t.Errorf("recalled %d, told %+v: want the one lease of 10", recalled, told)
	}
	// What is out stays charged until its agent speaks or the lease closes.
	d.want(books{S: 80, O: 10, A: -40})
	d.wantReason(d.spend(agent(2), 1), quota.Exhausted)
	d.report(g, 10, 0, 0, true)
	d.want(books{S: 90, A: -40})

	next := d.account
	next.Window = quota.NewWindow(day.End, day.End.Add(24*time.Hour))
	d.account, d.now = next, day.End
	d.lease(agent(1), 10)
	d.want(books{O: 10, A: 40})
}

func TestW4NothingIsRecalledWhileItFits(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 10)
	d.lease(agent(1), 10)
	d.apply(func(t *ledger.Terms) { t.Limit = quota.LimitOf(10) })
	d.must(d.update(ledger.Scope{Live: true}, func(b *ledger.Book) error {
		n, err := b.Recall(d.account, "cut")
		if n != 0 {
			t.Errorf("%d leases recalled though all is within the limit", n)
		}
		return err
	}))
}

func TestW5SamePolicyAgain(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 10)
	d.spend(agent(1), 97)
	before := d.state().Generation
	d.apply(func(*ledger.Terms) {})
	d.want(books{S: 97, A: 3})
	if got := d.state().Generation; got != before {
		t.Errorf("generation %d after the same terms, want %d", got, before)
	}
	if got := d.ask(agent(1), 5).Grant.Amount; got != 3 {
		t.Errorf("granted %d, want the 3 that are left", got)
	}
	d.want(books{S: 97, O: 3})
	if len(d.events(ledger.EventLimit)) != 0 {
		t.Error("the journal says that the limit changed")
	}
}

func TestW6UnlimitedToLimited(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 0, 100)
	d.terms.Limit = quota.NoLimit
	d.spend(agent(1), 1_000_000)
	g := d.lease(agent(1), 100)
	d.apply(func(t *ledger.Terms) { t.Limit = quota.LimitOf(500_000) })
	d.wantReason(d.spend(agent(1), 1), quota.Exhausted)
	d.report(g, 100, 0, 0, true)
	a := d.state()
	if a.Overshoot != 0 || a.OverLimit() != 500_100 || a.Headroom() != -500_100 {
		t.Errorf("overshoot %d, over limit %d, headroom %d: want 0, 500100, -500100", a.Overshoot, a.OverLimit(), a.Headroom())
	}
	d.apply(func(t *ledger.Terms) { t.Limit = quota.LimitOf(1_000_200) })
	d.lease(agent(1), 100)
}

func TestA4Zero(t *testing.T) {
	t.Parallel()
	for _, class := range []quota.Class{quota.Exact, quota.Hard, quota.Bounded, quota.BestEffort} {
		d := open(t, class, 0, 0)
		d.wantReason(d.spend(agent(1), 1), quota.Exhausted)
		d.wantReason(d.ask(agent(1), 1), quota.Exhausted)
		d.want(books{})
	}
	// A budget of zero forbids leases, not the exact lane.
	d := open(t, quota.Hard, 10, 0)
	d.wantReason(d.ask(agent(1), 1), quota.ExactLane)
	if !d.spend(agent(1), 1).Approved() {
		t.Error("the exact lane denied 1 of 10")
	}
}

func TestA7LargeLimits(t *testing.T) {
	t.Parallel()
	const limit = 1_000_000_000_000
	d := open(t, quota.Hard, limit, limit/10)
	g := d.lease(agent(1), limit/10)
	d.report(g, limit/10-1, 0, 1, true)
	d.spend(agent(1), limit-limit/10)
	d.want(books{S: limit - 1, A: 1})
	d.wantReason(d.spend(agent(1), 2), quota.Exhausted)
	if !d.spend(agent(1), 1).Approved() {
		t.Error("the last unit of 1e12 is denied")
	}
	d.want(books{S: limit})
}

func TestSumsBeyondInt64AreRefused(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 0, 0)
	d.terms.Limit, d.terms.Budget = quota.NoLimit, quota.NoLimit
	d.spend(agent(1), quota.MaxUnits-5)
	d.wantReason(d.spend(agent(1), 6), quota.Exhausted)
	g := d.lease(agent(1), 5)
	_, err := d.tryReport(reportOf(g, 6, 0, 0, false))
	d.wantCode(err, ledger.CodeOverflow)
	d.want(books{S: quota.MaxUnits - 5, O: 5})
	d.report(g, 5, 0, 0, true)
	d.want(books{S: quota.MaxUnits})
}

func TestR2_14ASpentQuotaDeniesOnlyItself(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 50_000_000_000, 500_000_000)
	d.spend(agent(1), 50_000_000_000)
	d.wantReason(d.spend(agent(1), 1), quota.Exhausted)
	d.account.Key.Dimension = "logins"
	if !d.spend(agent(1), 1).Approved() {
		t.Error("another dimension of the same tenant is denied")
	}
	d.account.Key = quota.Key{Tenant: "globex", Dimension: exports.Dimension}
	if !d.spend(agent(1), 1).Approved() {
		t.Error("another tenant's quota of the same dimension is denied")
	}
}
