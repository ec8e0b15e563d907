package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

func resolve(t *testing.T, s *Snapshot, tenant, dimension string, at time.Time) (Terms, Match) {
	t.Helper()
	terms, match, err := s.Resolve(quota.Key{Tenant: tenant, Dimension: dimension}, at)
	if err != nil {
		t.Fatalf("resolve %s/%s: %v", tenant, dimension, err)
	}
	return terms, match
}

func TestResolveTakesTheStrongestRule(t *testing.T) {
	t.Parallel()
	s := mustParse(t, goodYAML).Snapshot(7)
	for _, tc := range []struct {
		tenant, dimension string
		limit, budget     quota.Limit
		rule              Rule
		plan              string
	}{
		{"acme", "report_export", quota.LimitOf(80_000), quota.LimitOf(400), RuleOverride, "enterprise"}, // the plan's 400
		{"globex", "report_export", quota.LimitOf(1_000), quota.LimitOf(5), RulePlan, "basic"},
		{"nobody", "report_export", quota.LimitOf(1_000), quota.LimitOf(5), RulePlan, "basic"},
		{"acme", "payouts", quota.LimitOf(120_000), quota.LimitOf(0), RuleDefault, "enterprise"},
	} {
		terms, m := resolve(t, s, tc.tenant, tc.dimension, today)
		if terms.Limit != tc.limit || terms.Budget != tc.budget || m.Rule != tc.rule || m.Plan != tc.plan {
			t.Errorf("%s/%s: limit %v, budget %v by %s, plan %s; want %v, %v by %s, plan %s", tc.tenant, tc.dimension,
				terms.Limit, terms.Budget, m.Rule, m.Plan, tc.limit, tc.budget, tc.rule, tc.plan)
		}
		if terms.PolicyVersion != 7 || terms.Kind != quota.Period || terms.TTL != 30*time.Second || terms.Grace != 3*time.Second {
			t.Errorf("%s/%s: terms %+v", tc.tenant, tc.dimension, terms)
		}
	}
	if d, ok := s.Dimension("payouts"); !ok || d.Class != quota.Exact {
		t.Errorf("payouts is %v, %v", d, ok)
	}
	if n := len(s.Dimensions()); n != 2 {
		t.Errorf("%d dimensions, want 2", n)
	}
}

func TestOverrideLapsesAtTheNextWindow(t *testing.T) {
	t.Parallel()
	// It ends in the middle of the window of 2027-01-31, which therefore keeps it.
	text := strings.Replace(goodYAML, "expires: 2027-01-31", `expires: "2027-01-31T09:00:00+09:00"`, 1)
	s := mustParse(t, text).Snapshot(1)
	dim, _ := s.Dimension("report_export")
	last := dim.Period.WindowAt(time.Date(2027, 1, 31, 3, 0, 0, 0, time.UTC)) // noon in Seoul
	for _, tc := range []struct {
		start  time.Time
		want   quota.Limit
		lapsed bool
	}{
		{last.Start, quota.LimitOf(80_000), false},
		{last.End, quota.NoLimit, true},
	} {
		terms, m := resolve(t, s, "acme", "report_export", tc.start)
		if terms.Limit != tc.want || m.Lapsed != tc.lapsed {
			t.Errorf("window from %s: limit %v, lapsed %v; want %v, %v", tc.start, terms.Limit, m.Lapsed, tc.want, tc.lapsed)
		}
	}
	// A date ends it with the day before: the window that begins on the date has it no more.
	s = mustParse(t, goodYAML).Snapshot(1)
	if _, m := resolve(t, s, "acme", "report_export", last.Start); m.Rule != RulePlan {
		t.Errorf("on the date of its expiry the override still decides: %+v", m)
	}
}

func TestOverrideDateBeginsAfterASkippedMidnight(t *testing.T) {
	t.Parallel()
	// In Beirut, 2027-03-28 begins at 01:00: midnight is skipped.
	text := swap("period", "period: {every: day, timezone: Asia/Beirut}") +
		"  overrides: [{tenant: t, limit: 5000, owner: o, reason: r, expires: 2027-03-28}]\n"
	got := mustParse(t, text).Dimensions[0].Overrides[0].Expires
	if want := time.Date(2027, 3, 27, 22, 0, 0, 0, time.UTC); !got.Equal(want) {
		t.Errorf("expires at %s, want %s", got, want)
	}
}

