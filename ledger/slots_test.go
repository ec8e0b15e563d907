package ledger_test

import (
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

const longestRun = time.Hour

// openSlots starts a desk on a concurrency key whose runs take at most an hour.
func openSlots(t tb, class quota.Class, limit, budget quota.Units) *desk {
	t.Helper()
	d := open(t, class, limit, budget)
	d.account = ledger.AccountID{Key: quota.Key{Tenant: "acme", Dimension: "batch_jobs"}}
	d.terms.Kind, d.terms.MaxHold = quota.Concurrency, longestRun
	return d
}

// slots asks for want slots, of which need are put to use at once.
func (d *desk) slots(a ledger.ID, want, need ledger.Units) ledger.Answer {
	d.Helper()
	ans, err := d.tryAsk(d.newAsk(a, want, need))
	d.must(err)
	return ans
}

func (d *desk) tryRenew(r ledger.Renewal) (ledger.Answer, error) {
	var ans ledger.Answer
	err := d.update(ledger.Scope{Grants: []ledger.ID{r.ID}}, func(b *ledger.Book) error {
		var err error
		ans, err = b.Renew(r, d.terms)
		return err
	})
	return ans, err
}

func renewalOf(g ledger.Grant, seq int64, inUse, returned ledger.Units) ledger.Renewal {
	return ledger.Renewal{ID: g.ID, Account: g.Account, Agent: g.Agent, Seq: seq, InUse: inUse, Returned: returned}
}

func (d *desk) renew(g ledger.Grant, seq int64, inUse, returned ledger.Units) ledger.Answer {
	d.Helper()
	ans, err := d.tryRenew(renewalOf(g, seq, inUse, returned))
	d.must(err)
	return ans
}

func slotReport(g ledger.Grant, seq int64, inUse, returned ledger.Units) ledger.Report {
	return ledger.Report{
		ID: g.ID, Account: g.Account, Agent: g.Agent, Seq: seq, InUse: inUse, Returned: returned,
		Final: inUse == 0 && returned == g.Amount,
	}
}

// tell reports what is in use of a lease, and what was given back.
func (d *desk) tell(g ledger.Grant, seq int64, inUse, returned ledger.Units) ledger.Grant {
	d.Helper()
	after, err := d.tryReport(slotReport(g, seq, inUse, returned))
	d.must(err)
	return after
}

// wantKept demands what an answer to a renewal leaves to the agent.
func (d *desk) wantKept(ans ledger.Answer, kept ledger.Units, state ledger.State) {
	d.Helper()
	if got := ans.Grant.Kept(); got != kept || ans.Grant.State != state {
		d.Errorf("the renewal leaves %d of a lease that is %s, want %d and %s", got, ans.Grant.State, kept, state)
	}
}

func TestR2_12TwentyConcurrentJobs(t *testing.T) {
	t.Parallel()
	d := openSlots(t, quota.Hard, 20, 2)
	var running []ledger.Grant
	for n := range 20 {
		ans := d.slots(agent(uint64(n%4)), 1, 1)
		if ans.Grant.Amount != 1 {
			t.Fatalf("job %d of 20 is denied: %s", n+1, ans.Grant.Reason)
		}
		running = append(running, ans.Grant)
	}
	d.want(books{S: 20})
	d.wantReason(d.slots(agent(5), 1, 1), quota.Exhausted)
	d.wantReason(d.slots(agent(5), 21, 21), quota.TooLarge)

	// A job that ends frees one, and who was denied hears of it.
	before := d.state().Generation
	if g := d.tell(running[3], 1, 0, 1); g.State != ledger.Final {
		t.Errorf("a lease with nothing in use and all returned is %s", g.State)
	}
	if grew := d.events(ledger.EventGrew); len(grew) != 1 || grew[0].Generation <= before {
		t.Errorf("those who were denied hear %+v", grew)
	}
	d.want(books{S: 19, A: 1})
	if got := d.slots(agent(5), 1, 1).Grant.Amount; got != 1 {
		t.Errorf("granted %d after a job ended, want its slot", got)
	}

	// The day's total is a limit of its own.
	d.account, d.terms.Kind = ledger.AccountID{Key: exports, Window: day}, quota.Period
	d.terms.Limit = quota.LimitOf(50_000)
	d.spend(agent(5), 50_000)
	d.wantReason(d.spend(agent(5), 1), quota.Exhausted)
	d.want(books{S: 50_000})
}

func TestR2_12ACrashedAgentsJobsCountUntilTheLongestRunIsOver(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		class quota.Class
		want  books
	}{
		{quota.Exact, books{H: 5, A: 15}},
		{quota.Hard, books{H: 5, A: 15}},
		{quota.Bounded, books{H: 5, A: 15}},
		{quota.BestEffort, books{U: 5, A: 20}},
	} {
		d := openSlots(t, c.class, 20, 10)
		g := d.slots(agent(1), 5, 5).Grant
		d.expire(40*time.Second - time.Microsecond)
		d.want(books{S: 5, A: 15})
		d.expire(time.Microsecond) // expires_at + grace
		d.want(c.want)
		d.expire(longestRun - time.Microsecond)
		d.want(c.want)
		before := d.state().Generation
		d.expire(time.Microsecond)
		d.want(books{A: 20})
		a := d.state()
		if a.Expired != 5 || a.Returned != 0 || a.Generation != before+1 {
			t.Errorf("%s: expired %d, returned %d, generation %d -> %d: want 5, 0 and one step",
				c.class, a.Expired, a.Returned, before, a.Generation)
		}
		if got := d.grant(g.ID); got.State != ledger.Final {
			t.Errorf("%s: the lease is %s, want final", c.class, got.State)
		}
	}
}

