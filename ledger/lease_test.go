package ledger_test

import (
	"maps"
	"reflect"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

func TestR2_1ALeaseCarriesItsTerms(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100_000, 2_000)
	d.account.Key.Dimension = "image-transform"
	d.terms.PolicyVersion = 7
	d.store.SetPolicyVersion(7)
	ask := d.newAsk(agent(1), 2_000, 1)
	ans, err := d.tryAsk(ask)
	d.must(err)
	want := ledger.Grant{
		ID: ask.ID, Account: d.account, Kind: ledger.KindLease, State: ledger.Live, Class: quota.Hard,
		Agent: agent(1), Region: "eu", Asked: 2_000, Need: 1, Amount: 2_000, PolicyVersion: 7,
		Generation: ans.Grant.Generation, IssuedAt: start, TTL: 30 * time.Second,
		ExpiresAt: start.Add(30 * time.Second), ClosesAt: start.Add(40 * time.Second), UpdatedAt: start,
	}
	if ans.Grant != want {
		t.Errorf("lease\n%+v\nwant\n%+v", ans.Grant, want)
	}
	if got := d.grant(ask.ID); got != want {
		t.Errorf("record\n%+v\nwant\n%+v", got, want)
	}
}

func TestR2_2TheSameIdGetsTheSameAnswer(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 30, 20)
	yes, no := d.newAsk(agent(1), 20, 20), d.newAsk(agent(2), 20, 20)
	approved, err := d.tryAsk(yes)
	d.must(err)
	denied, err := d.tryAsk(no)
	d.must(err)
	d.wantReason(denied, quota.LeasedOut)
	d.want(books{O: 20, A: 10})

	// Whatever happens in between, the decision and its terms stay; the state is the present one.
	d.report(approved.Grant, 0, 0, 20, true)
	d.apply(func(t *ledger.Terms) { t.Limit = quota.LimitOf(1000) })
	d.now = d.now.Add(time.Hour)
	again, err := d.tryAsk(yes)
	d.must(err)
	g := again.Grant
	if !again.Repeated || g.Amount != 20 || g.Generation != approved.Grant.Generation || !g.IssuedAt.Equal(start) || g.State != ledger.Final {
		t.Errorf("the approval repeated is %+v", g)
	}
	again, err = d.tryAsk(no)
	d.must(err)
	d.wantReason(again, quota.LeasedOut)
	if !again.Repeated || again.Grant != denied.Grant {
		t.Errorf("the denial repeated is %+v, was %+v", again.Grant, denied.Grant)
	}
	if n := len(d.records()); n != 2 {
		t.Errorf("%d records, want one of each", n)
	}
	d.want(books{A: 1000})
}

func TestR2_2OtherTermsUnderOneIdAreRefused(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 50)
	ask := d.newAsk(agent(1), 10, 2)
	first, err := d.tryAsk(ask)
	d.must(err)
	for name, change := range map[string]func(*ledger.Ask){
		"want":  func(a *ledger.Ask) { a.Want = 11 },
		"need":  func(a *ledger.Ask) { a.Need = 1 },
		"agent": func(a *ledger.Ask) { a.Agent = agent(2) },
	} {
		other := ask
		change(&other)
		_, err := d.tryAsk(other)
		d.wantCode(err, ledger.CodeTerms)
		if got := d.grant(ask.ID); got != first.Grant {
			t.Errorf("other %s: the record is %+v, want it as it was", name, got)
		}
	}
	spend := d.newSpend(agent(1), 10)
	spend.ID = ask.ID
	_, err = d.trySpend(spend)
	d.wantCode(err, ledger.CodeTerms)
	d.account.Key.Dimension = "other"
	other := ask
	other.Account = d.account
	_, err = d.tryAsk(other)
	d.wantCode(err, ledger.CodeTerms)
}

func TestR2_2IdsOlderThanRetentionAreTooOld(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 50)
	d.store.SetRetention(time.Hour)
	held := d.lease(agent(1), 10)
	old := d.newAsk(agent(1), 10, 1)
	oldSpend := d.newSpend(agent(1), 10)
	d.expire(time.Hour + time.Millisecond)
	_, err := d.tryAsk(old)
	d.wantCode(err, ledger.CodeTooOld)
	_, err = d.trySpend(oldSpend)
	d.wantCode(err, ledger.CodeTooOld)
	d.wantCode(d.cancel(old.ID, agent(1)), ledger.CodeTooOld)
	// A grant in O, H or U is never that.
	d.want(books{H: 10, A: 90})
	d.report(held, 4, 0, 6, true)
	d.want(books{S: 4, A: 96})
}

func TestR2_3SpendingNeedsNoRoundTrip(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 40)
	g := d.lease(agent(1), 20)
	// 17 units are spent without a word; below 20 % the next lease is fetched, the old one stays.
	next := d.lease(agent(1), 20)
	d.want(books{O: 40, A: 60})
	d.report(g, 17, 0, 0, false)
	d.want(books{S: 17, O: 23, A: 60})
	d.report(g, 20, 0, 0, true)
	d.report(next, 1, 0, 0, false)
	d.want(books{S: 21, O: 19, A: 60})
}