func TestW7Typo(t *testing.T) {
	t.Parallel()
	open := mustParse(t, goodYAML).Snapshot(1)
	_, _, err := open.Resolve(quota.Key{Tenant: "acme", Dimension: "report_exprot"}, today)
	var dimension *UnknownDimensionError
	if !errors.Is(err, ErrUnknownDimension) || !errors.As(err, &dimension) || !slices.Equal(dimension.Near(), []string{"report_export"}) {
		t.Errorf("unknown dimension: %v", err)
	}
	if want := `dimension "report_exprot" is not defined; near: report_export`; err.Error() != want {
		t.Errorf("got %s, want %s", err, want)
	}
	if _, m := resolve(t, open, "acmee", "report_export", today); m.Listed || m.Plan != "basic" || !m.PlanDefault {
		t.Errorf("an unlisted tenant gets %+v, want the default plan", m)
	}

	closed := mustParse(t, strings.Replace(goodYAML, "unlisted_tenants: allow", "unlisted_tenants: deny", 1)).Snapshot(1)
	_, _, err = closed.Resolve(quota.Key{Tenant: "acmee", Dimension: "report_export"}, today)
	var tenant *UnknownTenantError
	if !errors.Is(err, ErrUnknownTenant) || !errors.As(err, &tenant) || !slices.Equal(tenant.Near(), []string{"acme"}) {
		t.Errorf("unknown tenant: %v", err)
	}
	if _, m := resolve(t, closed, "acme", "report_export", today); m.Rule != RuleOverride {
		t.Errorf("a listed tenant gets %+v", m)
	}
}

func TestM4NoIdentityHasNoTerms(t *testing.T) {
	t.Parallel()
	s := mustParse(t, goodYAML).Snapshot(1)
	var field *quota.FieldError
	if _, _, err := s.Resolve(quota.Key{Dimension: "payouts"}, today); !errors.As(err, &field) || field.Field != "tenant" {
		t.Errorf("a key without a tenant: %v", err)
	}
}

