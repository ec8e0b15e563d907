//go:build linux

package chaos

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// seen is what the callers of one key learnt in all.
type seen struct {
	used  quota.Units // of allowed takes
	maybe quota.Units // of takes that may have been charged, as far as callers know
}

// judge holds what callers were told against the ledger at rest, when nothing is out any more,
// and names every promise that was broken. A key's windows are added up.
func judge(takes []take, accounts []ledger.Account) []string {
	counts := map[quota.Key]seen{}
	for _, t := range takes {
		n := counts[t.key]
		switch t.outcome {
		case allowed:
			n.used += t.cost
		case unknown, unavailable:
			n.maybe += t.cost
		}
		counts[t.key] = n
	}
	books := map[quota.Key][]ledger.Account{}
	for _, a := range accounts {
		books[a.ID.Key] = append(books[a.ID.Key], a)
		if _, ok := counts[a.ID.Key]; !ok {
			counts[a.ID.Key] = seen{}
		}
	}
	var broken []string
	for key, n := range counts {
		for _, what := range judgeKey(n, books[key]) {
			broken = append(broken, fmt.Sprintf("%s: %s", key, what))
		}
	}
	slices.Sort(broken)
	return broken
}

func judgeKey(n seen, windows []ledger.Account) (broken []string) {
	var most, settled, spent, covered, out, unleased, given, overshoot, budget quota.Units
	exact := false
	for _, a := range windows {
		most += a.Largest.Units
		switch a.Class {
		case quota.Exact, quota.Hard:
			exact = exact || a.Class == quota.Exact
			given += a.Uncertain
			overshoot += a.Overshoot
		case quota.Bounded:
			most += a.Budget.Units
			budget += a.Budget.Units
			overshoot += a.Overshoot
		case quota.BestEffort: // what was given back and used all the same
			most += a.Uncertain + a.Overshoot
		}
		settled += a.Settled()
		spent += a.Spent
		covered += a.Settled() + a.Held + a.Uncertain
		out += a.Outstanding
		unleased += a.Unleased
	}
	check := func(ok bool, format string, args ...any) {
		if !ok {
			broken = append(broken, fmt.Sprintf(format, args...))
		}
	}
	check(n.used <= most, "callers used %d, the promise is %d", n.used, most)
	check(n.used <= covered, "callers used %d, the ledger answers for %d: a grant was lost", n.used, covered)
	check(!exact || n.used <= spent, "callers were told that %d were spent, the ledger recorded %d: a spend was lost", n.used, spent)
	check(settled <= n.used+n.maybe, "the ledger settled %d, callers used %d and do not know of %d", settled, n.used, n.maybe)
	check(given == 0, "%d unconfirmed units were given back, which this class never does", given)
	check(overshoot <= budget, "the ledger saw an overshoot of %d, the budget is %d", overshoot, budget)
	check(unleased == 0, "%d units were used without a lease", unleased)
	check(out == 0, "%d units are still out", out)
	return broken
}

// A judge that lets everything pass would be worth nothing: each broken promise is noticed.
func TestTheModelNoticesEachBrokenPromise(t *testing.T) {
	t.Parallel()
	key := quota.Key{Tenant: "acme", Dimension: "calls"}
	account := func(class quota.Class, tally ledger.Tally) ledger.Account {
		limit := quota.LimitOf(100)
		return ledger.Account{
			ID:    ledger.AccountID{Key: key},
			Terms: ledger.Terms{Class: class, Limit: limit, Budget: quota.LimitOf(5)}, Tally: tally, Largest: limit,
		}
	}
	used := func(n quota.Units) take { return take{key: key, cost: n, outcome: allowed} }
	for name, c := range map[string]struct {
		takes   []take
		account ledger.Account
		want    string // "": all is well
	}{
		"all confirmed":          {[]take{used(60), used(40)}, account(quota.Hard, ledger.Tally{Leased: 100}), ""},
		"rest of a crash held":   {[]take{used(60)}, account(quota.Hard, ledger.Tally{Leased: 50, Held: 10}), ""},
		"within the budget":      {[]take{used(105)}, account(quota.Bounded, ledger.Tally{Leased: 100, Uncertain: 5}), ""},
		"an answer was lost":     {[]take{used(60), {key: key, cost: 2, outcome: unknown}}, account(quota.Exact, ledger.Tally{Spent: 62}), ""},
		"nobody was there":       {[]take{{key: key, cost: 2, outcome: unsent}}, account(quota.Hard, ledger.Tally{Leased: 2}), "settled 2"},
		"overshoot of nobody's":  {nil, account(quota.Exact, ledger.Tally{Spent: 101}), "saw an overshoot of 1"},
		"over the limit":         {[]take{used(101)}, account(quota.Hard, ledger.Tally{Leased: 101}), "promise is 100"},
		"over limit and budget":  {[]take{used(106)}, account(quota.Bounded, ledger.Tally{Leased: 106}), "promise is 105"},
		"a lost grant":           {[]take{used(60)}, account(quota.Hard, ledger.Tally{Leased: 59}), "a grant was lost"},
		"a lost spend":           {[]take{used(60)}, account(quota.Exact, ledger.Tally{Spent: 50, Held: 10}), "a spend was lost"},
		"charged twice":          {[]take{used(60)}, account(quota.Hard, ledger.Tally{Leased: 61}), "settled 61"},
		"given back":             {[]take{used(60)}, account(quota.Hard, ledger.Tally{Leased: 50, Uncertain: 10}), "10 unconfirmed units were given back"},
		"use without a lease":    {[]take{used(60)}, account(quota.Hard, ledger.Tally{Leased: 50, Unleased: 10}), "10 units were used without a lease"},
		"a lease without an end": {[]take{used(60)}, account(quota.Hard, ledger.Tally{Leased: 60, Outstanding: 1}), "1 units are still out"},
		"no account at all":      {[]take{used(1)}, ledger.Account{ID: ledger.AccountID{Key: quota.Key{Tenant: "b"}}}, "the promise is 0"},
	} {
		c.account.Overshoot = max(0, c.account.Settled()-100)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := strings.Join(judge(c.takes, []ledger.Account{c.account}), "\n")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("the judge says %q, want %q", got, c.want)
			}
		})
	}
}
