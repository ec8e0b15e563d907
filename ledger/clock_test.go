package ledger_test

import (
	"errors"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

func TestD9AtTheBoundary(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 50)
	old := d.account
	d.now = day.Start
	d.lease(agent(1), 1) // the first instant is the window's
	d.now = day.End.Add(-time.Microsecond)
	g := d.lease(agent(1), 10) // and the last one
	if !g.ExpiresAt.Equal(day.End) || g.TTL != time.Microsecond || !g.ClosesAt.Equal(day.End.Add(10*time.Second)) {
		t.Errorf("the lease ends %s after %s and closes %s: want the window's end, and grace after it", g.ExpiresAt, g.TTL, g.ClosesAt)
	}
	d.now = day.End
	if _, err := d.tryAsk(d.newAsk(agent(1), 1, 1)); !errors.Is(err, ledger.ErrWindow) {
		t.Errorf("ask at the end: %v, want ErrWindow", err)
	}
	if _, err := d.trySpend(d.newSpend(agent(1), 1)); !errors.Is(err, ledger.ErrWindow) {
		t.Errorf("spend at the end: %v, want ErrWindow", err)
	}
	d.account.Window = quota.NewWindow(day.End, day.End.Add(24*time.Hour))
	d.lease(agent(1), 5)
	d.want(books{O: 5, A: 95})
	d.now = day.End.Add(-time.Microsecond)
	d.account.Key.Dimension = "other"
	if _, err := d.trySpend(d.newSpend(agent(1), 1)); !errors.Is(err, ledger.ErrWindow) {
		t.Errorf("spend before the start: %v, want ErrWindow", err)
	}
	// The old window's leases close in the old window.
	d.account = old
	d.now = day.End.Add(10 * time.Second)
	d.expire(0)
	d.want(books{H: 11, A: 89})
}

func TestALeaseClosesAtExpiryPlusGrace(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 50)
	d.lease(agent(1), 10)
	for _, c := range []struct {
		at   time.Duration
		want books
	}{
		{30 * time.Second, books{O: 10, A: 90}},
		{40*time.Second - time.Microsecond, books{O: 10, A: 90}},
		{40 * time.Second, books{H: 10, A: 90}},
	} {
		d.now = start.Add(c.at)
		// All live leases are at hand: it is the rule that leaves them open.
		d.must(d.update(ledger.Scope{Live: true}, func(b *ledger.Book) error { return b.Expire(d.account) }))
		d.want(c.want)
	}
}

func TestDueLeasesCloseBeforeADecision(t *testing.T) {
	t.Parallel()
	d := open(t, quota.BestEffort, 10, 10)
	d.lease(agent(1), 10)
	d.now = d.now.Add(40 * time.Second)
	if !d.spend(agent(2), 10).Approved() {
		t.Error("a spend is denied for the units of a lease that was due")
	}
	d.want(books{S: 10, U: 10})
}

func TestAClockThatGoesBackAddsNothing(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 50)
	d.now = day.End.Add(-time.Second)
	d.spend(agent(1), 1)
	d.now = start
	g := d.lease(agent(1), 10)
	if want := day.End.Add(-time.Second); !g.IssuedAt.Equal(want) {
		t.Errorf("issued at %s, want the latest reading, %s", g.IssuedAt, want)
	}
	if got := d.state().Clock; !got.Equal(day.End.Add(-time.Second)) {
		t.Errorf("the account's clock is %s", got)
	}
}

func TestSuspectClockDoesNotRatchet(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 50)
	g := d.lease(agent(1), 10)
	d.store.SetClockSuspect(true)
	d.now = start.Add(23 * time.Hour)
	d.report(g, 3, 0, 0, false)
	d.must(d.cancel(d.newID(), agent(1)))
	if got := d.state().Clock; !got.Equal(start) {
		t.Errorf("a suspect reading moved the account's clock to %s", got)
	}
	d.store.SetClockSuspect(false)
	d.now = start.Add(time.Second)
	if next := d.lease(agent(1), 10); !next.IssuedAt.Equal(start.Add(time.Second)) {
		t.Errorf("issued at %s, want one second after the start", next.IssuedAt)
	}
}