func TestW7ExplainSaysWhichRuleAndWhy(t *testing.T) {
	t.Parallel()
	s := mustParse(t, goodYAML).Snapshot(7)
	later := time.Date(2027, 2, 3, 0, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		tenant, dimension string
		at                time.Time
		want              []string
	}{
		{"acme", "report_export", today, []string{
			"tenant acme: listed with plan enterprise",
			"dimension report_export: period quota, every day, Asia/Seoul, class bounded, policy version 7",
			"window: from 2026-11-29T00:00:00+09:00 until 2026-11-30T00:00:00+09:00",
			"limit: 80000 exports, decided by the override of sales-ops until 2027-01-31 (Q4 deal)",
			"not used: plan enterprise: an override is stronger",
			"not used: the default of 50000: the override is stronger",
			"overshoot budget: 400",
			"leases: ttl 30s, grace 3s, as demand needs, next one asked at 20%",
			"outage: closed after 10s",
			"cold: wait 10ms, then deny",
		}},
		{"acme", "report_export", later, []string{
			"limit: unlimited exports, decided by plan enterprise",
			"not used: the override of sales-ops to 80000: it expired at 2027-01-31T00:00:00+09:00, before this window began",
			"not used: the default of 50000: the plan is stronger",
		}},
		{"acmee", "report_export", today, []string{
			"tenant acmee: no entry, admitted because unlisted_tenants is allow, so it has the default plan basic; near: acme",
			"limit: 1000 exports, decided by plan basic",
			"not used: an override: the tenant has none here",
		}},
		{"globex", "payouts", today, []string{
			"tenant globex: listed without a plan, so it has the default plan basic",
			"limit: 120000 requests, decided by the default of payouts",
			"not used: plan basic: the dimension gives it no limit of its own",
			"leases: none, every spend is recorded before it is allowed",
		}},
	} {
		lines, err := s.Explain(quota.Key{Tenant: tc.tenant, Dimension: tc.dimension}, tc.at)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range tc.want {
			if !slices.Contains(lines, want) {
				t.Errorf("%s/%s: no line %q in\n%s", tc.tenant, tc.dimension, want, strings.Join(lines, "\n"))
			}
		}
	}
	if _, err := s.Explain(quota.Key{Tenant: "acme", Dimension: "payout"}, today); !errors.Is(err, ErrUnknownDimension) {
		t.Errorf("unknown dimension: %v", err)
	}
	closed := mustParse(t, "unlisted_tenants: deny\ntenants: [{tenant: acme}]\n"+dimensionWith()).Snapshot(1)
	_, err := closed.Explain(quota.Key{Tenant: "acmee", Dimension: "a"}, today)
	if want := `tenant "acmee" is not listed, and unlisted_tenants is deny; near: acme`; err == nil || err.Error() != want || !errors.Is(err, ErrUnknownTenant) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestExplainShowsEveryKind(t *testing.T) {
	t.Parallel()
	s := mustParse(t, `dimensions:
- {name: calls, kind: rate, limit: 100/s, burst: 200, class: hard}
- {name: jobs, kind: concurrency, limit: 20, max_hold: 2h, class: hard, unit: jobs}
- name: exports
  kind: period
  limit: 1000
  period: {every: day}
  class: hard
  outage: {mode: extend, rate: 50/s, budget: 500}
  lease:
    regions: {eu: {floor: 10%, ceiling: 60%}}
    schedule: [{from: "08:00", to: "20:00", max: 9, ttl: 10s}]
operations:
- {name: export, takes: [{dimension: exports, cost: 3}, {dimension: jobs}], outage: closed}
`).Snapshot(7)
	for dimension, want := range map[string][]string{
		"calls": {"dimension calls: rate limit, class hard, policy version 7", "limit: 100/s with burst 200 requests, decided by the default of calls", "overshoot budget: 20"},
		"jobs": {"dimension jobs: concurrency limit, a run takes at most 2h, class hard, policy version 7", "limit: 20 jobs, decided by the default of jobs",
			"operation export: takes 1, in an outage closed after 10s"},
		"exports": {"leases: ttl 10s, grace 1s, at most 9, next one asked at 20%, as scheduled for 08:00-20:00", "region eu: 10% to 60% of the budget",
			"outage: extend after 10s, at 50/s of all agents together, at most 500 a window", "statement: final once nothing is open, or 72h after the window",
			"operation export: takes 3, in an outage closed after 10s"},
	} {
		lines, err := s.Explain(quota.Key{Tenant: "acme", Dimension: dimension}, today)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range want {
			if !slices.Contains(lines, line) {
				t.Errorf("%s: no line %q in\n%s", dimension, line, strings.Join(lines, "\n"))
			}
		}
		if windowed := slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "window: ") }); windowed != (dimension == "exports") {
			t.Errorf("%s: a window is shown: %v", dimension, windowed)
		}
	}
}

func TestNearNames(t *testing.T) {
	t.Parallel()
	names := []string{"api_calls", "api_call", "llm_tokens", "report_export", "report_import"}
	for asked, want := range map[string][]string{
		"api_cals":  {"api_call", "api_calls"},
		"lmn_token": nil, // three mistakes
		"llm":       {"llm_tokens"},
		"apicalls":  {"api_calls", "api_call"},
		"":          nil,
	} {
		if got := near(asked, names); !slices.Equal(got, want) {
			t.Errorf("near %q: %v, want %v", asked, got, want)
		}
	}
}

// manyTenants is a policy with as many tenants and overrides as may be.
func manyTenants(t testing.TB) *Document {
	var b strings.Builder
	b.WriteString(dimensionWith("plans: {basic: {limit: 5000}}") + "tenants:\n")
	for i := range MaxTenants {
		fmt.Fprintf(&b, "- {tenant: tenant-%d, plan: basic}\n", i)
	}
	d, err := parseOne(b.String())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestResolveDoesNotAllocate(t *testing.T) {
	s := manyTenants(t).Snapshot(1)
	key := quota.Key{Tenant: "tenant-99999", Dimension: "a"}
	allocs := testing.AllocsPerRun(100, func() {
		if _, m, err := s.Resolve(key, today); err != nil || m.Rule != RulePlan {
			t.Errorf("resolve: %+v, %v", m, err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations a resolve", allocs)
	}
}

func BenchmarkResolve(b *testing.B) {
	s := manyTenants(b).Snapshot(1)
	key := quota.Key{Tenant: "tenant-99999", Dimension: "a"}
	for b.Loop() {
		if _, _, err := s.Resolve(key, today); err != nil {
			b.Fatal(err)
		}
	}
}
