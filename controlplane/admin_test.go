package controlplane

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

func applyRequest(text string, dry bool) *pb.ApplyPolicyRequest {
	return &pb.ApplyPolicyRequest{Files: []*pb.PolicyFile{{Name: "q.yaml", Text: text}}, Who: "kim", Why: "Q4 deal", DryRun: dry}
}

func TestAppliedPolicyIsInUseAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	raised := strings.Replace(examplePolicy, "limit: 100", "limit: 200", 1)
	dry, err := w.cp.ApplyPolicy(t.Context(), applyRequest(raised, true))
	if err != nil || !dry.Changed || dry.Version != 1 || fmt.Sprint(dry.Changes) != "[dimensions.small.limit: 100 -> 200]" {
		t.Errorf("dry run: %v, %v", dry, err)
	}
	if w.cp.policyVersion() != 1 {
		t.Error("a dry run changed the policy")
	}
	for _, changed := range []bool{true, false} {
		reply, err := w.cp.ApplyPolicy(t.Context(), applyRequest(raised, false))
		if err != nil || reply.Version != 2 || reply.Changed != changed || w.cp.policyVersion() != 2 {
			t.Errorf("apply: %v, %v, in use %d", reply, err, w.cp.policyVersion())
		}
	}
	got, err := w.cp.GetPolicy(t.Context(), &pb.GetPolicyRequest{})
	if err != nil || got.Version.Version != 2 || got.Version.Who != "kim" || got.Version.Why != "Q4 deal" || !strings.Contains(got.Text, "limit: 200") {
		t.Errorf("newest policy: %v, %v", got, err)
	}
	back, err := w.cp.RollbackPolicy(t.Context(), &pb.RollbackPolicyRequest{To: 1, Who: "lee", Why: "too much"})
	if err != nil || back.Version != 3 || fmt.Sprint(back.Changes) != "[dimensions.small.limit: 200 -> 100]" || w.cp.policyVersion() != 3 {
		t.Errorf("rollback: %v, %v", back, err)
	}
	list, err := w.cp.ListPolicies(t.Context(), &pb.ListPoliciesRequest{Limit: 2})
	if err != nil || len(list.Versions) != 2 || list.Versions[0].Source != "rollback" || list.Versions[0].Who != "lee" {
		t.Errorf("versions: %v, %v", list, err)
	}
}

