package ledger_test

import (
	"context"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// link is one quota of a chain.
type link struct {
	dimension string
	terms     ledger.Terms
}

// chain is a desk with several quotas: a rate for all, a day's posts, and a day's exports.
func chain(t tb) (*desk, []link) {
	d := open(t, quota.Exact, 1, 0)
	of := func(name string, change func(*ledger.Terms)) link {
		terms := d.terms
		change(&terms)
		return link{name, terms}
	}
	return d, []link{
		of("global", func(t *ledger.Terms) {
			t.Kind, t.Rate, t.Limit = quota.RateLimit, perSecond(10), quota.LimitOf(20)
		}),
		of("post", func(t *ledger.Terms) { t.Limit = quota.LimitOf(1) }),
		of("exports", func(t *ledger.Terms) { t.Limit = quota.LimitOf(100) }),
	}
}

func (d *desk) at(l link) ledger.AccountID {
	id := ledger.AccountID{Key: quota.Key{Tenant: "acme", Dimension: l.dimension}, Window: day}
	if l.terms.Kind == quota.RateLimit {
		id.Window = quota.Window{}
	}
	return id
}

func (d *desk) items(links []link, costs ...ledger.Units) []ledger.Spend {
	items := make([]ledger.Spend, len(links))
	for i, l := range links {
		items[i] = ledger.Spend{ID: d.newID(), Account: d.at(l), Agent: agent(1), Region: "eu", Cost: costs[i]}
	}
	return items
}

func (d *desk) trySpendAll(links []link, items []ledger.Spend) (answers []ledger.Answer, err error) {
	var scope ledger.Scope
	terms := make([]ledger.Terms, len(links))
	for i, l := range links {
		terms[i] = l.terms
		scope.Accounts = append(scope.Accounts, d.at(l))
		scope.Grants = append(scope.Grants, items[i].ID)
	}
	err = d.store.Update(context.Background(), scope, func(b *ledger.Book) error {
		answers, err = b.SpendAll(items, terms)
		return err
	})
	return answers, err
}

func (d *desk) spendAll(links []link, items []ledger.Spend) []ledger.Answer {
	d.Helper()
	answers, err := d.trySpendAll(links, items)
	d.must(err)
	d.verify()
	return answers
}

func (d *desk) settledOf(links []link) (all [3]ledger.Units) {
	d.Helper()
	for i, l := range links {
		a := d.stateOf(d.at(l))
		all[i] = a.Settled()
	}
	return all
}

func TestR1_10AFailureLeavesEveryOtherLinkAsItWas(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		costs [3]ledger.Units
		want  [3]quota.Reason
	}{
		{[3]ledger.Units{5, 1, 10}, [3]quota.Reason{}},
		{[3]ledger.Units{21, 1, 10}, [3]quota.Reason{quota.TooLarge, quota.Cancelled, quota.Cancelled}},
		{[3]ledger.Units{5, 2, 10}, [3]quota.Reason{quota.Cancelled, quota.TooLarge, quota.Cancelled}},
		{[3]ledger.Units{5, 1, 91}, [3]quota.Reason{quota.Cancelled, quota.Cancelled, quota.Exhausted}},
		{[3]ledger.Units{20, 1, 91}, [3]quota.Reason{quota.Exhausted, quota.Cancelled, quota.Exhausted}},
	} {
		d, links := chain(t)
		d.spendAll(links[2:], d.items(links[2:], 10))
		d.spendAll(links[:1], d.items(links[:1], 1))
		before := d.settledOf(links)
		items := d.items(links, c.costs[:]...)
		answers := d.spendAll(links, items)
		var got [3]quota.Reason
		passed := true
		for i, ans := range answers {
			got[i] = ans.Grant.Reason
			passed = passed && ans.Approved()
		}
		if got != c.want || passed != (c.want == [3]quota.Reason{}) {
			t.Errorf("%v: %q, want %q", c.costs, got, c.want)
		}
		want := before
		if passed {
			for i := range want {
				want[i] += c.costs[i]
			}
		}
		if after := d.settledOf(links); after != want {
			t.Errorf("%v: spent %v, want %v", c.costs, after, want)
		}
		// However often it is sent, and whatever has become free since.
		d.now = d.now.Add(time.Hour)
		for i, again := range d.spendAll(links, items) {
			if !again.Repeated || again.Grant != answers[i].Grant {
				t.Errorf("%v again: %+v, want %+v", c.costs, again.Grant, answers[i].Grant)
			}
		}
		if after := d.settledOf(links); after != want {
			t.Errorf("%v again: spent %v, want %v", c.costs, after, want)
		}
	}
}

