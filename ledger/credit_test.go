package ledger_test

import (
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

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

// Slots of a lost agent are released like other units, and end when its longest run has.
func TestReleasedSlotsMayBeTakenAgain(t *testing.T) {
	t.Parallel()
	d := openSlots(t, quota.Hard, 10, 10)
	d.slots(agent(1), 10, 10)
	d.expire(time.Minute)
	d.want(books{H: 10})
	d.wantReason(d.slots(agent(2), 1, 1), quota.Exhausted)
	if ans := d.release(4); ans.Grant.Amount != 4 {
		t.Errorf("released %d, want 4", ans.Grant.Amount)
	}
	d.want(books{H: 6, U: 4, A: 4})
	if ans := d.slots(agent(2), 4, 4); ans.Grant.Amount != 4 {
		t.Errorf("after the release: %+v", ans.Grant)
	}
}
