package ledger_test

import (
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

func TestACutRecallsIdleSlotsAndLeavesWorkRunning(t *testing.T) {
	t.Parallel()
	d := openSlots(t, quota.Hard, 20, 20)
	busy, half := d.slots(agent(1), 10, 10).Grant, d.slots(agent(2), 10, 10).Grant
	d.tell(half, 1, 4, 0)
	d.want(books{S: 14, O: 6})
	d.apply(func(t *ledger.Terms) { t.Limit = quota.LimitOf(10) })
	d.now = d.now.Add(20 * time.Second)

	// The work goes on under another ttl; what is idle is asked back.
	ans := d.renew(busy, 1, 10, 0)
	d.wantKept(ans, 10, ledger.Live)
	if ans.Grant.RevokedAt.IsZero() || !ans.Grant.ExpiresAt.Equal(d.now.Add(30*time.Second)) {
		t.Errorf("renewed %+v, want another ttl for what runs and nothing for what is idle", ans.Grant)
	}
	d.wantKept(d.renew(half, 2, 4, 0), 4, ledger.Live)
	if told := d.events(ledger.EventRevoked); len(told) != 2 || told[1].Grant != half.ID || told[1].Units != 6 {
		t.Errorf("agents hear %+v, want both recalled once, 6 idle in the second", told)
	}
	// It stays charged until its agent says so: two more jobs began before the answer arrived.
	d.want(books{S: 14, O: 6, A: -10})
	d.tell(half, 3, 6, 4)
	d.want(books{S: 16, A: -6})
	if a := d.state(); a.Unleased != 0 || a.Revoked != 4 || a.Returned != 0 || a.Overshoot != 0 {
		t.Errorf("%+v, want 4 revoked and no use without a lease", a)
	}
	// Each job that ends gives its slot back, and none begins.
	d.wantKept(d.renew(busy, 2, 3, 7), 3, ledger.Live)
	d.want(books{S: 9, A: 1})
	d.now = d.now.Add(20 * time.Second)
	d.wantKept(d.renew(busy, 3, 3, 7), 3, ledger.Live)
	d.wantKept(d.renew(busy, 4, 0, 10), 0, ledger.Final)
	d.wantKept(d.renew(half, 4, 6, 4), 6, ledger.Live)
	d.want(books{S: 6, A: 4})
}

// A limit that was raised again does not bring a recalled lease back: its agent asks anew.
func TestARecalledLeaseDrains(t *testing.T) {
	t.Parallel()
	d := openSlots(t, quota.Hard, 20, 20)
	g := d.slots(agent(1), 10, 4).Grant
	d.apply(func(t *ledger.Terms) { t.Limit = quota.LimitOf(5) })
	d.must(d.update(ledger.Scope{Live: true}, func(b *ledger.Book) error {
		_, err := b.Recall(d.account, "cut")
		return err
	}))
	d.apply(func(t *ledger.Terms) { t.Limit = quota.LimitOf(20) })
	d.wantKept(d.renew(g, 1, 4, 0), 4, ledger.Live)
	// With nothing in use nothing is prolonged: the lease closes when it would have.
	idle := d.renew(g, 2, 0, 4)
	d.wantKept(idle, 0, ledger.Live)
	d.now = d.now.Add(10 * time.Second)
	again := d.renew(g, 3, 0, 4)
	if !again.Grant.ExpiresAt.Equal(idle.Grant.ExpiresAt) {
		t.Errorf("a lease that keeps nothing was prolonged from %s to %s", idle.Grant.ExpiresAt, again.Grant.ExpiresAt)
	}
	d.want(books{O: 6, A: 14})
	d.expire(40 * time.Second)
	d.want(books{H: 6, A: 14})
}

func TestExposureHoldsIdleSlotsOnly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		class         quota.Class
		first, second ledger.Units
	}{
		{quota.Exact, 5, 1},
		{quota.Hard, 7, 1}, // 5 in use, 2 idle; then the budget of 2 is out
		{quota.Bounded, 7, 1},
		{quota.BestEffort, 7, 1},
	} {
		d := openSlots(t, c.class, 20, 2)
		first, second := d.slots(agent(1), 9, 5).Grant, d.slots(agent(2), 3, 1).Grant
		if first.Amount != c.first || second.Amount != c.second || first.InUse != 5 {
			t.Errorf("%s: granted %d and %d, want %d and %d", c.class, first.Amount, second.Amount, c.first, c.second)
		}
		d.want(books{S: 6, O: c.first - 5, A: 20 - 6 - (c.first - 5)})
		// What idles lets nobody else begin, and that is another answer than too little.
		reason := quota.LeasedOut
		if c.class == quota.Exact {
			reason = quota.Exhausted
		}
		a := d.state()
		free := a.Headroom()
		d.wantReason(d.slots(agent(2), free+1, free+1), reason)
	}
}