func TestAGroupAddsUpItsOwnItems(t *testing.T) {
	t.Parallel()
	d, links := chain(t)
	exports := []link{links[2], links[2], links[2]}
	if answers := d.spendAll(exports, d.items(exports, 40, 40, 20)); !answers[2].Approved() {
		t.Errorf("100 of 100 in three items: %q", answers[2].Grant.Reason)
	}
	d, links = chain(t)
	exports = []link{links[2], links[2], links[0]}
	answers := d.spendAll(exports, d.items(exports, 60, 41, 5))
	for i, want := range []quota.Reason{quota.Cancelled, quota.TooLarge, quota.Cancelled} {
		d.wantReason(answers[i], want)
	}
}

func TestAGroupOfWhichAPartWasWithdrawnIsDenied(t *testing.T) {
	t.Parallel()
	d, links := chain(t)
	items := d.items(links, 5, 1, 10)
	d.account, d.terms = d.at(links[1]), links[1].terms
	d.must(d.cancel(items[1].ID, agent(1)))
	for _, ans := range d.spendAll(links, items) {
		d.wantReason(ans, quota.Cancelled)
	}
	if got := d.settledOf(links); got != [3]ledger.Units{} {
		t.Errorf("spent %v of a group that was withdrawn in part", got)
	}
}

func TestAGroupThatIsTooLateSpendsNothing(t *testing.T) {
	t.Parallel()
	d, links := chain(t)
	items := d.items(links, 5, 1, 10)
	items[2].NotAfter = d.now.Add(-time.Second)
	answers := d.spendAll(links, items)
	for i, want := range []quota.Reason{quota.Cancelled, quota.Cancelled, quota.Stale} {
		d.wantReason(answers[i], want)
	}
}

// What is wrong with one item is an error, and leaves no record of any.
func TestABrokenGroupDecidesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*desk, []ledger.Spend)
		code   ledger.Code
	}{
		"cost 0":    {func(_ *desk, s []ledger.Spend) { s[1].Cost = 0 }, ledger.CodeInvalid},
		"one twice": {func(_ *desk, s []ledger.Spend) { s[2].ID = s[0].ID }, ledger.CodeInvalid},
		"no v7":     {func(_ *desk, s []ledger.Spend) { s[2].ID = ledger.ID{1} }, ledger.CodeInvalid},
		"too old":   {func(d *desk, s []ledger.Spend) { s[2].ID = idAt(d.now.Add(-365*24*time.Hour), 1) }, ledger.CodeTooOld},
	} {
		d, links := chain(t)
		items := d.items(links, 5, 1, 10)
		c.change(d, items)
		_, err := d.trySpendAll(links, items)
		d.wantCode(err, c.code)
		if n := len(d.records()); n != 0 {
			t.Errorf("%s: %d records, want none", name, n)
		}
	}
	d, links := chain(t)
	items := d.items(links, 5, 1, 10)
	d.spendAll(links, items)
	others := d.items(links, 5, 1, 10)
	others[1] = items[1]
	_, err := d.trySpendAll(links, others)
	d.wantCode(err, ledger.CodeTerms)
	if n := len(d.records()); n != 3 {
		t.Errorf("%d records, want the three of the group that was spent", n)
	}
}

func TestASumBeyondInt64IsFoundBeforeAnythingIsSpent(t *testing.T) {
	t.Parallel()
	d := open(t, quota.BestEffort, quota.MaxUnits, quota.MaxUnits)
	d.lease(agent(1), 1_000)
	d.expire(time.Minute) // 1,000 are uncertain, and no longer charged
	l := link{exports.Dimension, d.terms}
	small := link{"small", d.terms}
	items := d.items([]link{small, l}, 5, quota.MaxUnits-10)
	_, err := d.trySpendAll([]link{small, l}, items)
	d.wantCode(err, ledger.CodeOverflow)
	if n := len(d.records()); n != 1 {
		t.Errorf("%d records, want the lease alone", n)
	}
}