func TestRunningWorkIsRenewedForEver(t *testing.T) {
	t.Parallel()
	d := openSlots(t, quota.Hard, 20, 10)
	g := d.slots(agent(1), 5, 3).Grant
	d.want(books{S: 3, O: 2, A: 15})
	for seq := int64(1); seq <= 400; seq++ { // more than two hours
		d.now = d.now.Add(20 * time.Second)
		ans := d.renew(g, seq, 3, 0)
		d.wantKept(ans, 5, ledger.Live)
		if !ans.Grant.ExpiresAt.Equal(d.now.Add(30*time.Second)) || !ans.Grant.EndsAt.Equal(d.now.Add(40*time.Second+longestRun)) {
			t.Fatalf("renewed until %s and %s at %s", ans.Grant.ExpiresAt, ans.Grant.EndsAt, d.now)
		}
	}
	d.want(books{S: 3, O: 2, A: 15})
	// A shorter ttl or longest run does not shorten what an agent was told before.
	long := d.grant(g.ID)
	d.apply(func(t *ledger.Terms) { t.TTL, t.MaxHold = time.Second, time.Second })
	ans := d.renew(g, 401, 3, 0)
	if !ans.Grant.ExpiresAt.Equal(long.ExpiresAt) || !ans.Grant.EndsAt.Equal(long.EndsAt) || ans.Grant.TTL != time.Second {
		t.Errorf("renewed %+v, was %+v", ans.Grant, long)
	}
	// A renewal that leaves nothing ends the lease.
	d.wantKept(d.renew(g, 402, 0, 5), 0, ledger.Final)
	d.want(books{A: 20})
}

func TestARenewalRepeatedGetsTheSameAnswer(t *testing.T) {
	t.Parallel()
	d := openSlots(t, quota.Hard, 20, 10)
	g := d.slots(agent(1), 6, 2).Grant
	d.now = d.now.Add(10 * time.Second)
	first := d.renew(g, 1, 4, 1)
	d.want(books{S: 4, O: 1, A: 15})
	d.now = d.now.Add(5 * time.Second)
	again := d.renew(g, 1, 4, 1)
	if !again.Repeated || again.Grant != first.Grant {
		t.Errorf("first\n%+v\nrepeated\n%+v", first.Grant, again.Grant)
	}
	second := d.renew(g, 3, 3, 1)
	// One that comes late changes nothing, and its answer says by its seq that it did not renew.
	for _, late := range []int64{1, 2} {
		ans := d.renew(g, late, 5, 0)
		if !ans.Repeated || ans.Grant != second.Grant || ans.Grant.Seq != 3 {
			t.Errorf("renewal %d after 3: %+v, want the present state %+v", late, ans.Grant, second.Grant)
		}
	}
	d.tell(g, 2, 5, 0)
	d.want(books{S: 3, O: 2, A: 15})
}

func TestAClosedLeaseIsNotRenewed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		class                 quota.Class
		closed, told, oneLeft books
	}{
		{quota.Hard, books{H: 5, A: 15}, books{S: 3, H: 0, A: 17}, books{S: 1, A: 19}},
		{quota.BestEffort, books{U: 5, A: 20}, books{S: 3, A: 17}, books{S: 1, A: 19}},
	} {
		d := openSlots(t, c.class, 20, 10)
		g := d.slots(agent(1), 5, 3).Grant
		d.now = d.now.Add(40 * time.Second) // due, though nobody has swept
		ans := d.renew(g, 1, 3, 0)
		d.wantKept(ans, 0, ledger.Closed)
		// What it says counts: three are in use for certain, and two may be.
		if a := d.state(); a.Leased != 3 || a.Held+a.Uncertain != 2 {
			t.Errorf("%s: %+v after a renewal that came too late", c.class, a.Tally)
		}
		d.tell(g, 2, 3, 2)
		d.want(c.told)
		// Work that goes on is charged while it runs, and free when it ends.
		d.tell(g, 3, 1, 4)
		d.want(c.oneLeft)
		d.tell(g, 4, 0, 5)
		d.want(books{A: 20})
		d.wantKept(d.renew(g, 5, 0, 5), 0, ledger.Final)
	}
}

