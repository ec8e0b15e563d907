package demo

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
	"github.com/quotalease/quotalease/sim/trace"
)

var key = quota.Key{Tenant: "acme", Dimension: "report_export"}

func account(class quota.Class, limit, budget quota.Units, t ledger.Tally) ledger.Account {
	return ledger.Account{
		ID: ledger.AccountID{Key: key}, Tally: t, Largest: quota.LimitOf(limit),
		Terms: ledger.Terms{Class: class, Limit: quota.LimitOf(limit), Budget: quota.LimitOf(budget)},
	}
}

// logins is a rate of 40 a second with a burst of 100 and a budget of 10: 190 in 2 s.
func logins(t ledger.Tally) ledger.Account {
	a := account(quota.Hard, 100, 10, t)
	a.Kind, a.Rate = quota.RateLimit, quota.Rate{Units: 40, Per: time.Second}
	return a
}

// jobs is a limit of 6 slots.
func jobs(t ledger.Tally) ledger.Account {
	a := account(quota.Hard, 6, 3, t)
	a.Kind = quota.Concurrency
	return a
}

func TestCompareAllowsWhatTheClassesAllow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		count   Count
		account ledger.Account
	}{
		"all confirmed":         {Count{Used: 100}, account(quota.Hard, 100, 10, ledger.Tally{Leased: 100})},
		"a killed agent's":      {Count{Used: 95}, account(quota.Hard, 100, 10, ledger.Tally{Leased: 90, Held: 10})},
		"a lost answer":         {Count{Used: 99, Unknown: 1}, account(quota.Exact, 100, 0, ledger.Tally{Spent: 100})},
		"within the budget":     {Count{Used: 101}, account(quota.Bounded, 100, 1, ledger.Tally{Leased: 100, Uncertain: 1})},
		"open in an outage":     {Count{Used: 120, Open: 20}, account(quota.BestEffort, 100, 10, ledger.Tally{Leased: 100, Unleased: 20})},
		"a rate in 2 s":         {Count{Used: 190}, logins(ledger.Tally{Leased: 180, Held: 10})},
		"slots":                 {Count{Used: 70, Most: 6}, jobs(ledger.Tally{})},
		"slots of the killed":   {Count{Used: 70, Most: 6}, jobs(ledger.Tally{Held: 2})},
		"given back and unused": {Count{Used: 80}, account(quota.BestEffort, 100, 10, ledger.Tally{Leased: 80, Uncertain: 10})},
	} {
		r := compare(map[quota.Key]Count{key: c.count}, []ledger.Account{c.account}, "", 2*time.Second)
		if !r.OK() || len(r.Broken) != 0 {
			t.Errorf("%s: %v", name, r.Broken)
		}
	}
}

func TestCompareNamesWhatDoesNotAddUp(t *testing.T) {
	t.Parallel()
	over := account(quota.Hard, 100, 10, ledger.Tally{Leased: 100})
	over.Overshoot = 3
	for want, c := range map[string]struct {
		count   Count
		account ledger.Account
	}{
		"the bound is 100":             {Count{Used: 101}, account(quota.Hard, 100, 10, ledger.Tally{Leased: 101})},
		"the bound is 101":             {Count{Used: 102}, account(quota.Bounded, 100, 1, ledger.Tally{Leased: 102})},
		"the ledger accounts for 90":   {Count{Used: 95}, account(quota.Hard, 100, 10, ledger.Tally{Leased: 90})},
		"the ledger confirmed 90":      {Count{Used: 80, Unknown: 9}, account(quota.Hard, 100, 10, ledger.Tally{Leased: 90})},
		"4 units are still out":        {Count{Used: 90}, account(quota.Hard, 100, 10, ledger.Tally{Leased: 90, Outstanding: 4})},
		"realised overshoot 3":         {Count{Used: 100}, over},
		"the bound is 190":             {Count{Used: 191}, logins(ledger.Tally{Leased: 191})},
		"used 7, the bound is 6":       {Count{Used: 70, Most: 7}, jobs(ledger.Tally{})},
		"2 slots are still in use":     {Count{Used: 70, Most: 6}, jobs(ledger.Tally{Leased: 2})},
		"3 units are still out":        {Count{Used: 70, Most: 6}, jobs(ledger.Tally{Outstanding: 3})},
		"5 used units are unconfirmed": {Count{Used: 95}, account(quota.Hard, 100, 10, ledger.Tally{Leased: 90, Outstanding: 5})},
	} {
		r := compare(map[quota.Key]Count{key: c.count}, []ledger.Account{c.account}, "", 2*time.Second)
		if r.OK() || !strings.Contains(strings.Join(r.Broken, "\n"), want) {
			t.Errorf("%q is not said: %v", want, r.Broken)
		}
	}
	r := compare(nil, nil, "", 0)
	r.Verify.Differences = 1
	if r.OK() {
		t.Error("a ledger that does not add up passes")
	}
}

func TestADimensionWithoutAGrantHasItsPolicysTerms(t *testing.T) {
	t.Parallel()
	r := compare(map[quota.Key]Count{{Tenant: "acme", Dimension: "payments"}: {Unavailable: 3}}, nil, "", 0)
	if err := r.fill(builtinPolicy); err != nil {
		t.Fatal(err)
	}
	if d := r.Dimensions[0]; d.Class != "exact" || d.Limit != 300 || d.Bound != 300 || !r.OK() {
		t.Errorf("%+v, broken %v", d, r.Broken)
	}
}

func TestDerivedAndCutPoliciesAreValid(t *testing.T) {
	t.Parallel()
	f, err := os.Open("../../../sim/trace/testdata/access.log")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	events, _, err := trace.Load(t.Context(), f, trace.Options{Name: "access.log"})
	if err != nil {
		t.Fatal(err)
	}
	p, err := prepare(Options{Events: events, Length: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"derived": p.policy, "built in": builtinPolicy} {
		doc, err := policy.Parse([]policy.File{{Name: name, Text: text}}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range doc.Dimensions {
			if d.Kind != quota.Period { // the demo cuts no other
				continue
			}
			cut, from, err := withLimit(text, d.Name, 7)
			if err != nil || from != d.Limit.Units {
				t.Fatalf("%s, cut %s: from %d, %v", name, d.Name, from, err)
			}
			after, err := policy.Parse([]policy.File{{Name: name, Text: cut}}, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := after.Snapshot(1).Dimension(d.Name); got.Limit != quota.LimitOf(7) {
				t.Errorf("%s, cut %s: limit %v", name, d.Name, got.Limit)
			}
			if n := len(policy.Diff(doc, after)); n > 1 {
				t.Errorf("%s, cut %s: %d changes", name, d.Name, n)
			}
		}
	}
}

func TestBuiltinTrafficReachesTheLimitsThatTheDemoShows(t *testing.T) {
	t.Parallel()
	events := builtinTrace(1, time.Unix(0, 0), 24*time.Second)
	sums := map[string]quota.Units{}
	for i, e := range events {
		if i > 0 && e.At.Before(events[i-1].At) {
			t.Fatal("not in order of time")
		}
		if e.Tenant == "acme" {
			sums[e.Dimension] += e.Cost
		}
	}
	if sums["report_export"] < 5000 || sums["payments"] < 400 {
		t.Errorf("demand below the limits: %v", sums)
	}
}