func TestAChangeByHandBesideAPolicyDirectoryIsWarnedOf(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	raised := strings.Replace(examplePolicy, "limit: 100", "limit: 200", 1)
	plain, err := w.cp.ApplyPolicy(t.Context(), applyRequest(raised, true))
	if err != nil || len(plain.Warnings) != 0 {
		t.Errorf("without a directory: %v, %v", plain, err)
	}
	doc, err := policy.Parse([]policy.File{{Name: "q.yaml", Text: []byte(raised)}}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := policy.Apply(t.Context(), w.cp.cfg.Policies, doc, policy.SourceDir, "controlplane", "policy directory"); err != nil {
		t.Fatal(err)
	}
	const says = "a policy directory makes the versions here"
	for _, dry := range []bool{true, false} {
		reply, err := w.cp.ApplyPolicy(t.Context(), applyRequest(examplePolicy, dry))
		if err != nil || len(reply.Warnings) != 1 || !strings.HasPrefix(reply.Warnings[0], says) {
			t.Errorf("dry run %t: %v, %v", dry, reply, err)
		}
	}
	w.cp.cfg.PolicyDir = t.TempDir() // this replica reads one, whatever the newest version came from
	back, err := w.cp.RollbackPolicy(t.Context(), &pb.RollbackPolicyRequest{To: 2, Who: "lee", Why: "too little"})
	if err != nil || len(back.Warnings) != 1 || !strings.HasPrefix(back.Warnings[0], says) {
		t.Errorf("rollback: %v, %v", back, err)
	}
}

func TestBadPolicyRequestsChangeNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	var faults policy.Faults
	_, err := w.cp.ApplyPolicy(t.Context(), applyRequest("dimensions: [{name: UPPER}]", false))
	if !errors.As(err, &faults) || !strings.HasPrefix(err.Error(), "q.yaml:1: ") {
		t.Errorf("a bad file: %v; want every line to begin with its place", err)
	}
	var field *quota.FieldError
	anonymous := applyRequest(examplePolicy+"default_plan: x\n", false)
	anonymous.Files[0].Text, anonymous.Who = strings.Replace(examplePolicy, "limit: 100", "limit: 7", 1), ""
	if _, err := w.cp.ApplyPolicy(t.Context(), anonymous); !errors.As(err, &field) || field.Field != "who" {
		t.Errorf("nobody applies: %v", err)
	}
	if _, err := w.cp.RollbackPolicy(t.Context(), &pb.RollbackPolicyRequest{To: 9, Who: "a", Why: "b"}); !errors.Is(err, policy.ErrNoVersion) {
		t.Errorf("rollback to nothing: %v", err)
	}
	if _, err := w.cp.GetPolicy(t.Context(), &pb.GetPolicyRequest{Version: 9}); !errors.Is(err, policy.ErrNoVersion) {
		t.Errorf("no such version: %v", err)
	}
	for name, call := range map[string]func() error{
		"to":      func() error { _, err := w.cp.RollbackPolicy(t.Context(), &pb.RollbackPolicyRequest{}); return err },
		"version": func() error { _, err := w.cp.GetPolicy(t.Context(), &pb.GetPolicyRequest{Version: -1}); return err },
		"limit":   func() error { _, err := w.cp.ListPolicies(t.Context(), &pb.ListPoliciesRequest{Limit: -1}); return err },
		"agents":  func() error { _, err := w.cp.GetBound(t.Context(), &pb.GetBoundRequest{Agents: -1}); return err },
		"peak_per_second": func() error {
			_, err := w.cp.GetBound(t.Context(), &pb.GetBoundRequest{PeakPerSecond: -1})
			return err
		},
		"tenant": func() error {
			_, err := w.cp.ExplainPolicy(t.Context(), &pb.ExplainPolicyRequest{})
			return err
		},
	} {
		if err := call(); !errors.As(err, &field) || field.Field != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	if w.cp.policyVersion() != 1 {
		t.Errorf("version %d is in use", w.cp.policyVersion())
	}
}

func TestW7ExplainNamesTheRule(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	got, err := w.cp.ExplainPolicy(t.Context(), &pb.ExplainPolicyRequest{Key: acme("report_export")})
	if err != nil || got.Rule != "default" || got.Limit != 50_000 || got.Budget != 250 || got.PolicyVersion != 1 || len(got.Lines) == 0 {
		t.Errorf("explained %v, %v", got, err)
	}
	_, err = w.cp.ExplainPolicy(t.Context(), &pb.ExplainPolicyRequest{Key: acme("report_exports")})
	if !errors.Is(err, policy.ErrUnknownDimension) || !strings.Contains(err.Error(), "report_export") {
		t.Errorf("a typo: %v", err)
	}
	if _, err := w.cp.GetBound(t.Context(), &pb.GetBoundRequest{Dimension: "nothing"}); !errors.Is(err, policy.ErrUnknownDimension) {
		t.Errorf("the bound of nothing: %v", err)
	}
}

func TestW7AnUnlistedTenantIsExplained(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "unlisted_tenants: deny\ntenants: [{tenant: acme}]\n"+examplePolicy)
	got, err := w.cp.ExplainPolicy(t.Context(), &pb.ExplainPolicyRequest{Key: &pb.Key{Tenant: "acne", Dimension: "small"}})
	if err != nil || got.Rule != "unlisted_tenants" || got.Limit != 0 || len(got.Lines) != 1 ||
		got.Lines[0] != `every take is refused as unknown_tenant: tenant "acne" is not listed, and unlisted_tenants is deny; near: acme` {
		t.Errorf("explained %v, %v", got, err)
	}
	if _, err := w.cp.ExplainPolicy(t.Context(), &pb.ExplainPolicyRequest{Key: &pb.Key{Tenant: "acne", Dimension: "smal"}}); !errors.Is(err, policy.ErrUnknownDimension) {
		t.Errorf("a dimension that is not there: %v", err)
	}
}

func TestUsageAndTenantsAreListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "default_plan: basic\ntenants: [{tenant: zeta, plan: basic}]\n"+
		strings.Replace(examplePolicy, "overshoot: 0.5%", "overshoot: 0.5%\n    plans: {basic: {limit: 1000}}", 1))
	a := w.agent()
	d := a.lease("small", 40)
	a.sync(&pb.SyncRequest{Reports: []*pb.Report{{GrantId: d.GrantId, Key: acme("small"), Window: d.Window, Taken: 15}}})
	w.ledger.move(24 * time.Hour)
	a.lease("small", 5)
	usage, err := w.cp.ListUsage(t.Context(), &pb.ListUsageRequest{Tenant: "acme"})
	if err != nil || len(usage.Usage) != 1 || usage.Usage[0].Outstanding != 5 || usage.Usage[0].Headroom != 95 || usage.Usage[0].Bound != 100 {
		t.Errorf("today's usage: %v, %v", usage, err)
	}
	all, err := w.cp.ListUsage(t.Context(), &pb.ListUsageRequest{AllWindows: true, Limit: 1})
	if err != nil || len(all.Usage) != 1 || all.Usage[0].ConsumedReported != 15 || all.Usage[0].Settled != 15 {
		t.Errorf("the oldest window: %v, %v", all, err)
	}
	tenants, err := w.cp.ListTenants(t.Context(), &pb.ListTenantsRequest{})
	if err != nil || len(tenants.Tenants) != 2 {
		t.Fatalf("tenants: %v, %v", tenants, err)
	}
	first, second := tenants.Tenants[0], tenants.Tenants[1]
	if first.Tenant != "acme" || first.Listed || first.Plan != "basic" || len(first.Usage) != 1 {
		t.Errorf("first %v", first)
	}
	if second.Tenant != "zeta" || !second.Listed || second.Plan != "basic" || len(second.Usage) != 0 {
		t.Errorf("second %v", second)
	}
	if one, err := w.cp.ListTenants(t.Context(), &pb.ListTenantsRequest{Limit: 1}); err != nil || len(one.Tenants) != 1 || one.Tenants[0].Tenant != "acme" {
		t.Errorf("one tenant: %v, %v", one, err)
	}
	if zeta, err := w.cp.ListTenants(t.Context(), &pb.ListTenantsRequest{Tenant: "zeta"}); err != nil || len(zeta.Tenants) != 1 || zeta.Tenants[0].Tenant != "zeta" {
		t.Errorf("zeta: %v, %v", zeta, err)
	}
}

func TestATenantsLimitsInForceAreListedUsedOrNot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "unlisted_tenants: deny\ntenants: [{tenant: acme, plan: basic}, {tenant: zeta}]\n"+
		strings.Replace(strings.Replace(examplePolicy, "overshoot: 0.5%", "overshoot: 0.5%\n    plans: {basic: {limit: 1000}}", 1),
			"overshoot: 100%", `overshoot: 100%
    overrides: [{tenant: acme, limit: unlimited, owner: sales-ops, reason: "Q4 deal", expires: 2099-01-31}]`, 1))
	for tenant, want := range map[string]string{
		"acme":   "payments exact 10 default, report_export bounded 1000 plan, small hard -1 override",
		"zeta":   "payments exact 10 default, report_export bounded 50000 default, small hard 100 default",
		"nobody": "",
	} {
		reply, err := w.cp.ListTenants(t.Context(), &pb.ListTenantsRequest{Tenant: tenant})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, found := range reply.Tenants {
			for _, l := range found.Limits {
				got = append(got, fmt.Sprintf("%s %s %d %s", l.Dimension, l.Class, l.Limit, l.Rule))
			}
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: %q, want %q", tenant, got, want)
		}
	}
	all, err := w.cp.ListTenants(t.Context(), &pb.ListTenantsRequest{})
	if err != nil || len(all.Tenants) != 2 || all.Tenants[0].Limits != nil {
		t.Errorf("a list of all has no limits: %v, %v", all, err)
	}
}

func TestAskSentToTheExactLaneIsNoDenial(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	a := w.agent()
	if d := a.lease("payments", 1); d.Reason != string(quota.ExactLane) {
		t.Fatalf("decision %v", d)
	}
	if denied, redirected := w.metric("denied_total"), w.metric("redirected_total"); denied != 0 || redirected != 1 {
		t.Errorf("%v denied, %v redirected; want 0 and 1", denied, redirected)
	}
}

