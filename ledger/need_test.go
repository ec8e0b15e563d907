package ledger_test

import (
	"maps"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

func TestTheLastGrantSaysSo(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 30, 30)
	if d.ask(agent(1), 20).Last {
		t.Error("20 of 30 are called the last")
	}
	ask := d.newAsk(agent(2), 20, 1)
	ans, err := d.tryAsk(ask)
	d.must(err)
	if ans.Grant.Amount != 10 || !ans.Last {
		t.Errorf("%d granted, last: %t; want the last 10", ans.Grant.Amount, ans.Last)
	}
	again, err := d.tryAsk(ask)
	d.must(err)
	if !again.Last {
		t.Error("the repeat does not say that it was the last")
	}
	if d.ask(agent(3), 1).Last {
		t.Error("a denial is called the last grant")
	}
	rate := openRate(t, quota.Hard, perSecond(10), 30, 30)
	if rate.ask(agent(1), 30).Last {
		t.Error("a bucket fills by itself: no grant is the last")
	}
}

func TestDrainedIsToldOnceAGeneration(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 30, 30)
	told := func() (n int) { return len(d.events(ledger.EventDrained)) }
	d.spend(agent(1), 10)
	g := d.lease(agent(2), 20)
	if events := d.events(ledger.EventDrained); len(events) != 1 || events[0].Generation != d.state().Generation || events[0].Note != "leased_out" {
		t.Fatalf("told %+v, want once, at the present generation, that it is leased out", events)
	}
	d.wantReason(d.spend(agent(1), 1), quota.LeasedOut)
	d.wantReason(d.ask(agent(3), 1), quota.LeasedOut)
	if told() != 1 {
		t.Errorf("told %d times in one generation", told())
	}
	d.report(g, 5, 0, 15, true)
	d.spend(agent(1), 15)
	if events := d.events(ledger.EventDrained); len(events) != 2 || events[1].Generation <= events[0].Generation || events[1].Note != "exhausted" {
		t.Errorf("told %+v, want again at a newer generation, exhausted", events)
	}
	// Nobody else to tell.
	alone := open(t, quota.Hard, 30, 30)
	alone.spend(agent(1), 30)
	if n := len(alone.events(ledger.EventDrained)); n != 0 {
		t.Errorf("told %d times to the only agent", n)
	}
}

func TestDrainedWaitsForWhatBoundedMayGiveBack(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Bounded, 30, 10)
	d.lease(agent(1), 10)
	d.expire(time.Minute)
	if ans := d.spend(agent(2), 20); !ans.Approved() || ans.Last {
		t.Fatalf("approved %t, last %t: 10 held ones can still be spent", ans.Approved(), ans.Last)
	}
	d.spend(agent(1), 9)
	if n := len(d.events(ledger.EventDrained)); n != 0 {
		t.Fatalf("told %d times while one unit was left", n)
	}
	if ans := d.spend(agent(1), 1); !ans.Last {
		t.Error("the last unit is not called so")
	}
	if n := len(d.events(ledger.EventDrained)); n != 1 {
		t.Errorf("told %d times, want once", n)
	}
}