func TestSuspectClockLeavesANewAccountAlone(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 50)
	d.store.SetClockSuspect(true)
	d.now = start.Add(20 * time.Hour)
	d.apply(func(*ledger.Terms) {})
	d.store.SetClockSuspect(false)
	d.now = start
	if g := d.lease(agent(1), 10); !g.IssuedAt.Equal(start) {
		t.Errorf("issued at %s, want %s", g.IssuedAt, start)
	}
}

func TestSuspectClockClosesNothingThatWasDue(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 50)
	d.lease(agent(1), 10)
	late := d.lease(agent(2), 5)
	d.now = start.Add(time.Minute)
	d.report(late, 1, 0, 0, false) // the account's clock is past both closes
	d.store.SetClockSuspect(true)
	d.expire(0)
	d.want(books{S: 1, O: 14, A: 85})
	d.store.SetClockSuspect(false)
	d.expire(0)
	d.want(books{S: 1, H: 14, A: 85})
}

func TestSuspectClockDecidesNothing(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 50)
	g := d.lease(agent(1), 10)
	d.store.SetClockSuspect(true)
	for _, at := range []time.Time{start.Add(time.Minute), day.End.Add(time.Minute)} {
		d.now = at
		d.expire(0)
		if _, err := d.tryAsk(d.newAsk(agent(1), 1, 1)); !errors.Is(err, ledger.ErrClock) {
			t.Errorf("ask: %v, want ErrClock", err)
		}
		if _, err := d.trySpend(d.newSpend(agent(1), 1)); !errors.Is(err, ledger.ErrClock) {
			t.Errorf("spend: %v, want ErrClock", err)
		}
		d.want(books{O: 10, A: 90})
	}
	// Reports do not depend on time.
	d.report(g, 4, 0, 6, true)
	d.want(books{S: 4, A: 96})
}

func TestNCountsAgentsSeenLately(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 50)
	agents := func() (n int) {
		d.must(d.update(ledger.Scope{}, func(b *ledger.Book) error { n = b.Agents(exports, d.terms); return nil }))
		return n
	}
	if n := agents(); n != 1 {
		t.Errorf("N = %d for a key nobody uses, want 1: it divides", n)
	}
	d.lease(agent(1), 1)
	d.spend(agent(2), 1)
	d.wantReason(d.spend(agent(3), 1000), quota.TooLarge)
	if n := agents(); n != 3 {
		t.Errorf("N = %d after a lease, a spend and a denial, want 3", n)
	}
	d.now = start.Add(30 * time.Second)
	d.lease(agent(1), 1)
	// As long as they must, and a sixteenth longer, because notes may be older than what they note.
	for after, want := range map[time.Duration]int{time.Minute: 3, 63750*time.Millisecond - 1: 3, 63750 * time.Millisecond: 1} {
		d.now = start.Add(after)
		if n := agents(); n != want {
			t.Errorf("N = %d after %s, want %d", n, after, want)
		}
	}
	// Long leases count until they close, and N belongs to the key, not the window.
	d.apply(func(t *ledger.Terms) { t.TTL, t.Grace = time.Hour, time.Minute })
	d.account.Window = quota.NewWindow(day.End, day.End.Add(24*time.Hour))
	if n := agents(); n != 3 {
		t.Errorf("N = %d with a ttl of an hour, want 3", n)
	}
}

