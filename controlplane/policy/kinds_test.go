package policy

import (
	"strings"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// rateWith is a good dimension of kind rate on lines 1 to 4, and more lines from 5 on.
func rateWith(lines ...string) string { return kindWith("rate", lines) }

// slotsWith is a dimension of kind concurrency that lacks its limit and hold.
func slotsWith(lines ...string) string { return kindWith("concurrency", lines) }

func kindWith(kind string, lines []string) string {
	text := "dimensions:\n- name: a\n  kind: " + kind + "\n  class: hard\n"
	for _, line := range lines {
		text += "  " + line + "\n"
	}
	return text
}

var badKinds = []badInput{
	{"rate without a time", rateWith("limit: 100"), `policy.yaml:5: dimensions[0].limit: "100" is not a rate; allowed: N/s, N/m, N/h, N/d or N/DURATION such as 1000/60s, or the word unlimited`},
	{"rate of words", rateWith("limit: fast/s"), `policy.yaml:5: dimensions[0].limit: "fast/s" is not a rate; allowed: N/s,`},
	{"rate below zero", rateWith("limit: -5/s"), `policy.yaml:5: dimensions[0].limit: "-5/s" is not a rate`},
	{"fractional rate", rateWith("limit: 0.5/s"), `policy.yaml:5: dimensions[0].limit: "0.5/s" is not a rate`},
	{"octal rate", rateWith("limit: 010/s"), `policy.yaml:5: dimensions[0].limit: 010 begins with a 0`},
	{"unknown time", rateWith("limit: 5/fortnight"), `policy.yaml:5: dimensions[0].limit: "fortnight" is not a time; allowed: N/s,`},
	{"rate per nothing", rateWith("limit: 5/0s"), `policy.yaml:5: dimensions[0].limit: "0s" is too short or too long a time; allowed: N/s, N/m, N/h, N/d or N/DURATION such as 1000/60s, or the word unlimited, with a DURATION from 1ms to 8784h`},
	{"rate per below zero", rateWith("limit: 5/-1s"), `policy.yaml:5: dimensions[0].limit: "-1s" is too short or too long a time`},
	{"rate per ever", rateWith("limit: 5/8785h"), `policy.yaml:5: dimensions[0].limit: "8785h" is too short or too long a time`},
	{"rate too large", rateWith("limit: 4611686018427387905/s"), `policy.yaml:5: dimensions[0].limit: 4611686018427387905 is too large; allowed: N/s, N/m, N/h, N/d or N/DURATION such as 1000/60s, or the word unlimited, with N up to 4611686018427387904`},
	{"rate beyond int64", rateWith("limit: 9223372036854775808/s"), `policy.yaml:5: dimensions[0].limit: 9223372036854775808 leaves the int64 range`},
	{"burst as a rate", rateWith("limit: 5/s", "burst: 5/s"), `policy.yaml:6: dimensions[0].burst: "5/s" is text; allowed: a whole number of 0 or more`},
	{"burst too large", rateWith("limit: 5/s", "burst: 4611686018427387905"), `policy.yaml:6: dimensions[0].burst: 4611686018427387905 is too large; allowed: a whole number of 0 or more, up to 4611686018427387904`},
	{"burst of no limit", rateWith("limit: unlimited", "burst: 5"), `policy.yaml:6: dimensions[0].burst: has no meaning with limit unlimited; allowed: only with a rate`},
	{"period of a rate", rateWith("limit: 5/s", "period: {every: day}"), `policy.yaml:6: dimensions[0].period: has no meaning with kind rate; allowed: only with kind period`},
	{"hold of a rate", rateWith("limit: 5/s", "max_hold: 2h"), `policy.yaml:6: dimensions[0].max_hold: has no meaning with kind rate; allowed: only with kind concurrency`},
	{"statement of a rate", rateWith("limit: 5/s", "statement: {final_after: 1h}"), `policy.yaml:6: dimensions[0].statement: has no meaning with kind rate; allowed: only with kind period`},
	{"overshoot above the burst", rateWith("limit: 5/s", "burst: 10", "overshoot: 11"), `policy.yaml:7: dimensions[0].overshoot: 11 is above the limit of 10; allowed: 0 to 10`},
	{"plan of a rate", rateWith("limit: 5/s", "plans: {pro: {limit: 50}}"), `policy.yaml:6: dimensions[0].plans.pro.limit: "50" is not a rate`},
	{"plan of a burst alone", rateWith("limit: 5/s", "plans: {pro: {burst: 50}}"), `policy.yaml:6: dimensions[0].plans.pro.limit: is missing; allowed: N/s,`},
	{"override of a rate", rateWith("overrides:", "- {tenant: t, limit: 50, owner: o, reason: r, expires: 2027-01-31}"), `policy.yaml:6: dimensions[0].overrides[0].limit: "50" is not a rate`},
	{"rate of a period", swap("limit", "limit: 5/s"), `policy.yaml:4: dimensions[0].limit: "5/s" is text; allowed: a whole number of 0 or more, or the word unlimited`},
	{"burst of a period", dimensionWith("burst: 5"), `policy.yaml:7: dimensions[0].burst: has no meaning with kind period; allowed: only with kind rate`},
	{"hold of a period", dimensionWith("max_hold: 2h"), `policy.yaml:7: dimensions[0].max_hold: has no meaning with kind period; allowed: only with kind concurrency`},
	{"slots without a hold", slotsWith("limit: 20"), `policy.yaml:2: dimensions[0].max_hold: is missing; allowed: a duration such as 30s, from 1s to 720h (the longest that one run may take)`},
	{"slots held too briefly", slotsWith("limit: 20", "max_hold: 999ms"), `policy.yaml:6: dimensions[0].max_hold: 999ms is too short; allowed: a duration such as 30s, from 1s to 720h`},
	{"slots held too long", slotsWith("limit: 20", "max_hold: 721h"), `policy.yaml:6: dimensions[0].max_hold: 721h is too long`},
	{"slots without a limit", slotsWith("max_hold: 2h"), `policy.yaml:2: dimensions[0].limit: is missing; allowed: a whole number of 0 or more, or the word unlimited`},
	{"final too late", dimensionWith("statement: {final_after: 2161h}"), `policy.yaml:7: dimensions[0].statement.final_after: 2161h is too long; allowed: a duration such as 30s, from 1m to 2160h`},
	{"final too soon", dimensionWith("statement: {final_after: 59s}"), `policy.yaml:7: dimensions[0].statement.final_after: 59s is too short`},
}

func TestRatesAsPeopleWriteThem(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		lines []string
		rate  quota.Rate
		burst quota.Units
	}{
		{[]string{"limit: 100/s", "burst: 200"}, quota.Rate{Units: 100, Per: time.Second}, 200},
		{[]string{"limit: 6000/m"}, quota.Rate{Units: 6000, Per: time.Minute}, 6000},
		{[]string{"limit: 5/h"}, quota.Rate{Units: 5, Per: time.Hour}, 5},
		{[]string{"limit: 1/d"}, quota.Rate{Units: 1, Per: 24 * time.Hour}, 1},
		{[]string{"limit: 2/second"}, quota.Rate{Units: 2, Per: time.Second}, 2},
		{[]string{"limit: 2/minute"}, quota.Rate{Units: 2, Per: time.Minute}, 2},
		{[]string{"limit: 2/hour"}, quota.Rate{Units: 2, Per: time.Hour}, 2},
		{[]string{"limit: 2/day"}, quota.Rate{Units: 2, Per: 24 * time.Hour}, 2},
		{[]string{"limit: 1000/60s"}, quota.Rate{Units: 1000, Per: time.Minute}, 1000},
		{[]string{"limit: 10/1m30s"}, quota.Rate{Units: 10, Per: 90 * time.Second}, 10},
		{[]string{"limit: 1/1ms"}, quota.Rate{Units: 1, Per: time.Millisecond}, 1},
		{nil, quota.Rate{Units: 2, Per: time.Second}, 120},                      // R1.7
		{[]string{"burst: 50"}, quota.Rate{Units: 2, Per: time.Second}, 50},     // R1.7's rate
		{[]string{"limit: 0/s"}, quota.Rate{Units: 0, Per: time.Second}, 0},     // A4
		{[]string{"limit: 9/s", "burst: 0"}, quota.Rate{Units: 9, Per: 1e9}, 0}, // A4
	} {
		d := mustParse(t, rateWith(tc.lines...)).Dimensions[0]
		if d.Kind != quota.RateLimit || d.Rate != tc.rate || d.Limit != quota.LimitOf(tc.burst) {
			t.Errorf("%v: %s %v with burst %v, want %v with %d", tc.lines, d.Kind, d.Rate, d.Limit, tc.rate, tc.burst)
		}
		if d.Period != (quota.Calendar{}) || d.FinalAfter != 0 || d.Lease.TTL != 30*time.Second {
			t.Errorf("%v: period %v, final after %s, ttl %s", tc.lines, d.Period, d.FinalAfter, d.Lease.TTL)
		}
	}
}