func TestLeasesAndAgentsAreListedAndRevoked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	a, b := w.agent(), w.agent()
	first, second := a.lease("small", 10), b.lease("small", 20)
	a.lease("payments", 1) // denied
	leases, err := w.cp.ListLeases(t.Context(), &pb.ListLeasesRequest{Tenant: "acme"})
	if err != nil || len(leases.Leases) != 2 || leases.Leases[0].Amount != 20 || leases.Leases[0].TtlUs != 30_000_000 || leases.Leases[1].Kind != "lease" {
		t.Errorf("live leases: %v, %v", leases, err)
	}
	if all, err := w.cp.ListLeases(t.Context(), &pb.ListLeasesRequest{Agent: a.inc.Bytes(), AllStates: true}); err != nil || len(all.Leases) != 2 || all.Leases[0].Reason != "exact_lane" {
		t.Errorf("all of one agent: %v, %v", all, err)
	}
	agents, err := w.cp.ListAgents(t.Context(), &pb.ListAgentsRequest{})
	if err != nil || len(agents.Agents) != 2 || agents.Agents[0].Outstanding+agents.Agents[1].Outstanding != 30 || agents.Agents[0].LiveLeases != 1 {
		t.Errorf("agents: %v, %v", agents, err)
	}
	for _, want := range []int32{1, 0} { // a lease is revoked once
		reply, err := w.cp.RevokeLeases(t.Context(), &pb.RevokeLeasesRequest{GrantIds: [][]byte{first.GrantId, w.id().Bytes()}, Who: "kim", Why: "lost laptop"})
		if err != nil || reply.Revoked != want {
			t.Errorf("revoked %v, %v, want %d", reply, err, want)
		}
	}
	reply, err := w.cp.RevokeLeases(t.Context(), &pb.RevokeLeasesRequest{Key: acme("small"), Who: "kim", Why: "contract ended"})
	if err != nil || reply.Revoked != 1 {
		t.Errorf("revoked %v, %v, want the other one", reply, err)
	}
	events, err := w.store.Events(t.Context(), 0, 10)
	if err != nil || len(events) != 2 || events[0].Note != "kim: lost laptop" || events[1].Note != "kim: contract ended" || events[1].Grant != ledger.ID(second.GrantId) {
		t.Errorf("events: %+v, %v", events, err)
	}
	w.verified()
}

func TestLeasesOfEveryKindAreNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slotsPolicy)
	a := w.agent()
	allowance := a.ask("free_reads", 40)
	allowance.Emergency = true
	a.sync(&pb.SyncRequest{Asks: []*pb.Ask{a.ask("free_reads", 5), allowance, a.ask("batch_jobs", 3)}})
	found, err := w.cp.ListLeases(t.Context(), &pb.ListLeasesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, l := range found.Leases {
		kinds = append(kinds, l.Kind)
	}
	slices.Sort(kinds)
	if want := []string{"emergency", "lease", "slots"}; !slices.Equal(kinds, want) {
		t.Errorf("leases of kinds %q, want %q", kinds, want)
	}
}

func TestRevokeNeedsANameAReasonAndATarget(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	id := w.id().Bytes()
	for field, m := range map[string]*pb.RevokeLeasesRequest{
		"who":       {GrantIds: [][]byte{id}, Why: "x"},
		"why":       {GrantIds: [][]byte{id}, Who: "x", Why: "a\x00b"},
		"grant_ids": {Who: "x", Why: "y"},
		"dimension": {Key: &pb.Key{Tenant: "acme"}, Who: "x", Why: "y"},
	} {
		_, err := w.cp.RevokeLeases(t.Context(), m)
		var wrong *quota.FieldError
		if field == "why" && !strings.Contains(fmt.Sprint(err), "on one line, without control characters") {
			t.Errorf("%v does not say what is wrong", err)
		}
		if !errors.As(err, &wrong) || wrong.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestR2_4BoundOfAPolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	got, err := w.cp.GetBound(t.Context(), &pb.GetBoundRequest{Dimension: "report_export", Agents: 40})
	if err != nil || len(got.Bounds) != 1 || got.Bounds[0].LeaseCap != 6 || BoundLine(got.Bounds[0]) != "up to 50,250 (0.5 % over)" {
		t.Errorf("bound: %v, %v", got, err)
	}
	if len(got.Bounds[0].Beyond) != 0 {
		t.Errorf("beyond the bound: %q, want nothing", got.Bounds[0].Beyond)
	}
	for range 3 {
		w.agent().lease("report_export", 1)
	}
	all, err := w.cp.GetBound(t.Context(), &pb.GetBoundRequest{Tenant: "acme"})
	if err != nil || len(all.Bounds) != 3 || all.Bounds[1].Agents != 3 || all.Bounds[1].LeaseCap != 83 || all.Bounds[1].Tenant != "acme" {
		t.Errorf("bounds of all dimensions: %v, %v", all, err)
	}
	loose := strings.Replace(examplePolicy, "overshoot: 0.5%", "overshoot: 0.5%\n    outage: {mode: open, for: 1h}\n    cold: {then: debt, units: 5}", 1)
	if _, err := w.cp.ApplyPolicy(t.Context(), applyRequest(loose, false)); err != nil {
		t.Fatal(err)
	}
	got, err = w.cp.GetBound(t.Context(), &pb.GetBoundRequest{Dimension: "report_export", PeakPerSecond: 7})
	if err != nil || len(got.Bounds[0].Beyond) != 2 || got.Bounds[0].PeakPerSecond != 7 {
		t.Errorf("with outage mode open and cold debt: %v, %v", got, err)
	}
}
