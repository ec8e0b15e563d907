package ledger_test

import (
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

const ms = time.Millisecond

func perSecond(n ledger.Units) quota.Rate { return quota.Rate{Units: n, Per: time.Second} }

// openRate starts a desk on a rate key with a bucket of burst units.
func openRate(t tb, class quota.Class, rate quota.Rate, burst, budget quota.Units) *desk {
	t.Helper()
	d := open(t, class, burst, budget)
	d.account.Window = quota.Window{}
	d.terms.Kind, d.terms.Rate = quota.RateLimit, rate
	return d
}

// level is what the bucket holds now.
func (d *desk) level() (level ledger.Units) {
	d.Helper()
	d.must(d.update(ledger.Scope{}, func(b *ledger.Book) error {
		a, _ := b.Account(d.account)
		level = a.Headroom()
		return nil
	}))
	return level
}

func (d *desk) wantLevel(want ledger.Units) {
	d.Helper()
	if got := d.level(); got != want {
		d.Errorf("the bucket holds %d, want %d", got, want)
	}
	d.verify()
}

func (d *desk) wantRetry(ans ledger.Answer, reason quota.Reason, in time.Duration) {
	d.Helper()
	d.wantReason(ans, reason)
	if ans.RetryIn != in {
		d.Errorf("told to come back in %s, want %s", ans.RetryIn, in)
	}
}

func (d *desk) askFor(a ledger.ID, want, need ledger.Units) ledger.Answer {
	d.Helper()
	ans, err := d.tryAsk(d.newAsk(a, want, need))
	d.must(err)
	return ans
}

func TestR1_1ARateIsTakenFromOneBucketByAll(t *testing.T) {
	t.Parallel()
	d := openRate(t, quota.Hard, perSecond(10), 20, 20)
	if !d.spend(agent(1), 7).Approved() {
		t.Fatal("the first 7 of 20 are denied")
	}
	d.lease(agent(2), 7)
	d.wantLevel(6)
	d.wantRetry(d.spend(agent(3), 7), quota.Exhausted, 100*ms)
	d.wantLevel(6)
	d.now = d.now.Add(100 * ms)
	if !d.spend(agent(3), 7).Approved() {
		t.Error("denied to one who waited as long as it was told to")
	}
	d.wantLevel(0)
	// What is reported as used was taken when it was granted.
	d.want(books{S: 14, O: 7})
}

func TestR1_3CostAboveTheBurstIsTooLarge(t *testing.T) {
	t.Parallel()
	d := openRate(t, quota.Hard, perSecond(10), 10, 10)
	d.wantRetry(d.spend(agent(1), 11), quota.TooLarge, 0)
	d.wantRetry(d.askFor(agent(1), 20, 11), quota.TooLarge, 0)
	d.wantLevel(10)
}

func TestA4ARateOfZeroDenies(t *testing.T) {
	t.Parallel()
	for _, rate := range []quota.Rate{{}, perSecond(0), {Units: 5}} {
		d := openRate(t, quota.Hard, rate, 10, 10)
		d.spend(agent(1), 10)
		d.now = d.now.Add(300 * 24 * time.Hour)
		d.wantRetry(d.spend(agent(1), 1), quota.Exhausted, 0)
	}
	d := openRate(t, quota.Hard, perSecond(10), 0, 0)
	d.wantRetry(d.spend(agent(1), 1), quota.Exhausted, 0)
}

func TestC1StaleNow(t *testing.T) {
	t.Parallel()
	d := openRate(t, quota.Hard, perSecond(10), 10, 10)
	at := d.now
	if !d.spend(agent(1), 10).Approved() {
		t.Fatal("a full bucket denies its burst")
	}
	unleased := ledger.Report{ID: d.newID(), Account: d.account, Agent: agent(1), Unleased: true}
	for range 100 {
		for _, back := range []time.Duration{time.Second, 0} {
			d.now = at.Add(-back)
			d.wantReason(d.spend(agent(1), 1), quota.Exhausted)
			d.apply(func(t *ledger.Terms) { t.Rate = perSecond(30 - t.Rate.Units) }) // 20, 10
			_, err := d.tryReport(unleased)
			d.must(err)
		}
	}
	d.wantLevel(0)
}

// From one unit a day to one a microsecond, a unit is there exactly when it is due.
func TestA8RefillIsExactAtEveryRate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rate  quota.Rate
		every time.Duration // one unit, rounded up to what the ledger's clock shows
	}{
		{quota.Rate{Units: 1, Per: 24 * time.Hour}, 24 * time.Hour},
		{quota.Rate{Units: 1000, Per: time.Minute}, 60 * ms},
		{perSecond(3), 333_334 * time.Microsecond},
		{perSecond(6_000), 167 * time.Microsecond},
		{perSecond(1_000_000), time.Microsecond},
	} {
		d := openRate(t, quota.Hard, c.rate, 5, 5)
		d.store.SetRetention(1000 * 24 * time.Hour)
		if !d.spend(agent(1), 5).Approved() {
			t.Fatal("a full bucket denies its burst")
		}
		d.now = d.now.Add(c.every - time.Microsecond)
		d.wantReason(d.spend(agent(1), 1), quota.Exhausted)
		d.now = d.now.Add(time.Microsecond)
		if !d.spend(agent(1), 1).Approved() {
			t.Errorf("%+v: no unit after %s", c.rate, c.every)
		}
		d.wantReason(d.spend(agent(1), 1), quota.Exhausted)
		// C6: however long it is idle, it is full and no more.
		d.now = d.now.Add(300 * 24 * time.Hour)
		d.wantLevel(5)
	}
}