func TestTheSizerDecidesOnIdleSlots(t *testing.T) {
	t.Parallel()
	d := openSlots(t, quota.Hard, 20, 8)
	d.slots(agent(1), 3, 1)
	var room ledger.Room
	ask := d.newAsk(agent(1), 9, 4)
	var got ledger.Grant
	d.must(d.update(ledger.Scope{Agents: []ledger.ID{ask.Agent}}, func(b *ledger.Book) error {
		ans, err := b.Ask(ask, d.terms, func(r ledger.Room) ledger.Units { room = r; return quota.MaxUnits })
		got = ans.Grant
		return err
	}))
	if room.Want != 5 || room.Headroom != 13 || room.Exposure != 6 || room.Holds != 2 || room.Agents != 1 {
		t.Errorf("room %+v, want 5 wanted of 13 free, 6 of the budget, 2 idle at hand", room)
	}
	if got.Amount != 9 || got.InUse != 4 {
		t.Errorf("granted %d with %d in use, want 9 and 4", got.Amount, got.InUse)
	}
}

// Bounded gives held slots back when somebody needs them, within its budget, and takes them out
// of the account when the longest run is over.
func TestBoundedSlotsMoveWhenNeeded(t *testing.T) {
	t.Parallel()
	d := openSlots(t, quota.Bounded, 20, 4)
	lost := d.slots(agent(1), 6, 6).Grant
	d.expire(40 * time.Second)
	d.slots(agent(2), 14, 14)
	d.want(books{S: 14, H: 6})
	if got := d.slots(agent(2), 9, 3).Grant; got.Amount != 3 {
		t.Errorf("granted %d (%s), want the 3 that are needed and nothing idle", got.Amount, got.Reason)
	}
	d.want(books{S: 17, H: 3, U: 3})
	d.wantReason(d.slots(agent(3), 2, 2), quota.Exhausted) // 1 of the budget is left
	d.slots(agent(3), 1, 1)
	d.want(books{S: 18, H: 2, U: 4})
	// A report takes from H first, then U.
	d.tell(lost, 1, 3, 0)
	d.want(books{S: 21, U: 3, A: -1})
	if o := d.state().Overshoot; o != 1 {
		t.Errorf("overshoot %d, want 1: 18 began while 3 of the lost ones were in use", o)
	}
	d.expire(longestRun) // the others have closed, and hold their 18
	d.want(books{H: 18, A: 2})
}

func TestALongerRunIsOvershoot(t *testing.T) {
	t.Parallel()
	d := openSlots(t, quota.Hard, 20, 2)
	long := d.slots(agent(1), 5, 5).Grant
	d.expire(40*time.Second + longestRun)
	d.want(books{A: 20})
	full := d.slots(agent(2), 20, 20).Grant
	d.tell(long, 1, 2, 3)
	d.want(books{S: 22, A: -2})
	if o := d.state().Overshoot; o != 2 {
		t.Errorf("overshoot %d, want the 2 that ran too long", o)
	}
	// Its agent may never speak again: it is not charged for ever.
	d.tell(full, 1, 20, 0)
	d.renew(full, 2, 20, 0)
	d.expire(longestRun - time.Microsecond)
	if got := d.grant(long.ID); got.State != ledger.Closed {
		t.Errorf("the long run's lease is %s before another longest run is over", got.State)
	}
	d.expire(time.Microsecond)
	if got := d.grant(long.ID); got.State != ledger.Final {
		t.Errorf("the long run's lease is %s, want final", got.State)
	}
	d.verify()
}

// Committed counts grants that are still live, held or uncertain: the window of a concurrency
// key never ends, so what was promised once would excuse everything.
func TestCommittedSlotsAreForgottenWhenTheyEnd(t *testing.T) {
	t.Parallel()
	d := openSlots(t, quota.Hard, 20, 2)
	g := d.slots(agent(1), 20, 20).Grant
	d.apply(func(t *ledger.Terms) { t.Limit = quota.LimitOf(10) })
	if a := d.state(); a.Committed != 20 || a.OverLimit() != 10 || a.Overshoot != 0 {
		t.Errorf("%+v, want 10 over the new limit and no overshoot", a)
	}
	d.tell(g, 1, 8, 12)
	if got := d.state().Committed; got != 8 {
		t.Errorf("committed %d with 8 left, want 8", got)
	}
	// Use without a lease is overshoot by what it lifts S above the limit, not above 20.
	d.must(func() error {
		_, err := d.tryReport(ledger.Report{ID: d.newID(), Account: d.account, Agent: agent(2), Seq: 1, InUse: 7, Unleased: true})
		return err
	}())
	d.want(books{S: 15, A: -5})
	if o := d.state().Overshoot; o != 5 {
		t.Errorf("overshoot %d, want 5", o)
	}
}

