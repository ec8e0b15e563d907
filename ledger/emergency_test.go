package ledger_test

import (
	"errors"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// openPot starts a desk on a day's window with a pot for outages.
func openPot(t tb, class quota.Class, limit, pot quota.Units) *desk {
	t.Helper()
	d := open(t, class, limit, limit)
	d.terms.Pot = pot
	return d
}

func (d *desk) newEmergency(a ledger.ID, want, need ledger.Units) ledger.Ask {
	ask := d.newAsk(a, want, need)
	ask.Emergency = true
	return ask
}

// emergency asks for an allowance of want, of which one would help.
func (d *desk) emergency(a ledger.ID, want ledger.Units) ledger.Answer {
	d.Helper()
	ans, err := d.tryAsk(d.newEmergency(a, want, 1))
	d.must(err)
	return ans
}

// wantPot states E, and what of it is confirmed as spent.
func (d *desk) wantPot(emergency, extended ledger.Units) {
	d.Helper()
	if a := d.state(); a.Emergency != emergency || a.Extended != extended {
		d.Errorf("E is %d, spent of it %d: want %d and %d", a.Emergency, a.Extended, emergency, extended)
	}
	d.verify()
}

func TestAnAllowanceComesFromThePotAlone(t *testing.T) {
	t.Parallel()
	d := openPot(t, quota.Hard, 100, 40)
	d.spend(agent(1), 100)
	ans := d.emergency(agent(1), 30)
	g := ans.Grant
	if g.Amount != 30 || g.Kind != ledger.KindEmergency || !g.ExpiresAt.Equal(day.End) ||
		!g.ClosesAt.Equal(day.End.Add(10*time.Second)) || g.TTL != day.End.Sub(start) {
		t.Errorf("granted %+v, want 30 until the day ends", g)
	}
	a := d.state()
	if a.Granted != 0 || a.Outstanding != 0 || a.Committed != 100 || a.Bound() != 130 {
		t.Errorf("%+v: an allowance is outside O, committed and what was granted, and in the bound", a)
	}
	d.want(books{S: 100})
	d.wantPot(30, 0)
	// What is spent of it is in S too; what is above it is use without a lease.
	d.report(g, 12, 0, 0, false)
	d.want(books{S: 112, A: -12})
	d.wantPot(30, 12)
	d.report(g, 33, 0, 0, false)
	d.want(books{S: 133, A: -33})
	d.wantPot(30, 30)
	if got := d.state(); got.Unleased != 3 || got.Bound() != 133 {
		t.Errorf("%d unleased, bound %d: want 3 and 133", got.Unleased, got.Bound())
	}
}

func TestAFinalReportLeavesWhatWasTaken(t *testing.T) {
	t.Parallel()
	for _, class := range []quota.Class{quota.Hard, quota.Bounded, quota.BestEffort} {
		d := openPot(t, class, 100, 40)
		g := d.emergency(agent(1), 40).Grant
		d.report(g, 5, 0, 10, false)
		d.wantPot(30, 5)
		d.report(g, 8, 2, 20, false)
		d.wantPot(20, 6)
		d.report(g, 8, 2, 34, true)
		d.wantPot(6, 6)
		d.want(books{S: 6, A: 94})
		if got := d.emergency(agent(2), 40).Grant.Amount; got != 20 { // floor(40/2) of the 34 that are left
			t.Errorf("%s: the next agent gets %d, want 20", class, got)
		}
	}
}

func TestTheShareOfAPot(t *testing.T) {
	t.Parallel()
	d := openPot(t, quota.Hard, 100, 100)
	for n := range uint64(6) {
		d.spend(agent(n), 1) // six agents are there
	}
	for n := range uint64(6) {
		if got := d.emergency(agent(n), 50).Grant.Amount; got != 16 { // floor(100/6)
			t.Errorf("agent %d gets %d, want 16", n, got)
		}
	}
	d.wantReason(d.emergency(agent(3), 1), quota.LeasedOut) // one an agent
	d.wantPot(96, 0)
	if got := d.emergency(agent(7), 50).Grant.Amount; got != 4 { // the rest of the pot
		t.Errorf("one more agent gets %d, want 4", got)
	}
	d.wantReason(d.emergency(agent(8), 1), quota.Exhausted)
	// A smaller pot takes nothing back, and gives nothing until it is below.
	d.apply(func(t *ledger.Terms) { t.Pot = 50 })
	d.wantReason(d.emergency(agent(9), 1), quota.Exhausted)
	d.wantPot(100, 0)
	d.apply(func(t *ledger.Terms) { t.Pot = 0 })
	d.wantReason(d.emergency(agent(9), 1), quota.Exhausted)
}

func TestAnAllowanceAskedForAgainIsTheSame(t *testing.T) {
	t.Parallel()
	d := openPot(t, quota.Hard, 100, 40)
	ask := d.newEmergency(agent(1), 30, 10)
	first, err := d.tryAsk(ask)
	d.must(err)
	again, err := d.tryAsk(ask)
	d.must(err)
	if !again.Repeated || again.Grant != first.Grant {
		t.Errorf("first %+v, then %+v", first.Grant, again.Grant)
	}
	lease := ask
	lease.Emergency = false
	_, err = d.tryAsk(lease)
	d.wantCode(err, ledger.CodeTerms)
	d.wantPot(30, 0)
	// An ask that is withdrawn gives all back, before or after it arrives.
	d.must(d.cancel(ask.ID, agent(1)))
	d.wantPot(0, 0)
	late := d.newEmergency(agent(1), 30, 10)
	d.must(d.cancel(late.ID, agent(1)))
	ans, err := d.tryAsk(late)
	d.must(err)
	d.wantReason(ans, quota.Cancelled)
	d.wantPot(0, 0)
}

func TestARestartedAgentHasNoAllowance(t *testing.T) {
	t.Parallel()
	d := openPot(t, quota.BestEffort, 100, 40)
	old := d.emergency(agent(1), 30).Grant
	// The next incarnation cannot report on the old one's, and gets what is left of the pot.
	stolen := reportOf(old, 0, 0, 30, true)
	stolen.Agent = agent(2)
	_, err := d.tryReport(stolen)
	d.wantCode(err, ledger.CodeForeign)
	if got := d.emergency(agent(2), 30).Grant.Amount; got != 10 {
		t.Errorf("the next incarnation gets %d, want the 10 that are left", got)
	}
	// What nobody confirms stays charged when the window is over, whatever the class.
	d.now = day.End.Add(10 * time.Second)
	d.expire(0)
	if got := d.grant(old.ID); got.State != ledger.Closed {
		t.Errorf("the allowance is %s, want closed", got.State)
	}
	d.wantPot(40, 0)
	d.want(books{A: 100})
	d.report(old, 7, 0, 0, false) // late, and not the last word
	d.wantPot(40, 7)
	d.report(old, 7, 0, 23, true)
	d.wantPot(17, 7)
}

func TestTheNextWindowsAllowanceIsTakenAhead(t *testing.T) {
	t.Parallel()
	d := openPot(t, quota.Hard, 100, 40)
	d.emergency(agent(1), 40)
	tomorrow := quota.NewWindow(day.End, day.End.Add(24*time.Hour))
	d.account.Window = tomorrow
	g := d.emergency(agent(1), 25).Grant
	if g.Amount != 25 || !g.StartsAt.Equal(tomorrow.Start) || !g.ExpiresAt.Equal(tomorrow.End) {
		t.Errorf("granted %+v, want 25 of tomorrow's pot", g)
	}
	d.wantPot(25, 0)
	d.account.Window = day
	d.wantPot(40, 0)
	d.now = day.End
	_, err := d.tryAsk(d.newEmergency(agent(1), 1, 1))
	if !errors.Is(err, ledger.ErrWindow) {
		t.Errorf("asked in a window that is over: %v, want ErrWindow", err)
	}
	slots := openSlots(t, quota.Hard, 20, 2)
	slots.terms.Pot = 5
	_, err = slots.tryAsk(slots.newEmergency(agent(1), 1, 1))
	slots.wantCode(err, ledger.CodeInvalid)
}

func TestACutLeavesAllowancesAlone(t *testing.T) {
	t.Parallel()
	d := openPot(t, quota.Hard, 100, 40)
	d.emergency(agent(1), 40)
	d.lease(agent(1), 20)
	d.apply(func(t *ledger.Terms) { t.Limit = quota.LimitOf(5) })
	d.must(d.update(ledger.Scope{Live: true}, func(b *ledger.Book) error {
		n, err := b.Recall(d.account, "cut")
		if n != 1 {
			t.Errorf("recalled %d, want the lease alone", n)
		}
		return err
	}))
	d.wantPot(40, 0)
}

func TestAnAllowanceStaysUntilItsFinalReport(t *testing.T) {
	t.Parallel()
	d := openPot(t, quota.Hard, 100, 40)
	d.store.SetRetention(time.Hour)
	open, done := d.emergency(agent(1), 20).Grant, d.emergency(agent(2), 20).Grant
	d.report(done, 3, 0, 17, true)
	d.now = day.End.Add(3 * time.Hour)
	d.expire(0)
	d.now = d.now.Add(3 * time.Hour)
	if n := d.fold(time.Hour); n != 1 {
		t.Errorf("%d folded, want the one that is final", n)
	}
	d.wantPot(23, 3)
	d.report(open, 4, 0, 16, true)
	d.wantPot(7, 7)
}