func TestOnlyWhatALiveLeaseReturnsComesBack(t *testing.T) {
	t.Parallel()
	for _, class := range []quota.Class{quota.Hard, quota.Bounded, quota.BestEffort} {
		d := openRate(t, class, quota.Rate{Units: 1, Per: 24 * time.Hour}, 100, 50)
		one, two, three := d.lease(agent(1), 10), d.lease(agent(1), 10), d.lease(agent(2), 10)
		four := d.lease(agent(2), 10)
		d.wantLevel(60)
		d.report(one, 4, 0, 3, false)
		d.wantLevel(63)
		d.report(one, 4, 0, 6, true)
		d.wantLevel(66)
		d.must(d.cancel(two.ID, agent(1)))
		d.wantLevel(76)
		d.expire(40 * time.Second)
		d.wantLevel(76)
		// In every class the unconfirmed rest counts as spent, and stays so.
		d.want(books{S: 4, H: 20, A: 76})
		d.report(three, 2, 0, 8, true)
		d.must(d.cancel(four.ID, agent(2)))
		d.wantLevel(76)
		d.want(books{S: 6, A: 76})
		if a := d.state(); a.Uncertain != 0 || a.Committed != 0 || a.Overshoot != 0 {
			t.Errorf("%s: %d given back, committed %d, overshoot %d: a rate key has none", class, a.Uncertain, a.Committed, a.Overshoot)
		}
	}
}

func TestUseWithoutALeaseLowersTheBucket(t *testing.T) {
	t.Parallel()
	d := openRate(t, quota.Hard, perSecond(10), 20, 20)
	g := d.lease(agent(1), 5)
	d.report(g, 8, 0, 0, true) // 3 beyond the lease
	d.wantLevel(12)
	debt := ledger.Report{ID: d.newID(), Account: d.account, Agent: agent(1), Unleased: true, Taken: 30}
	_, err := d.tryReport(debt)
	d.must(err)
	d.wantLevel(-18)
	d.wantRetry(d.spend(agent(1), 1), quota.Exhausted, 1900*ms)
	debt.Refunded = 10
	_, err = d.tryReport(debt)
	d.must(err)
	d.wantLevel(-8)
	// A step is measured by what can pass within a ttl: 20 and 10 a second for 30 s (3.13).
	debt.Taken = 30 + 320
	_, err = d.tryReport(debt)
	d.must(err)
	debt.Taken += 321
	_, err = d.tryReport(debt)
	d.wantCode(err, ledger.CodeStep)
	d.wantLevel(-328)
}

func TestARefundedSpendComesBackOnce(t *testing.T) {
	t.Parallel()
	d := openRate(t, quota.Exact, perSecond(10), 20, 0)
	s := d.newSpend(agent(1), 15)
	_, err := d.trySpend(s)
	d.must(err)
	d.now = d.now.Add(time.Second)
	d.wantLevel(15)
	for range 3 {
		d.must(d.cancel(s.ID, agent(1)))
		d.wantLevel(20) // clamped
	}
	d.want(books{A: 20})
}