func TestR2_4ExposureIsComputedBeforeItIsAccepted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		agents                           int
		each, limit, budget, outstanding quota.Units
	}{
		{60, 50, 120_000, 3_000, 3_000}, // 6 regions x 10 agents x 50 unspent
		{24, 10, 50_000, 250, 240},      // L = floor(250/24)
		{40, 6, 50_000, 250, 240},       // L = floor(250/40)
		{12, 100, 120_000, 1_200, 1_200},
	} {
		d := open(t, quota.Bounded, c.limit, c.budget)
		for n := range c.agents {
			d.lease(agent(uint64(n)), c.each)
		}
		if got := d.state().Outstanding; got != c.outstanding {
			t.Errorf("%d agents x %d: %d at risk, want %d", c.agents, c.each, got, c.outstanding)
		}
		// One unit above the budget is refused, and the exact lane is named, not exhaustion.
		over, err := d.tryAsk(d.newAsk(agent(99), c.budget-c.outstanding+1, c.budget-c.outstanding+1))
		d.must(err)
		d.wantReason(over, quota.ExactLane)
		d.verify()
	}
}

func TestR2_4TheSizerSeesTheRoomAndIsCut(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Bounded, 50_000, 250)
	d.lease(agent(1), 10)
	d.lease(agent(2), 6)
	var room ledger.Room
	var others map[ledger.Demand]int
	ask := d.newAsk(agent(1), 9_999, 1)
	var got ledger.Units
	d.must(d.update(ledger.Scope{Agents: []ledger.ID{ask.Agent}}, func(b *ledger.Book) error {
		ans, err := b.Ask(ask, d.terms, func(r ledger.Room) ledger.Units {
			room, others = r, maps.Collect(r.Others)
			return quota.MaxUnits
		})
		got = ans.Grant.Amount
		return err
	}))
	want := ledger.Room{Want: 9_999, Need: 1, Headroom: 234, Exposure: 234, Holds: 10, Agents: 2, Budget: quota.LimitOf(250),
		Region: "eu"}
	room.Others = nil
	if wanted := (map[ledger.Demand]int{{Region: "eu", Units: 6}: 1}); !maps.Equal(others, wanted) {
		t.Errorf("others %v, want %v", others, wanted)
	}
	if !reflect.DeepEqual(room, want) {
		t.Errorf("room %+v, want %+v", room, want)
	}
	if got != 234 {
		t.Errorf("a greedy sizer got %d, want the 234 that the budget lets out", got)
	}
}

func TestR2_5ClassSaysWhereTheRemainderGoes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		class quota.Class
		want  books
	}{
		{quota.Hard, books{S: 4, H: 6, A: 90}},
		{quota.Bounded, books{S: 4, H: 6, A: 90}},
		{quota.BestEffort, books{S: 4, U: 6, A: 96}},
	} {
		d := open(t, c.class, 100, 20)
		g := d.lease(agent(1), 10)
		d.report(g, 4, 0, 0, false)
		d.expire(40 * time.Second)
		d.want(c.want)
	}
	d := open(t, quota.Exact, 100, 20)
	d.wantReason(d.ask(agent(1), 10), quota.ExactLane)
	d.spend(agent(1), 10)
	d.want(books{S: 10, A: 90})
}

func TestR2_6ColumnsSayWhereEveryUnitIs(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 1_000, 500)
	a := d.lease(agent(1), 100)
	d.report(a, 60, 0, 40, true) // returned 40
	b := d.lease(agent(1), 50)   // will expire with 20 unconfirmed
	d.report(b, 30, 0, 0, false)
	c := d.lease(agent(2), 80) // will be revoked with 75 left
	d.must(d.update(ledger.Scope{Grants: []ledger.ID{c.ID}}, func(k *ledger.Book) error {
		_, err := k.Revoke(c.ID, "contract ended")
		return err
	}))
	d.report(c, 5, 0, 75, true)
	d.expire(40 * time.Second)
	got := d.state().Tally
	want := ledger.Tally{Granted: 230, Leased: 95, Held: 20, Expired: 20, Revoked: 75, Returned: 40}
	if got != want {
		t.Errorf("account %+v, want %+v", got, want)
	}
	for id, want := range map[ledger.ID]ledger.Tally{
		a.ID: {Granted: 100, Leased: 60, Returned: 40},
		b.ID: {Granted: 50, Leased: 30, Held: 20, Expired: 20},
		c.ID: {Granted: 80, Leased: 5, Revoked: 75},
	} {
		g := d.grant(id)
		if got := g.Tally(); got != want {
			t.Errorf("grant %+v, want %+v", got, want)
		}
	}
	d.verify()
}

