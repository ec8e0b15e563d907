package ledger_test

import (
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

func TestR2_13TheExactLaneIsExact(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Exact, 5, 0)
	passed := 0
	for range 9 {
		if d.spend(agent(1), 1).Approved() {
			passed++
		}
	}
	if passed != 5 {
		t.Errorf("%d of 9 pass under 5", passed)
	}
	d.want(books{S: 5})
	if a := d.state(); a.Overshoot != 0 || a.Committed != 5 {
		t.Errorf("overshoot %d, committed %d: want 0 and 5", a.Overshoot, a.Committed)
	}
}

func TestASpendIsOneItemHoweverOftenItIsSent(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Exact, 10, 0)
	yes, no := d.newSpend(agent(1), 8), d.newSpend(agent(1), 3)
	for n := range 3 {
		ans, err := d.trySpend(yes)
		d.must(err)
		if !ans.Approved() || ans.Repeated != (n > 0) {
			t.Errorf("answer %d: %+v", n, ans)
		}
		ans, err = d.trySpend(no)
		d.must(err)
		d.wantReason(ans, quota.Exhausted)
	}
	d.want(books{S: 8, A: 2})
	other := yes
	other.Cost = 2
	_, err := d.trySpend(other)
	d.wantCode(err, ledger.CodeTerms)
	for _, cost := range []ledger.Units{0, -3} {
		_, err := d.trySpend(d.newSpend(agent(1), cost))
		d.wantCode(err, ledger.CodeInvalid)
	}
	d.want(books{S: 8, A: 2})
}

func TestCoalescedSpendsAreDecidedInOrder(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Exact, 10, 0)
	costs := []ledger.Units{4, 5, 3, 1, 1}
	want := []bool{true, true, false, true, false}
	items := make([]ledger.Spend, len(costs))
	for i, cost := range costs {
		items[i] = d.newSpend(agent(1), cost)
	}
	d.must(d.update(ledger.Scope{}, func(b *ledger.Book) error {
		for i, item := range items {
			ans, err := b.Spend(item, d.terms)
			d.must(err)
			if ans.Approved() != want[i] {
				t.Errorf("item %d of cost %d: approved %v, want %v", i, item.Cost, ans.Approved(), want[i])
			}
		}
		return nil
	}))
	d.want(books{S: 10})
}

func TestASpendIsVoidAfterItsNotAfter(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Exact, 10, 0)
	onTime, late := d.newSpend(agent(1), 1), d.newSpend(agent(1), 1)
	onTime.NotAfter, late.NotAfter = d.now, d.now.Add(-time.Microsecond)
	ans, err := d.trySpend(onTime)
	d.must(err)
	if !ans.Approved() {
		t.Errorf("a spend at its last moment is denied: %q", ans.Grant.Reason)
	}
	ans, err = d.trySpend(late)
	d.must(err)
	d.wantReason(ans, quota.Stale)
	d.want(books{S: 1, A: 9})
}

func TestA3Refunds(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Exact, 10, 0)
	s := d.spend(agent(1), 10).Grant
	d.wantReason(d.spend(agent(1), 1), quota.Exhausted)
	before := d.state().Generation
	for range 3 {
		d.must(d.cancel(s.ID, agent(1)))
		d.want(books{A: 10})
		d.now = d.now.Add(time.Second)
	}
	if got := d.grant(s.ID); got.Refunded != 10 || !got.UpdatedAt.Equal(start) {
		t.Errorf("refunded %d at %s, want 10 by the first refund", got.Refunded, got.UpdatedAt)
	}
	if got := d.state().Generation; got != before+1 {
		t.Errorf("generation %d, want one more than %d", got, before)
	}
	again, err := d.trySpend(ledger.Spend{ID: s.ID, Account: d.account, Agent: agent(1), Cost: 10})
	d.must(err)
	if !again.Repeated || again.Grant.Refunded != 10 {
		t.Errorf("the spend repeated: %+v, want its record, refunded", again.Grant)
	}
	d.want(books{A: 10})
}

