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