func TestSlotsInUseWithoutALeaseEndToo(t *testing.T) {
	t.Parallel()
	d := openSlots(t, quota.Hard, 20, 2)
	d.apply(func(*ledger.Terms) {})
	debt := ledger.Report{ID: d.newID(), Account: d.account, Agent: agent(1), Seq: 1, InUse: 3, Unleased: true}
	report := func(r ledger.Report) {
		t.Helper()
		_, err := d.tryReport(r)
		d.must(err)
	}
	report(debt)
	d.want(books{S: 3, A: 17})
	d.expire(longestRun - time.Second)
	debt.Seq, debt.InUse = 2, 2 // of which one may just have begun
	report(debt)
	d.expire(longestRun - time.Second)
	d.want(books{S: 2, A: 18})
	d.expire(time.Second)
	d.want(books{A: 20})
	// Use on an id that nobody knows, and above a lease, is use all the same.
	report(ledger.Report{ID: d.newID(), Account: d.account, Agent: agent(1), Seq: 1, InUse: 1})
	g := d.slots(agent(2), 2, 2).Grant
	d.tell(g, 1, 4, 0)
	if a := d.state(); a.Leased != 2 || a.Unleased != 3 {
		t.Errorf("%+v, want 2 in use of the lease, 2 above it and 1 without", a.Tally)
	}
	d.expire(longestRun + 40*time.Second)
	d.want(books{A: 20})
}

func TestAnAskOfSlotsThatIsWithdrawn(t *testing.T) {
	t.Parallel()
	d := openSlots(t, quota.Hard, 20, 5)
	unheard, used := d.slots(agent(1), 4, 2).Grant, d.slots(agent(1), 4, 4).Grant
	for range 2 {
		d.must(d.cancel(unheard.ID, agent(1)))
	}
	d.want(books{S: 4, A: 16})
	d.tell(used, 1, 3, 0)
	d.must(d.cancel(used.ID, agent(1))) // work that runs goes on
	d.want(books{S: 3, A: 17})
	early := d.newAsk(agent(1), 2, 2)
	d.must(d.cancel(early.ID, agent(1)))
	ans, err := d.tryAsk(early)
	d.must(err)
	d.wantReason(ans, quota.Cancelled)
	_, err = d.trySpend(d.newSpend(agent(1), 1))
	d.wantCode(err, ledger.CodeInvalid)
}

func TestM5DeadAgentsSlotsAndShare(t *testing.T) {
	t.Parallel()
	d := openSlots(t, quota.Hard, 50, 10)
	d.terms.TTL, d.terms.Grace = 2*time.Minute, 10*time.Second
	perAgent := func(r ledger.Room) ledger.Units { return r.Budget.Units/ledger.Units(r.Agents) - r.Holds }
	ask := func(n uint64) ledger.Grant {
		t.Helper()
		ask := d.newAsk(agent(n), 21, 1)
		var g ledger.Grant
		d.must(d.update(ledger.Scope{Agents: []ledger.ID{ask.Agent}}, func(b *ledger.Book) error {
			ans, err := b.Ask(ask, d.terms, perAgent)
			g = ans.Grant
			return err
		}))
		return g
	}
	seen := func() (n int) {
		d.must(d.update(ledger.Scope{}, func(b *ledger.Book) error { n = b.Agents(d.account.Key, d.terms); return nil }))
		return n
	}
	var live []ledger.Grant
	for n := range uint64(5) {
		d.slots(agent(n), 1, 1) // all five are there
	}
	for n := range uint64(5) {
		if g := ask(n); g.Amount != 3 { // one in use, floor(10/5) idle
			t.Fatalf("agent %d is granted %d, want 3", n, g.Amount)
		} else if n >= 2 {
			live = append(live, g)
		}
	}
	// Agents 0 and 1 die, 4 idles: it renews, and asks for nothing.
	for seq := int64(1); seq <= 3; seq++ {
		d.now = d.now.Add(time.Minute)
		for _, g := range live {
			d.renew(g, seq, 1, 0)
		}
	}
	d.expire(0)
	a := d.state()
	if a.Held != 6+2+3 || seen() != 3 { // of the dead 2 x 4 slots, and three first ones nobody renewed
		t.Errorf("H is %d, N %d: want 11 and 3", a.Held, seen())
	}
	if g := ask(2); g.Amount != 1+1 { // floor(10/3) less 2 idle at hand
		t.Errorf("granted %d, want 2: the share of the dead is back", g.Amount)
	}
}
