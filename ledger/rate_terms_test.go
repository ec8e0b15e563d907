package ledger_test

import (
	"errors"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

func TestR1_14ChangingARateRefillsNothing(t *testing.T) {
	t.Parallel()
	d := openRate(t, quota.Hard, perSecond(10), 100, 50)
	d.spend(agent(1), 97)
	set := func(rate, burst ledger.Units) {
		d.apply(func(t *ledger.Terms) { t.Rate, t.Limit = perSecond(rate), quota.LimitOf(burst) })
	}
	d.wantLevel(3)
	d.apply(func(*ledger.Terms) {}) // W5: the same terms anew
	d.wantLevel(3)
	for range 3 {
		set(1000, 100)
		set(10, 50)
		d.wantLevel(-47)
		set(10, 100)
	}
	d.wantLevel(3)
	set(10, 120)
	d.wantLevel(23)
	// What came back until the change came at the old rate.
	d.now = d.now.Add(time.Second)
	set(20, 120)
	d.wantLevel(33)
	d.now = d.now.Add(time.Second)
	d.wantLevel(53)
	if notes := d.events(ledger.EventLimit); len(notes) == 0 || notes[0].Note != "100 at 10 per 1s -> 100 at 1000 per 1s" {
		t.Errorf("the journal says %+v", notes)
	}
}

// What states no window keeps no history for its statement: it would grow for ever.
func TestLimitsOfEndlessWindowsLeaveNoHistory(t *testing.T) {
	t.Parallel()
	for kind, d := range map[string]*desk{
		"rate":  openRate(t, quota.Hard, perSecond(10), 100, 50),
		"slots": openSlots(t, quota.Hard, 20, 2),
	} {
		for limit := range ledger.Units(5) {
			d.apply(func(t *ledger.Terms) { t.Limit = quota.LimitOf(30 + limit) })
		}
		if found, err := d.store.LimitHistory(t.Context(), []ledger.AccountID{d.account}); err != nil || len(found) != 0 {
			t.Errorf("%s: %d limits are kept, %v", kind, len(found), err)
		}
	}
}

func TestW6AnUnlimitedRateToLimited(t *testing.T) {
	t.Parallel()
	d := openRate(t, quota.Hard, perSecond(10), 0, 0)
	d.terms.Limit, d.terms.Budget = quota.NoLimit, quota.NoLimit
	out := d.lease(agent(1), 1_000_000)
	d.spend(agent(1), 5_000_000)
	d.now = d.now.Add(time.Second)
	d.apply(func(t *ledger.Terms) { t.Limit, t.Budget = quota.LimitOf(20), quota.LimitOf(10) })
	d.wantLevel(20)
	if !d.spend(agent(2), 15).Approved() {
		t.Error("15 of 20 denied after the limit came")
	}
	d.report(out, 900_000, 0, 100_000, true)
	d.wantLevel(20) // clamped
	d.lease(agent(1), 10)
	// Without a limit the bucket stands still, and goes on from where it stood.
	d.apply(func(t *ledger.Terms) { t.Limit = quota.NoLimit })
	d.spend(agent(1), 77)
	d.apply(func(t *ledger.Terms) { t.Limit = quota.LimitOf(20) })
	d.wantLevel(10)
}

func TestR2_15GrowthOfARateIsToldRefillIsNot(t *testing.T) {
	t.Parallel()
	d := openRate(t, quota.Hard, perSecond(10), 20, 20)
	g := d.lease(agent(1), 20)
	d.wantReason(d.spend(agent(2), 20), quota.Exhausted)
	grows := func(name string, want bool, act func()) {
		t.Helper()
		generation, told := d.state().Generation, len(d.events(ledger.EventGrew))
		act()
		if grew := d.state().Generation > generation; grew != want {
			t.Errorf("%s: generation grew: %t, want %t", name, grew, want)
		}
		if got := len(d.events(ledger.EventGrew)) > told; got != want {
			t.Errorf("%s: those who were denied hear of it: %t, want %t", name, got, want)
		}
		d.now = d.now.Add(ms)
		d.wantReason(d.spend(agent(2), 20), quota.Exhausted)
	}
	grows("time", false, func() { d.now = d.now.Add(100 * ms); d.spend(agent(2), 20) })
	grows("a return", true, func() { d.report(g, 5, 0, 5, false) })
	grows("a faster rate", true, func() { d.apply(func(t *ledger.Terms) { t.Rate = perSecond(11) }) })
	grows("a slower rate", false, func() { d.apply(func(t *ledger.Terms) { t.Rate = perSecond(10) }) })
	grows("a larger burst", true, func() { d.apply(func(t *ledger.Terms) { t.Limit = quota.LimitOf(25) }) })
	d.spend(agent(2), d.level())
	before := len(d.events(ledger.EventGrew))
	d.report(g, 10, 0, 5, false) // lets the budget go, but there is nothing to lease
	if len(d.events(ledger.EventGrew)) != before {
		t.Error("who waits for an empty bucket is told of room in the budget")
	}
}

func TestSuspectClockRefillsNothing(t *testing.T) {
	t.Parallel()
	d := openRate(t, quota.Hard, perSecond(10), 20, 20)
	g := d.lease(agent(1), 20)
	d.store.SetClockSuspect(true)
	d.now = d.now.Add(20 * time.Hour)
	d.report(g, 5, 0, 2, false)
	d.apply(func(t *ledger.Terms) { t.Limit = quota.LimitOf(21) })
	if _, err := d.trySpend(d.newSpend(agent(1), 1)); !errors.Is(err, ledger.ErrClock) {
		t.Errorf("spend: %v, want ErrClock", err)
	}
	d.wantLevel(3)
	// Nor does an account that is made meanwhile start at that time.
	fresh := d.account
	fresh.Key.Tenant = "globex"
	d.account = fresh
	debt := ledger.Report{ID: d.newID(), Account: fresh, Agent: agent(1), Taken: 4, Unleased: true}
	_, err := d.tryReport(debt)
	d.must(err)
	d.store.SetClockSuspect(false)
	d.now = start
	d.spend(agent(1), 7)
	d.wantLevel(10)
	d.now = start.Add(100 * ms)
	d.wantLevel(11)
}
