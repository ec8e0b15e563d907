package policy

import (
	"slices"
	"strings"
	"testing"
)

func TestDiffIsAboutMeaning(t *testing.T) {
	t.Parallel()
	old := mustParse(t, goodYAML)
	for _, tc := range []struct {
		name string
		edit []string // old, new, ...
		want []string
	}{
		{"nothing", nil, nil},
		{"comment", []string{"    class: bounded\n", "    class: bounded # as sold\n"}, nil},
		{"default written out", []string{"    class: exact\n", "    class: exact\n    unit: requests\n"}, nil},
		{"limit", []string{"limit: 50000", "limit: 40000"}, []string{"dimensions.report_export.limit: 50000 -> 40000"}},
		{"to unlimited", []string{"limit: 50000", "limit: unlimited"}, []string{"dimensions.report_export.limit: 50000 -> unlimited"}},
		{"two fields", []string{"ttl: 30s", "ttl: 60s", "every: month", "every: week", "day: 31", "day: 5"}, []string{
			"dimensions.payouts.period.every: month -> week",
			"dimensions.payouts.period.anchor.day: 31 -> 5",
			"dimensions.report_export.lease.ttl: 30s -> 1m",
			"dimensions.report_export.lease.grace: 3s -> 5s"}},
		{"tenant", []string{"  - {tenant: globex}\n", "  - {tenant: a.b}\n"}, []string{
			`tenants."a.b": added (plan none)`, "tenants.globex: removed (plan none)"}},
		{"plan of a tenant", []string{"tenant: globex", "tenant: globex, plan: basic"}, []string{"tenants.globex.plan: none -> basic"}},
		{"override", []string{"limit: 80000", "limit: 90000", "2027-01-31", "2027-02-01"}, []string{
			"dimensions.report_export.overrides.acme.limit: 80000 -> 90000",
			"dimensions.report_export.overrides.acme.expires: 2027-01-30T15:00:00Z -> 2027-01-31T15:00:00Z"}},
		{"plan", []string{"      basic: {limit: 1000}\n", "      basic: {limit: 1000}\n      pro: {limit: 5000}\n"}, []string{
			"dimensions.report_export.plans.pro: added (limit 5000, overshoot 0.5%)"}},
		{"root", []string{"unlisted_tenants: allow", "unlisted_tenants: deny"}, []string{"unlisted_tenants: allow -> deny"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			text := goodYAML
			for i := 0; i < len(tc.edit); i += 2 {
				if !strings.Contains(text, tc.edit[i]) {
					t.Fatalf("no %q in the policy", tc.edit[i])
				}
				text = strings.Replace(text, tc.edit[i], tc.edit[i+1], 1)
			}
			d := mustParse(t, text)
			var got []string
			for _, c := range Diff(old, d) {
				got = append(got, c.String())
			}
			slices.Sort(got)
			slices.Sort(tc.want)
			if !slices.Equal(got, tc.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
			}
			if same := old.Sum() == d.Sum(); same != (len(tc.want) == 0) {
				t.Errorf("same sum: %v, but %d changes", same, len(tc.want))
			}
		})
	}
}

func TestDiffOfAddedAndRemoved(t *testing.T) {
	t.Parallel()
	small, large := mustParse(t, dimensionWith()), mustParse(t, goodYAML)
	var paths []string
	for _, c := range Diff(small, large) {
		paths = append(paths, c.Path)
	}
	want := []string{"default_plan", "dimensions.a", "dimensions.payouts", "dimensions.report_export",
		"dimensions.report_export.overrides.acme", "dimensions.report_export.plans.basic",
		"dimensions.report_export.plans.enterprise", "tenants.acme", "tenants.globex"}
	if !slices.Equal(paths, want) {
		t.Errorf("got %v, want %v", paths, want)
	}
	first := Diff(nil, small)
	if len(first) != 2 || first[1].String() != "policy: added (unlisted_tenants allow, default_plan none)" {
		t.Errorf("the first policy adds %v", first)
	}
	if last := Diff(small, nil); len(last) != 2 || last[0].New != "" {
		t.Errorf("taking it away removes %v", last)
	}
}