func TestIdleUnitsAreWantedWhereTheyHelp(t *testing.T) {
	t.Parallel()
	var d *desk
	deny := func(ans ledger.Answer, reason quota.Reason) { t.Helper(); d.wantReason(ans, reason) }
	for name, c := range map[string]struct {
		want bool
		act  func()
	}{
		"leased out": {true, func() {
			d = open(t, quota.Hard, 30, 30)
			d.lease(agent(1), 30)
			deny(d.spend(agent(2), 5), quota.LeasedOut)
		}},
		"the budget is out": {true, func() {
			d = open(t, quota.Hard, 100, 10)
			d.lease(agent(1), 10)
			deny(d.ask(agent(2), 5), quota.ExactLane)
		}},
		"own units": {false, func() {
			d = open(t, quota.Hard, 30, 30)
			d.lease(agent(1), 30)
			deny(d.ask(agent(1), 5), quota.LeasedOut)
		}},
		"spent": {false, func() {
			d = open(t, quota.Hard, 30, 30)
			d.spend(agent(1), 25)
			d.lease(agent(1), 5)
			deny(d.spend(agent(2), 10), quota.Exhausted)
		}},
		"too large": {false, func() {
			d = open(t, quota.Hard, 30, 30)
			d.lease(agent(1), 30)
			deny(d.spend(agent(2), 31), quota.TooLarge)
		}},
		"a slow bucket": {true, func() {
			d = openRate(t, quota.Hard, quota.Rate{Units: 1, Per: time.Hour}, 30, 30)
			d.lease(agent(1), 30)
			deny(d.spend(agent(2), 1), quota.Exhausted)
		}},
		"a bucket that fills sooner": {false, func() {
			d = openRate(t, quota.Hard, perSecond(100), 30, 30)
			d.lease(agent(1), 30)
			deny(d.spend(agent(2), 10), quota.Exhausted)
		}},
	} {
		c.act()
		if got := len(d.events(ledger.EventWanted)); (got == 1) != c.want || got > 1 {
			t.Errorf("%s: holders are asked %d times, want %t", name, got, c.want)
		}
		d.verify()
	}
}

func TestHoldersAreAskedAtMostEvery100Milliseconds(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 30, 30)
	d.lease(agent(1), 30)
	for range 25 { // 250 ms
		d.wantReason(d.spend(agent(2), 1), quota.LeasedOut)
		d.now = d.now.Add(10 * ms)
	}
	events := d.events(ledger.EventWanted)
	if len(events) != 3 {
		t.Fatalf("asked %d times in 250 ms, want 3", len(events))
	}
	for i, e := range events {
		if at := start.Add(time.Duration(i) * 100 * ms); !e.At.Equal(at) || e.Units != 1 || e.Agent != agent(2) {
			t.Errorf("asked at %s for %d of %s, want 1 at %s", e.At, e.Units, e.Agent, at)
		}
	}
}

func TestTheSizerKnowsWhatOthersWant(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 1000, 1000)
	ask := func(a ledger.ID, region string, want ledger.Units) (others map[ledger.Demand]int) {
		x := d.newAsk(a, want, 1)
		x.Region = region
		d.must(d.update(ledger.Scope{Agents: []ledger.ID{a}}, func(b *ledger.Book) error {
			_, err := b.Ask(x, d.terms, func(r ledger.Room) ledger.Units {
				if r.Region != region {
					t.Errorf("the sizer is told of an agent in %q, want %q", r.Region, region)
				}
				others = maps.Collect(r.Others)
				return 1
			})
			return err
		}))
		return others
	}
	if got := ask(agent(1), "eu", 50); len(got) != 0 {
		t.Errorf("the first one sees %v", got)
	}
	ask(agent(2), "us", 20)
	ask(agent(2), "us", 30)
	d.spend(agent(3), 700) // what a spender would want to hold is not known
	got := ask(agent(4), "us", 1)
	want := map[ledger.Demand]int{{Region: "eu", Units: 50}: 1, {Region: "us", Units: 30}: 1, {Region: "eu"}: 1}
	if !maps.Equal(got, want) {
		t.Errorf("the fourth sees %v, want %v", got, want)
	}
	if got := ask(agent(5), "us", 30); got[ledger.Demand{Region: "us", Units: 30}] != 1 || len(got) != 4 {
		t.Errorf("the fifth wants what the second does, and sees %v", got)
	}
	if got := ask(agent(6), "us", 1); got[ledger.Demand{Region: "us", Units: 30}] != 2 || len(got) != 4 {
		t.Errorf("the sixth sees %v, want the two of one demand together", got)
	}
	// Who has not been seen for long wants nothing.
	d.now = d.now.Add(59 * time.Second)
	ask(agent(2), "eu", 30)
	d.now = d.now.Add(4750 * time.Millisecond) // a minute and a sixteenth since the others asked
	if got := ask(agent(5), "eu", 1); !maps.Equal(got, map[ledger.Demand]int{{Region: "eu", Units: 30}: 1}) {
		t.Errorf("then the fifth sees %v, want the second, who moved", got)
	}
}