func TestATrickleIsReleasedAsTheBucketFills(t *testing.T) {
	t.Parallel()
	d := openRate(t, quota.Hard, perSecond(10), 10, 100)
	d.now = d.now.Add(time.Hour)
	want := func(want, need, amount ledger.Units, delay, drip time.Duration) {
		t.Helper()
		g := d.askFor(agent(1), want, need).Grant
		if g.Amount != amount || g.Delay != delay || g.Drip != drip {
			t.Errorf("asked %d, need %d: got %d after %s over %s, want %d after %s over %s",
				want, need, g.Amount, g.Delay, g.Drip, amount, delay, drip)
		}
	}
	want(8, 1, 8, 0, 0)
	want(8, 2, 2, 0, 0)           // a lump of what there is, where that helps
	want(5, 5, 5, 0, 500*ms)      // evenly, as they come in
	want(5, 5, 5, 500*ms, 500*ms) // behind those that come first
	d.now = d.now.Add(250 * ms)
	d.wantLevel(-8) // 7.5 are owed
	want(3, 3, 3, 750*ms, 300*ms)
	want(9, 9, 9, 1050*ms, 900*ms)
	// At most 2 s ahead: what is owed would be 19.5 and one.
	d.wantRetry(d.askFor(agent(1), 1, 1), quota.Exhausted, 2050*ms)
	d.wantReason(d.spend(agent(1), 1), quota.Exhausted) // a spend is used at once
	if d.state().Generation != 1 {
		t.Errorf("generation %d: filling is no growth", d.state().Generation)
	}
	d.verify()
}

func TestATrickleStaysWithinTheBudget(t *testing.T) {
	t.Parallel()
	d := openRate(t, quota.Hard, perSecond(10), 100, 5)
	d.spend(agent(1), 99)
	g := d.askFor(agent(1), 4, 4).Grant
	if g.Amount != 4 || g.Drip != 300*ms {
		t.Errorf("got %d over %s, want 4 over the 300 ms in which 3 of them come", g.Amount, g.Drip)
	}
	d.wantReason(d.askFor(agent(2), 2, 2), quota.Exhausted)
	d.now = d.now.Add(time.Second)
	// The bucket has them, the budget does not: that is what the exact lane is for.
	d.wantRetry(d.askFor(agent(2), 2, 2), quota.ExactLane, 0)
	if !d.spend(agent(2), 2).Approved() {
		t.Error("the exact lane denies what the bucket has")
	}
}

func TestClosedLeasesOfARateAreFolded(t *testing.T) {
	t.Parallel()
	d := openRate(t, quota.Bounded, perSecond(10), 100, 50)
	d.store.SetRetention(time.Hour)
	d.lease(agent(1), 10)
	d.expire(time.Minute)
	live := d.lease(agent(1), 5)
	d.now = d.now.Add(time.Hour - time.Second)
	if n := d.fold(time.Hour); n != 0 {
		t.Errorf("%d folded within retention", n)
	}
	d.now = d.now.Add(time.Minute)
	if n := d.fold(time.Hour); n != 1 {
		t.Errorf("%d folded, want the closed lease", n)
	}
	d.grant(live.ID)
	d.want(books{O: 5, H: 10, A: 95})
	d.wantLevel(100)
	d.expire(0)
	d.wantLevel(100)
}

func TestVerifyChecksBuckets(t *testing.T) {
	t.Parallel()
	for counter, break_ := range map[string]func(*ledger.Account){
		"bucket spent": func(a *ledger.Account) { a.Bucket.Spent = -1 },
		"bucket part":  func(a *ledger.Account) { a.Bucket.Part = time.Second },
		"bucket time":  func(a *ledger.Account) { a.Bucket.At = a.Clock.Add(time.Second) },
	} {
		d := openRate(t, quota.Hard, perSecond(10), 20, 20)
		d.spend(agent(1), 5)
		d.store.Tamper(d.account, break_)
		var found []ledger.Difference
		_, err := d.store.Verify(t.Context(), func(diff ledger.Difference) { found = append(found, diff) }, func(int, int) {})
		d.must(err)
		if len(found) != 1 || found[0].Counter != counter {
			t.Errorf("found %v, want one difference of the %s", found, counter)
		}
	}
}

func TestARepeatTellsTheWaitThatIsLeft(t *testing.T) {
	t.Parallel()
	d := openRate(t, quota.Exact, perSecond(10), 20, 0)
	d.spend(agent(1), 20)
	s := d.newSpend(agent(1), 5)
	first, err := d.trySpend(s)
	d.must(err)
	d.wantRetry(first, quota.Exhausted, 500*ms)
	d.now = d.now.Add(200 * ms)
	again, err := d.trySpend(s)
	d.must(err)
	d.wantRetry(again, quota.Exhausted, 300*ms)
	if !again.Repeated {
		t.Error("decided anew")
	}
	d.must(d.update(ledger.Scope{}, func(b *ledger.Book) error {
		if reason, wait := b.Peek(d.account, 4); reason != quota.Exhausted || wait != 200*ms {
			t.Errorf("a look: %q in %s, want exhausted for 200 ms", reason, wait)
		}
		if reason, wait := b.Peek(d.account, 2); reason != quota.Allowed || wait != 0 {
			t.Errorf("a look: %q in %s, want that it would pass", reason, wait)
		}
		return nil
	}))
}
