package policy

import (
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

var badOutages = []badInput{
	{"exact extended", swap("class", "class: exact") + "  outage: {mode: extend, rate: 5/s, budget: 5}\n", `policy.yaml:7: dimensions[0].outage.mode: class exact cannot be extend; allowed: closed, or only with class hard, bounded or best_effort`},
	{"rate extended", rateWith("limit: 5/s", "outage: {mode: extend, rate: 5/s, budget: 5}"), `policy.yaml:6: dimensions[0].outage.mode: kind rate cannot be extend: its window never ends, so it would never get its emergency budget back; allowed: closed, open, or only with kind period`},
	{"slots extended", slotsWith("limit: 5", "max_hold: 2h", "outage: {mode: extend, rate: 5/s, budget: 5}"), `policy.yaml:7: dimensions[0].outage.mode: kind concurrency cannot be extend`},
	{"extend without a rate", dimensionWith("outage: {mode: extend, budget: 5}"), `policy.yaml:7: dimensions[0].outage.rate: is missing; allowed: N/s, N/m, N/h, N/d or N/DURATION such as 1000/60s, above 0`},
	{"extend without a budget", dimensionWith("outage: {mode: extend, rate: 5/s}"), `policy.yaml:7: dimensions[0].outage.budget: is missing; allowed: a whole number from 1 to the limit`},
	{"extend at no rate", dimensionWith("outage: {mode: extend, rate: 0/s, budget: 5}"), `policy.yaml:7: dimensions[0].outage.rate: a rate of 0 would be mode closed`},
	{"extend without limit", dimensionWith("outage: {mode: extend, rate: unlimited, budget: 5}"), `policy.yaml:7: dimensions[0].outage.rate: "unlimited" is not a rate`},
	{"extend of nothing", dimensionWith("outage: {mode: extend, rate: 5/s, budget: 0}"), `policy.yaml:7: dimensions[0].outage.budget: 0 is too small; allowed: a whole number from 1 to the limit`},
	{"extend above the limit", dimensionWith("outage: {mode: extend, rate: 5/s, budget: 1001}"), `policy.yaml:7: dimensions[0].outage.budget: 1001 is above the limit of 1000; allowed: a whole number from 1 to the limit`},
	{"extend for a time", dimensionWith("outage: {mode: extend, rate: 5/s, budget: 5, for: 5m}"), `policy.yaml:7: dimensions[0].outage.for: has no meaning with mode extend; allowed: only with mode open`},
	{"budget of closed", dimensionWith("outage: {budget: 5}"), `policy.yaml:7: dimensions[0].outage.budget: has no meaning with mode closed; allowed: only with mode extend`},
	{"rate of open", dimensionWith("outage: {mode: open, for: 5m, rate: 5/s}"), `policy.yaml:7: dimensions[0].outage.rate: has no meaning with mode open; allowed: only with mode extend`},
}

func TestEmergencyBudgetIsWithinEveryContract(t *testing.T) {
	t.Parallel()
	s := mustParse(t, "default_plan: small\n"+dimensionWith("outage: {mode: extend, after: 3s, rate: 50/s, budget: 500}",
		"plans: {small: {limit: 20}, none: {limit: unlimited}}")+"tenants: [{tenant: u, plan: none}]\n").Snapshot(1)
	for tenant, budget := range map[string]quota.Units{"x": 20, "u": 500} {
		terms, _ := resolve(t, s, tenant, "a", today)
		want := Outage{Extend: true, After: 3 * time.Second, Rate: quota.Rate{Units: 50, Per: time.Second}, Budget: budget}
		if terms.Outage != want || terms.Outage.Mode() != "extend" {
			t.Errorf("%s: outage %+v, want %+v", tenant, terms.Outage, want)
		}
	}
}