// A report says what was in use when it was sent. Of a lease that has closed since, what it
// calls idle may have been put to use after that.
func TestIdleSlotsOfAClosedLeaseAreFreeOnlyWhenReturned(t *testing.T) {
	t.Parallel()
	d := openSlots(t, quota.Hard, 20, 10)
	g := d.slots(agent(1), 5, 5).Grant
	slow := slotReport(g, 1, 4, 0) // one job ended; the next began after this was sent
	d.expire(40 * time.Second)
	if _, err := d.tryReport(slow); err != nil {
		t.Fatal(err)
	}
	d.want(books{S: 4, H: 1, A: 15})
}

func TestAForeignRenewalIsRefused(t *testing.T) {
	t.Parallel()
	d := openSlots(t, quota.Hard, 20, 10)
	g := d.slots(agent(1), 5, 3).Grant
	denied := d.slots(agent(1), 99, 99).Grant
	before := d.grant(g.ID)
	for name, c := range map[string]struct {
		change func(*ledger.Renewal)
		code   ledger.Code
	}{
		"another agent":     {func(r *ledger.Renewal) { r.Agent = agent(2) }, ledger.CodeForeign},
		"another key":       {func(r *ledger.Renewal) { r.Account.Key.Tenant = "globex" }, ledger.CodeForeign},
		"an unknown id":     {func(r *ledger.Renewal) { r.ID = d.newID() }, ledger.CodeForeign},
		"a denial":          {func(r *ledger.Renewal) { r.ID = denied.ID }, ledger.CodeForeign},
		"no sequence":       {func(r *ledger.Renewal) { r.Seq = 0 }, ledger.CodeInvalid},
		"negative use":      {func(r *ledger.Renewal) { r.InUse = -1 }, ledger.CodeInvalid},
		"a negative return": {func(r *ledger.Renewal) { r.Returned = -1 }, ledger.CodeInvalid},
		"too much returned": {func(r *ledger.Renewal) { r.Returned = 6 }, ledger.CodeContradiction},
		"absurd use":        {func(r *ledger.Renewal) { r.InUse = 1_000 }, ledger.CodeStep},
	} {
		r := renewalOf(g, 1, 3, 0)
		c.change(&r)
		_, err := d.tryRenew(r)
		t.Log(name)
		d.wantCode(err, c.code)
		if d.grant(g.ID) != before {
			t.Errorf("%s: the lease changed", name)
		}
	}
	stolen := slotReport(g, 1, 0, 5)
	stolen.Agent = agent(2)
	_, err := d.tryReport(stolen)
	d.wantCode(err, ledger.CodeForeign)
	d.want(books{S: 3, O: 2, A: 15})
}

func TestHostileSlotReports(t *testing.T) {
	t.Parallel()
	d := openSlots(t, quota.Hard, 20, 10)
	g := d.slots(agent(1), 5, 3).Grant
	before, account := d.grant(g.ID), d.state()
	for _, c := range []struct {
		r    ledger.Report
		code ledger.Code
	}{
		{ledger.Report{InUse: 3}, ledger.CodeInvalid}, // without a sequence
		{ledger.Report{Seq: -1}, ledger.CodeInvalid},
		{ledger.Report{Seq: 1, InUse: -1}, ledger.CodeInvalid},
		{ledger.Report{Seq: 1, InUse: 3, Taken: 3}, ledger.CodeContradiction},
		{ledger.Report{Seq: 1, InUse: 3, Returned: 6}, ledger.CodeContradiction},
		{ledger.Report{Seq: 1, InUse: 1, Returned: 5, Final: true}, ledger.CodeContradiction},
		{ledger.Report{Seq: 1, InUse: 0, Returned: 4, Final: true}, ledger.CodeContradiction},
		{ledger.Report{Seq: 1, InUse: quota.MaxUnits}, ledger.CodeStep},
	} {
		c.r.ID, c.r.Account, c.r.Agent = g.ID, g.Account, g.Agent
		_, err := d.tryReport(c.r)
		d.wantCode(err, c.code)
		if d.grant(g.ID) != before || d.state() != account {
			t.Errorf("%+v changed something", c.r)
		}
	}
	p := open(t, quota.Hard, 20, 10)
	units := p.lease(agent(1), 5)
	_, err := p.tryReport(ledger.Report{ID: units.ID, Account: units.Account, Agent: units.Agent, Seq: 1, InUse: 3})
	p.wantCode(err, ledger.CodeContradiction)
}