// A note of an agent is a row to write: steady asks write one a sixteenth of the time that it counts
// for, and yet nobody counts for less than that.
func TestAnAgentIsNotedAgainWhenTheNoteIsOldOrWrong(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 1000, 1000)
	var agents int
	ask := func(at time.Duration, region string, want ledger.Units) (rows int) {
		d.now = start.Add(at)
		x := d.newAsk(agent(1), want, 1)
		x.Region = region
		d.must(d.update(ledger.Scope{Agents: []ledger.ID{x.Agent}}, func(b *ledger.Book) error {
			_, err := b.Ask(x, d.terms, func(ledger.Room) ledger.Units { return 1 })
			agents, rows = b.Agents(exports, d.terms), len(b.Changes().Participants)
			return err
		}))
		return rows
	}
	for _, tc := range []struct {
		at     time.Duration
		region string
		want   ledger.Units
		rows   int
	}{
		{0, "eu", 10, 1}, // new
		{time.Second, "eu", 10, 0},
		{3750 * time.Millisecond, "eu", 10, 0}, // 60 s / 16
		{3751 * time.Millisecond, "eu", 10, 1},
		{4 * time.Second, "us", 10, 1},
		{5 * time.Second, "us", 11, 1},
		{8750 * time.Millisecond, "us", 11, 0},
	} {
		if got := ask(tc.at, tc.region, tc.want); got != tc.rows || agents != 1 {
			t.Errorf("an ask of %d in %s at %s writes %d rows, and N = %d; want %d and 1", tc.want, tc.region, tc.at, got, agents, tc.rows)
		}
	}
	d.now = start.Add(8750*time.Millisecond + time.Minute - 1)
	d.spend(agent(2), 1)
	d.must(d.update(ledger.Scope{}, func(b *ledger.Book) error { agents = b.Agents(exports, d.terms); return nil }))
	if agents != 2 {
		t.Errorf("N = %d a minute less a moment after the last ask, want the two", agents)
	}
}

func TestGenerationGrowsWithHeadroomOrExposure(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Bounded, 100, 20)
	d.spend(agent(1), 1)
	grows := func(name string, want bool, act func()) {
		t.Helper()
		before := d.state().Generation
		act()
		if got := d.state().Generation; (got > before) != want || got < before {
			t.Errorf("%s: generation %d -> %d, want growth: %v", name, before, got, want)
		}
	}
	var g ledger.Grant
	grows("a grant", false, func() { g = d.lease(agent(1), 10) })
	grows("a denial", false, func() { d.spend(agent(1), 99) })
	grows("a repeated report of nothing", false, func() { d.report(g, 0, 0, 0, false) })
	grows("use: O falls", true, func() { d.report(g, 4, 0, 0, false) })
	grows("the same report again", false, func() { d.report(g, 4, 0, 0, false) })
	grows("a return", true, func() { d.report(g, 4, 0, 1, false) })
	grows("a close", true, func() { d.expire(40 * time.Second) })
	grows("a spend", false, func() { d.spend(agent(1), 50) })
	grows("a larger limit", true, func() { d.apply(func(t *ledger.Terms) { t.Limit = quota.LimitOf(110) }) })
	grows("a smaller limit", false, func() { d.apply(func(t *ledger.Terms) { t.Limit = quota.LimitOf(100) }) })
	grows("a larger budget", true, func() { d.apply(func(t *ledger.Terms) { t.Budget = quota.LimitOf(30) }) })
	grows("a move", false, func() { d.spend(agent(1), 43) })
	grows("a late final", true, func() { d.report(g, 4, 0, 6, true) })
}

// What an agent takes back or reports while the clock is astray is not turned away for good: its
// ask may still be on its way, and would be granted to nobody.
func TestSuspectClockMakesNoIdTooOld(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 50)
	d.store.SetRetention(time.Hour)
	late := d.newAsk(agent(1), 10, 1)
	d.store.SetClockSuspect(true)
	d.now = start.Add(2 * time.Hour)
	if err := d.cancel(late.ID, agent(1)); !errors.Is(err, ledger.ErrClock) {
		t.Errorf("a withdrawal of an ask on its way: %v, want ErrClock", err)
	}
	d.store.SetClockSuspect(false)
	d.now = start.Add(time.Second)
	d.must(d.cancel(late.ID, agent(1)))
	ans, err := d.tryAsk(late)
	d.must(err)
	if ans.Grant.Amount != 0 || ans.Grant.Reason != quota.Cancelled {
		t.Errorf("the ask that came late got %d %q, want nothing: it was withdrawn", ans.Grant.Amount, ans.Grant.Reason)
	}
}