func TestR2_7BoundedGivesBackOnlyWhenNeeded(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Bounded, 100, 20)
	d.spend(agent(1), 70)
	d.lease(agent(1), 20)
	d.expire(40 * time.Second)
	d.want(books{S: 70, H: 20, A: 10})
	d.lease(agent(2), 8)
	d.want(books{S: 70, O: 8, H: 20, A: 2})
	// Headroom is 2, exposure 20-8 = 12: a lease may move at most 6, and 2x <= 2+12.
	if got := d.ask(agent(2), 20).Grant.Amount; got != 7 {
		t.Errorf("lease of %d, want 7", got)
	}
	d.want(books{S: 70, O: 15, H: 15, U: 5})
	// A spend may move all that the budget still lets: 20-15-5 = 0.
	d.wantReason(d.spend(agent(2), 1), quota.LeasedOut)
	moved := d.events(ledger.EventMoved)
	if len(moved) != 1 || moved[0].Units != 5 {
		t.Errorf("moves on record %+v, want one of 5", moved)
	}
}

func TestR2_7AGrantMovesAtMostHalfTheExposure(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Bounded, 100, 20)
	d.spend(agent(1), 80)
	d.lease(agent(1), 20)
	d.expire(40 * time.Second)
	d.apply(func(t *ledger.Terms) { t.Limit = quota.LimitOf(95) })
	d.want(books{S: 80, H: 20, A: -5})
	// Of the exposure of 20 half may move: 5 to make up for the cut, 5 for the lease.
	if got := d.ask(agent(2), 20).Grant.Amount; got != 5 {
		t.Errorf("lease of %d, want 5", got)
	}
	d.want(books{S: 80, O: 5, H: 10, U: 10})
}

func TestR2_7ASpendMayMoveTheWholeExposure(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Bounded, 100, 20)
	d.spend(agent(1), 80)
	d.lease(agent(1), 20)
	d.expire(40 * time.Second)
	d.want(books{S: 80, H: 20})
	if !d.spend(agent(2), 20).Approved() {
		t.Error("a spend of the whole budget is denied")
	}
	d.want(books{S: 100, U: 20})
}

func TestR2_7AGrantMovesTheOldestLeaseFirst(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Bounded, 100, 40)
	old := d.lease(agent(1), 10)
	d.now = d.now.Add(time.Second)
	young := d.lease(agent(1), 10)
	d.expire(40 * time.Second)
	d.spend(agent(1), 80)
	d.spend(agent(1), 13)
	if o, y := d.grant(old.ID).Uncertain, d.grant(young.ID).Uncertain; o != 10 || y != 3 {
		t.Errorf("moved %d of the old lease and %d of the young one, want 10 and 3", o, y)
	}
	d.want(books{S: 93, H: 7, U: 13})
}

func TestR2_7HardNeverGivesBack(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 20)
	d.spend(agent(1), 80)
	d.lease(agent(1), 20)
	d.expire(40 * time.Second)
	d.wantReason(d.ask(agent(2), 1), quota.Exhausted)
	d.wantReason(d.spend(agent(2), 1), quota.Exhausted)
	d.want(books{S: 80, H: 20})
}

func TestR2_7HardRemainderStaysAfterClassChange(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 20)
	d.spend(agent(1), 80)
	d.lease(agent(1), 20)
	d.expire(40 * time.Second)
	d.apply(func(t *ledger.Terms) { t.Class = quota.Bounded })
	d.wantReason(d.spend(agent(2), 5), quota.Exhausted)
	d.want(books{S: 80, H: 20})
}

func TestR2_8ADowngradeTakesHoldAtTheNextGrant(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 1_000, 100)
	d.terms.TTL = time.Minute
	g := d.lease(agent(1), 100)
	d.apply(func(t *ledger.Terms) { t.Limit, t.Budget = quota.LimitOf(50), quota.LimitOf(5) })
	d.wantReason(d.ask(agent(1), 1), quota.LeasedOut)
	// The lease held at the downgrade: what is left of it, for what is left of its 60 s.
	if got := d.grant(g.ID); got.Amount != 100 || !got.ExpiresAt.Equal(start.Add(time.Minute)) {
		t.Errorf("the lease changed: %+v", got)
	}
	d.report(g, 30, 0, 70, true)
	if got := d.ask(agent(1), 100).Grant.Amount; got != 5 {
		t.Errorf("the next grant is %d, want 5 of the new budget", got)
	}
}

func TestD1LostReply(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 50)
	ask := d.newAsk(agent(1), 20, 1)
	first, err := d.tryAsk(ask) // the reply is lost
	d.must(err)
	d.now = d.now.Add(3 * time.Second)
	second, err := d.tryAsk(ask)
	d.must(err)
	if first.Grant != second.Grant || !second.Repeated {
		t.Errorf("the second answer is %+v, want %+v", second.Grant, first.Grant)
	}
	if n := len(d.records()); n != 1 {
		t.Errorf("%d records, want 1", n)
	}
	d.want(books{O: 20, A: 80})
}