func TestA3RefundAfterTheWindowAmendsTheOldOneOnly(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Exact, 10, 0)
	old := d.account
	s := d.spend(agent(1), 4).Grant
	d.account.Window = quota.NewWindow(day.End, day.End.Add(24*time.Hour))
	d.now = day.End.Add(time.Minute)
	d.spend(agent(1), 6)
	present := d.state()
	d.account = old
	d.apply(func(t *ledger.Terms) { t.Limit = quota.LimitOf(3) }) // today's terms are not yesterday's
	d.must(d.cancel(s.ID, agent(1)))
	d.want(books{A: 10})
	d.account = present.ID
	if got := d.state(); got != present {
		t.Errorf("the present window is %+v, want it untouched: %+v", got, present)
	}
}

func TestA3ARefundOfADeniedSpendIsNothing(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Exact, 3, 0)
	s := d.spend(agent(1), 2).Grant
	no := d.spend(agent(1), 2).Grant
	d.must(d.cancel(no.ID, agent(1)))
	d.want(books{S: 2, A: 1})
	d.must(d.cancel(s.ID, agent(1)))
	d.want(books{A: 3})
}

func TestCommittedIsTheHighestChargeOfAGrant(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 100)
	g := d.lease(agent(1), 60)
	d.spend(agent(1), 30)
	d.report(g, 0, 0, 60, true)
	d.spend(agent(1), 10)
	if a := d.state(); a.Committed != 90 {
		t.Errorf("committed %d, want the 90 of the second grant", a.Committed)
	}
	// After a cut to 30 the 40 spent break no promise; unleased use beyond 90 does.
	d.apply(func(t *ledger.Terms) { t.Limit = quota.LimitOf(30) })
	if a := d.state(); a.Overshoot != 0 || a.OverLimit() != 10 {
		t.Errorf("overshoot %d, over limit %d: want 0 and 10", a.Overshoot, a.OverLimit())
	}
	_, err := d.tryReport(ledger.Report{ID: d.newID(), Account: d.account, Agent: agent(1), Taken: 55, Unleased: true})
	d.must(err)
	if a := d.state(); a.Overshoot != 5 || a.RealisedOvershoot() != 5 {
		t.Errorf("overshoot %d, want S - max(Q, committed) = 95 - 90", a.Overshoot)
	}
}

// Held units move one by one, those of the oldest lease first, also within one transaction.
func TestR2_7SpendsOfOneTransactionMoveWhatTheyNeed(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Bounded, 100, 20)
	d.spend(agent(1), 90)
	oldest := d.lease(agent(1), 3)
	d.now = d.now.Add(time.Second)
	second := d.lease(agent(2), 7)
	d.expire(41 * time.Second)
	d.want(books{S: 90, H: 10})
	uncertain := func(after int, want [2]ledger.Units) {
		t.Helper()
		if got := [2]ledger.Units{d.grant(oldest.ID).Uncertain, d.grant(second.ID).Uncertain}; got != want {
			t.Errorf("after %d spends %v of the two leases are uncertain, want %v", after, got, want)
		}
	}
	spends := func(n int) {
		d.must(d.update(ledger.Scope{}, func(b *ledger.Book) error {
			for range n {
				ans, err := b.Spend(ledger.Spend{ID: d.newID(), Account: d.account, Agent: agent(3), Cost: 1}, d.terms)
				if err != nil || !ans.Approved() {
					t.Fatalf("a spend of 1 is %q, %v", ans.Grant.Reason, err)
				}
			}
			return nil
		}))
	}
	spends(2)
	uncertain(2, [2]ledger.Units{2, 0})
	spends(3)
	uncertain(5, [2]ledger.Units{3, 2})
	spends(5)
	uncertain(10, [2]ledger.Units{3, 7})
	d.want(books{S: 100, U: 10})
	d.wantReason(d.spend(agent(3), 1), quota.Exhausted)
	d.verify()
}