func TestA4RateOfZeroDeniesWhateverTheBurst(t *testing.T) {
	t.Parallel()
	doc := mustParse(t, rateWith("limit: 0/s", "burst: 9"))
	if got := doc.Dimensions[0].Limit; got != quota.LimitOf(0) {
		t.Errorf("burst %v, want 0", got)
	}
	if want := "policy.yaml:6: dimensions[0].burst: 9 has no effect: a rate of 0 denies everything"; Faults(doc.Warnings).Error() != want {
		t.Errorf("warnings %v, want %s", doc.Warnings, want)
	}
}

func TestRateOfPlansAndOverrides(t *testing.T) {
	t.Parallel()
	text := rateWith("limit: 1000/s", "overshoot: 1%", "plans: {basic: {limit: 600/m}, free: {limit: 100/s, burst: 250}, all: {limit: unlimited}}",
		"overrides:", `- {tenant: big, limit: 5000/s, burst: 20000, owner: o, reason: r, expires: "2027-01-31T00:00:00Z"}`) +
		"tenants: [{tenant: b, plan: basic}, {tenant: f, plan: free}, {tenant: u, plan: all}]\n"
	s := mustParse(t, text).Snapshot(1)
	for _, tc := range []struct {
		tenant, want string
		budget       quota.Limit
	}{
		{"other", "1000/s with burst 1000", quota.LimitOf(10)},
		{"b", "600/m with burst 600", quota.LimitOf(6)},
		{"f", "100/s with burst 250", quota.LimitOf(2)},
		{"u", "unlimited", quota.NoLimit},
		{"big", "5000/s with burst 20000", quota.LimitOf(200)},
	} {
		terms, _ := resolve(t, s, tc.tenant, "a", today)
		if terms.LimitText() != tc.want || terms.Budget != tc.budget {
			t.Errorf("%s: %s, budget %v; want %s, %v", tc.tenant, terms.LimitText(), terms.Budget, tc.want, tc.budget)
		}
	}
	// The window never ends, so the override ends at its own moment.
	dim, _ := s.Dimension("a")
	end := time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC)
	for at, want := range map[time.Time]Rule{end.Add(-time.Microsecond): RuleOverride, end: RuleDefault} {
		if _, m := resolve(t, s, "big", "a", dim.Moment(at)); m.Rule != want {
			t.Errorf("at %s the %s decides, want the %s", at, m.Rule, want)
		}
	}
}

