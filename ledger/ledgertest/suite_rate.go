package ledgertest

import (
	"maps"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// limitRate makes the room's account a rate key with a bucket of burst units.
func (r *room) limitRate(rate quota.Rate, burst ledger.Units) {
	r.account.Window = quota.Window{}
	r.terms.Kind, r.terms.Rate, r.terms.Limit, r.terms.Budget = quota.RateLimit, rate, quota.LimitOf(burst), quota.LimitOf(burst)
}

// level is what the room's bucket holds now.
func (r *room) level() (level ledger.Units) {
	r.Helper()
	r.must(r.update(ledger.Scope{}, func(b *ledger.Book) error {
		a, _ := b.Account(r.account)
		level = a.Headroom()
		return nil
	}))
	return level
}

// slow fills by nothing while a case runs.
var slow = quota.Rate{Units: 1, Per: 365 * 24 * time.Hour}

// writeAhead is a lease for a window that begins soon, and a denial that others' leases cause.
func (r *room) writeAhead(agent ledger.ID) {
	r.Helper()
	begins := time.Now().Add(20 * time.Second)
	r.account.Window = quota.NewWindow(begins, begins.Add(time.Hour))
	r.terms.Limit, r.terms.Budget = quota.LimitOf(100), quota.LimitOf(100)
	ahead, denied := r.newAsk(agent, 100), r.newAsk(r.id(), 5)
	wrote := r.write(ledger.Scope{Agents: []ledger.ID{agent}}, func(b *ledger.Book) error {
		for _, ask := range []ledger.Ask{ahead, denied} {
			if _, err := b.Ask(ask, r.terms, whole); err != nil {
				return err
			}
		}
		return nil
	})
	if len(wrote.Events) != 1 || wrote.Events[0].Kind != ledger.EventWanted {
		r.Errorf("the journal says %+v, want that the second is in need of the first one's", wrote.Events)
	}
}

// writeRate is a lump and two trickles out of one bucket.
func (r *room) writeRate(agent ledger.ID) {
	r.Helper()
	r.limitRate(quota.Rate{Units: 7, Per: 3 * time.Second}, 10)
	r.terms.Budget = quota.LimitOf(100)
	for _, want := range []ledger.Units{10, 2, 2} {
		r.write(ledger.Scope{}, func(b *ledger.Book) error {
			_, err := b.Ask(r.newAsk(agent, want), r.terms, whole)
			return err
		})
	}
	a := r.state(r.account)
	if a.Bucket.Spent < 10 || a.Bucket.Part <= 0 {
		r.Errorf("bucket %+v, want it below zero and part of a unit come back", a.Bucket)
	}
}

func oneBucket(r *room) {
	r.limitRate(slow, 100)
	agent := r.id()
	g := r.lease(agent, 30)
	s := r.newSpend(agent, 40)
	if !r.spend(s).Approved() {
		r.Error("40 of the 70 that are left are denied")
	}
	ans := r.spend(r.newSpend(r.id(), 31))
	r.wantReason(ans, quota.Exhausted)
	if year := 365 * 24 * time.Hour; ans.RetryIn > year || ans.RetryIn < year-time.Hour {
		r.Errorf("told to come back in %s, want the year that one unit takes", ans.RetryIn)
	}
	r.must(r.report(reportOf(g, 10, 0, 20, true)))
	r.must(r.cancel(s.ID, agent))
	if got := r.level(); got != 90 {
		r.Errorf("the bucket holds %d, want 90", got)
	}
	r.want(units{S: 10})
	// 20 at once take what is there, and no more.
	r.together(20, func(int) error {
		_, err := r.trySpend(r.Context(), r.newSpend(r.id(), 7))
		return err
	})
	if got := r.level(); got != 90-12*7 {
		r.Errorf("the bucket holds %d after 20 spends of 7, want 6", got)
	}
	r.want(units{S: 94})
}

func bucketFills(r *room) {
	r.limitRate(quota.Rate{Units: 100, Per: time.Second}, 50)
	spent, began := ledger.Units(0), time.Now()
	for range 20 {
		if r.spend(r.newSpend(r.id(), 10)).Approved() {
			spent += 10
		}
	}
	// The store's clock and this one are compared over a time, not at a moment.
	took := time.Since(began)
	if most := 50 + ledger.Units(took/(10*time.Millisecond)) + 1; spent < 50 || spent > most {
		r.Errorf("%d spent in %s, want 50 to %d", spent, took, most)
	}
	r.until("a full bucket", func() bool { return r.level() == 50 })
	r.verify()
}

// rateIsFolded: what vanished agents held is spent, and its records go.
func rateIsFolded(r *room) {
	r.limitRate(slow, 100)
	r.brief()
	agent := r.id()
	r.lease(agent, 10)
	r.untilDue(1)
	r.expire()
	r.want(units{H: 10})
	before := r.moment()
	r.until("the closed lease folded", func() bool {
		accounts, _ := r.foldable(before, ledger.ID{}, 0)
		folded := 0
		for range accounts {
			r.must(r.update(ledger.Scope{FoldOld: before}, func(b *ledger.Book) (err error) {
				folded, err = b.Fold(r.account, before)
				return err
			}))
		}
		return folded == 1
	})
	r.want(units{H: 10})
	if got, n := r.level(), r.count(ledger.GrantQuery{}); got != 90 || n != 0 {
		r.Errorf("the bucket holds %d and %d records are left, want 90 and none", got, n)
	}
}

func nextWindow(r *room) {
	now := time.Now()
	present := quota.NewWindow(now.Add(-time.Hour), now.Add(20*time.Second))
	next := quota.NewWindow(present.End, present.End.Add(time.Hour))
	r.account.Window = present
	agent := r.id()
	r.lease(agent, 10)
	r.account.Window = next
	g := r.lease(agent, 20)
	if !g.StartsAt.Equal(next.Start) || g.ExpiresAt.Sub(g.IssuedAt) != r.terms.TTL || r.grant(g.ID) != g {
		r.Errorf("the lease ahead is %+v, stored as %+v", g, r.grant(g.ID))
	}
	r.want(units{O: 20})
	r.account.Window = present
	r.want(units{O: 10})
}

func allOrNone(r *room) {
	agent := r.id()
	accounts := []ledger.AccountID{endless("a"), endless("b"), endless("c")}
	group := func(costs ...ledger.Units) []ledger.Spend {
		items := make([]ledger.Spend, len(accounts))
		for i, id := range accounts {
			items[i] = ledger.Spend{ID: r.id(), Account: id, Agent: agent, Region: "eu", Cost: costs[i]}
		}
		return items
	}
	spend := func(items []ledger.Spend) (answers []ledger.Answer) {
		scope := ledger.Scope{Accounts: accounts}
		for _, s := range items {
			scope.Grants = append(scope.Grants, s.ID)
		}
		r.must(r.Store.Update(r.Context(), scope, func(b *ledger.Book) (err error) {
			answers, err = b.SpendAll(items, []ledger.Terms{r.terms, r.terms, r.terms})
			return err
		}))
		return answers
	}
	fits, fails := group(500, 600, 700), group(1, 401, 1)
	for range 2 {
		for _, ans := range spend(fits) {
			if !ans.Approved() {
				r.Errorf("denied with %q", ans.Grant.Reason)
			}
		}
		answers := spend(fails)
		r.wantReason(answers[0], quota.Cancelled)
		r.wantReason(answers[1], quota.Exhausted)
		r.wantReason(answers[2], quota.Cancelled)
		for i, id := range accounts {
			r.account = id
			r.want(units{S: fits[i].Cost})
		}
	}
}

func demands(r *room) {
	first, second := r.newAsk(r.id(), 11), r.newAsk(r.id(), 22)
	second.Region = "us"
	r.ask(first)
	r.ask(second)
	third := r.newAsk(r.id(), 1)
	r.must(r.update(ledger.Scope{}, func(b *ledger.Book) error {
		_, err := b.Ask(third, r.terms, func(room ledger.Room) ledger.Units {
			got := maps.Collect(room.Others)
			if want := map[ledger.Demand]int{{Region: "eu", Units: 11}: 1, {Region: "us", Units: 22}: 1}; !maps.Equal(got, want) {
				r.Errorf("others want %v, want %v", got, want)
			}
			return 1
		})
		return err
	}))
}