// TestSumsOfStoredVersionsStay pins sums that logs hold: a directory whose sum changed would
// be applied anew, and undo a rollback.
func TestSumsOfStoredVersionsStay(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		goodYAML:        "7dc91c8a9710bb9e3774d4cd3c6a12930edd881a54c5d28f3cca2f122d92444d",
		dimensionWith(): "adea30b0f3d888a161a7c89fb156e42f22d46c189a695bfbb71399ac2453b036",
	} {
		if got := mustParse(t, text).Sum(); got != want {
			t.Errorf("sum %s, want %s", got, want)
		}
	}
}

func TestDiffOfRatesLeasesAndOperations(t *testing.T) {
	t.Parallel()
	rich := func(replace ...string) *Document {
		text := `dimensions:
- name: calls
  kind: rate
  limit: 100/s
  class: hard
- name: jobs
  kind: concurrency
  limit: 20
  max_hold: 2h
  class: hard
- name: exports
  kind: period
  limit: 1000
  period: {every: day}
  class: hard
  statement: {final_after: 24h}
  outage: {mode: extend, rate: 50/s, budget: 500}
  lease:
    regions: {eu: {floor: 10%}}
    schedule: [{from: "08:00", to: "20:00", max: 9}]
  plans: {pro: {limit: 2000, lease: {max: 5}}}
operations:
- {name: export, takes: [{dimension: exports}, {dimension: jobs, cost: 2}], outage: closed}
`
		return mustParse(t, strings.NewReplacer(replace...).Replace(text))
	}
	for _, tc := range []struct{ edit, want []string }{
		{[]string{"100/s", "200/m"}, []string{"dimensions.calls.limit: 100/s -> 200/m", "dimensions.calls.burst: 100 -> 200"}},
		{[]string{"limit: 100/s", "limit: 100/s\n  burst: 150"}, []string{"dimensions.calls.burst: 100 -> 150"}},
		{[]string{"limit: 100/s", "limit: 100/second"}, nil},
		{[]string{"limit: 100/s", "limit: unlimited"}, []string{"dimensions.calls.limit: 100/s -> unlimited", "dimensions.calls.burst: 100 -> none"}},
		{[]string{"2h", "3h"}, []string{"dimensions.jobs.max_hold: 2h -> 3h"}},
		{[]string{"24h", "72h"}, []string{"dimensions.exports.statement.final_after: 24h -> 72h"}},
		{[]string{"50/s", "60/s", "budget: 500", "budget: 600"}, []string{"dimensions.exports.outage.rate: 50/s -> 60/s", "dimensions.exports.outage.budget: 500 -> 600"}},
		{[]string{"floor: 10%", "ceiling: 50%"}, []string{"dimensions.exports.lease.regions.eu.floor: 10% -> 0%", "dimensions.exports.lease.regions.eu.ceiling: 100% -> 50%"}},
		{[]string{"max: 9", "ttl: 10s"}, []string{`dimensions.exports.lease.schedule."08:00-20:00".max: 9 -> none`,
			`dimensions.exports.lease.schedule."08:00-20:00".ttl: none -> 10s`, `dimensions.exports.lease.schedule."08:00-20:00".grace: none -> 1s`}},
		{[]string{"max: 5", "max: 6"}, []string{"dimensions.exports.plans.pro.lease.max: 5 -> 6"}},
		{[]string{"cost: 2", "cost: 3", ", outage: closed", ""}, []string{"operations.export.outage.mode: closed -> as its dimensions",
			"operations.export.outage.after: 10s -> none", "operations.export.takes.jobs.cost: 2 -> 3"}},
		{[]string{"{dimension: exports}, {dimension: jobs, cost: 2}", "{dimension: jobs, cost: 2}, {dimension: exports, cost: 1}"}, nil},
	} {
		var got []string
		changed := rich(tc.edit...)
		for _, c := range Diff(rich(), changed) {
			got = append(got, c.String())
		}
		slices.Sort(got)
		slices.Sort(tc.want)
		if !slices.Equal(got, tc.want) || (changed.Sum() == rich().Sum()) != (len(tc.want) == 0) {
			t.Errorf("%v: got\n%s\nwant\n%s", tc.edit, strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
		}
	}
}