func TestSlots(t *testing.T) {
	t.Parallel()
	s := mustParse(t, slotsWith("limit: 20", "max_hold: 2h", "plans: {pro: {limit: unlimited}}")+"tenants: [{tenant: p, plan: pro}]\n").Snapshot(1)
	terms, _ := resolve(t, s, "x", "a", today)
	if terms.Kind != quota.Concurrency || terms.Limit != quota.LimitOf(20) || terms.MaxHold != 2*time.Hour || terms.Budget != quota.LimitOf(2) {
		t.Errorf("terms %+v", terms)
	}
	if terms, _ = resolve(t, s, "p", "a", today); terms.Limit != quota.NoLimit {
		t.Errorf("plan's limit %v, want none", terms.Limit)
	}
}

func TestR2_16StatementsAreFinalAfter(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		dimensionWith(): 72 * time.Hour, dimensionWith("statement: {final_after: 1m}"): time.Minute,
		dimensionWith("statement: {final_after: 2160h}"): 90 * 24 * time.Hour, dimensionWith("statement:"): 72 * time.Hour,
	} {
		if got := mustParse(t, text).Dimensions[0].FinalAfter; got != want {
			t.Errorf("final after %s, want %s in\n%s", got, want, text)
		}
	}
}

func TestBudgetThatCannotSustainLeases(t *testing.T) {
	t.Parallel()
	const callers = "less than two round trips (2 x 50ms) of a steady use of the limit take: leases run dry and callers wait"
	for text, want := range map[string]string{
		// 10,000/s take 1,000 units in 100 ms.
		rateWith("limit: 10000/s", "overshoot: 999"):                                      "policy.yaml:5: dimensions[0].limit: the overshoot budget of 10000 (999) is 999 units, " + callers + "; a budget of 1000 would do",
		rateWith("limit: 10000/s", "overshoot: 1000"):                                     "",
		strings.Replace(swap("limit", "limit: 50000"), "every: day", "every: second", 1):  "policy.yaml:4: dimensions[0].limit: the overshoot budget of 50000 (1%) is 500 units, " + callers + "; a budget of 5000 would do",
		strings.Replace(swap("limit", "limit: 120000"), "every: day", "every: minute", 1): "", // 200 of 1,200
		slotsWith("limit: 1000", "max_hold: 1s"):                                          "",
		dimensionWith("plans: {fast: {limit: 9223372036854775807, overshoot: 0%}}"):       "policy.yaml:7: dimensions[0].plans.fast.limit: the overshoot budget of 9223372036854775807 (0%) is 0 units: every take goes to the exact lane",
	} {
		if got := Faults(mustParse(t, text).Warnings).Error(); got != want {
			t.Errorf("warnings\n%s\nwant\n%s", got, want)
		}
	}
}
