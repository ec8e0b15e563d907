package main

import (
	"time"

	"github.com/gofrs/uuid/v5"
	"google.golang.org/protobuf/proto"

	"github.com/quotalease/quotalease/controlplane"
	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

const currentYAML = `tenants:
  - {tenant: acme, plan: basic}
dimensions:
  - name: report_export
    description: reports a day
    kind: period
    limit: 50000
    period: {every: day, timezone: Asia/Seoul}
    class: bounded
    overshoot: 0.5%
    lease: {ttl: 30s}
    plans: {basic: {limit: 1000}}
  - name: payouts
    kind: period
    limit: 120000
    period: {every: month, timezone: UTC, anchor: {day: 31, time: "02:30"}}
    class: exact
  - name: page_views
    kind: period
    limit: unlimited
    period: {every: minute}
    class: best_effort
`

// The 29th in Seoul, in UTC.
var (
	dayStart = time.Date(2026, 11, 28, 15, 0, 0, 0, time.UTC)
	dayEnd   = dayStart.AddDate(0, 0, 1)
)

func day() *pb.Window {
	return &pb.Window{StartUs: dayStart.UnixMicro(), EndUs: dayEnd.UnixMicro()}
}

func grantID(n byte) []byte {
	id := uuid.Must(uuid.FromString("0193776e-1c00-7000-8000-000000000000"))
	id[15] = n
	return id.Bytes()
}

func exportUsage() *pb.Usage {
	return &pb.Usage{
		Key: &pb.Key{Tenant: "acme", Dimension: "report_export"}, Window: day(), Class: "bounded", Limit: 80000,
		Settled: 61234, Outstanding: 240, Held: 12, Uncertain: 3, Headroom: 18514, Budget: 400, Committed: 61600,
		Generation: 7, PolicyVersion: 4, Granted: 61500, ConsumedReported: 61000, Spent: 200, Unleased: 34,
		Expired: 15, Returned: 245, Bound: 80648, Kind: "period", Emergency: 200, Extended: 20, Pot: 500,
	}
}

func callsUsage() *pb.Usage {
	return &pb.Usage{
		Key: &pb.Key{Tenant: "acme", Dimension: "api_calls"}, Window: &pb.Window{}, Class: "bounded", Kind: "rate", Rate: "100/s", Limit: 200,
		Settled: 9_000_000, Outstanding: 12, Held: 30, Headroom: -3, Budget: 20, Bound: 220, Generation: 40, PolicyVersion: 4,
		Granted: 9_000_042, ConsumedReported: 9_000_000, Expired: 30,
	}
}

func jobsUsage() *pb.Usage {
	return &pb.Usage{
		Key: &pb.Key{Tenant: "acme", Dimension: "batch_jobs"}, Window: &pb.Window{}, Class: "hard", Kind: "concurrency", Limit: 20,
		Settled: 11, Outstanding: 2, Held: 3, Headroom: 4, Budget: 2, Bound: 20, Generation: 9, PolicyVersion: 4, Granted: 16, ConsumedReported: 11, Expired: 3,
	}
}

func credited(u *pb.Usage) *pb.Usage {
	u.Credit, u.Limit, u.Headroom = 500, u.Limit+500, u.Headroom+500
	return u
}

func released(u *pb.Usage) *pb.Usage {
	u.Released, u.Uncertain, u.Headroom, u.Held = u.Held, u.Uncertain+u.Held, u.Headroom+u.Held, 0
	return u
}

// exportStatement is the 29th in Seoul: a credit at noon, a late report, and final after a day.
func exportStatement() *pb.Statement {
	return &pb.Statement{
		Key: &pb.Key{Tenant: "acme", Dimension: "report_export"}, Window: day(), Unit: "reports", Timezone: "Asia/Seoul",
		Limit: 80_500, Credit: 500, Billable: 61_246, Revision: 2, Final: true, AtUs: dayEnd.Add(time.Hour).UnixMicro(),
		ClosedAtUs: dayEnd.Add(5 * time.Second).UnixMicro(), FinalAtUs: dayEnd.Add(time.Hour).UnixMicro(), Note: "late report; final",
		Limits: []*pb.LimitChange{
			{AtUs: dayStart.Add(time.Minute).UnixMicro(), Limit: 80_000, Note: "opening"},
			{AtUs: dayStart.Add(12 * time.Hour).UnixMicro(), Limit: 80_500, PolicyVersion: 4, Note: "credit of 500, mina: goodwill"},
		},
	}
}

// viewsStatement has no limit, is not final, and belongs to one who chose a name for spreadsheets.
func viewsStatement() *pb.Statement {
	return &pb.Statement{
		Key: &pb.Key{Tenant: `=1+1,"x"`, Dimension: "page_views"}, Window: &pb.Window{StartUs: today.UnixMicro(), EndUs: today.Add(time.Minute).UnixMicro()},
		Unit: "views", Timezone: "UTC", Limit: -1, Billable: 1_234_567, Held: 3, Uncertain: 2, Outstanding: 1, Emergency: 4, Overshoot: 5, OverLimit: 6,
		Revision: 1, AtUs: today.Add(65 * time.Second).UnixMicro(), ClosedAtUs: today.Add(65 * time.Second).UnixMicro(), Note: "window closed",
		Limits: []*pb.LimitChange{{AtUs: today.UnixMicro(), Limit: -1, Note: "opening"}},
	}
}

func viewsUsage() *pb.Usage {
	return &pb.Usage{
		Key:    &pb.Key{Tenant: "globex", Dimension: "page_views"},
		Window: &pb.Window{StartUs: today.UnixMicro(), EndUs: today.Add(time.Minute).UnixMicro()},
		Class:  "best_effort", Limit: -1, Settled: 1_234_567, Outstanding: 5000, Headroom: 1<<62 + 5, Budget: -1, Bound: -1, Kind: "period",
		Generation: 1, PolicyVersion: 4, Granted: 1_239_567, ConsumedReported: 1_234_567,
	}
}

func exportLease() *pb.Lease {
	return &pb.Lease{
		GrantId: grantID(1), Kind: "lease", State: pb.GrantState_GRANT_STATE_LIVE,
		Key: &pb.Key{Tenant: "acme", Dimension: "report_export"}, Window: day(), Agent: grantID(0xa), Region: "ap-seoul",
		Asked: 2000, Amount: 2000, PolicyVersion: 4, Generation: 6, TtlUs: 30_000_000,
		IssuedAtUs: today.UnixMicro(), ExpiresAtUs: today.Add(30 * time.Second).UnixMicro(), ClosesAtUs: today.Add(35 * time.Second).UnixMicro(),
		ConsumedReported: 1760, Outstanding: 240,
	}
}

func deniedLease() *pb.Lease {
	return &pb.Lease{
		GrantId: grantID(2), Kind: "spend", State: pb.GrantState_GRANT_STATE_DENIED,
		Key: &pb.Key{Tenant: "globex", Dimension: "page_views"}, Window: &pb.Window{}, Agent: grantID(0xb), Region: "eu\x1b[31m",
		Asked: 5, Reason: "exhausted", PolicyVersion: 4, Generation: 2, IssuedAtUs: today.UnixMicro(), RevokedAtUs: today.UnixMicro(),
	}
}

// bounds are R2.4's dimensions, computed by the control plane's own arithmetic.
func bounds() []*pb.Bound {
	return []*pb.Bound{
		controlplane.ComputeBound(controlplane.BoundTerms{
			Dimension: "api_calls", Class: quota.Bounded, Limit: quota.LimitOf(120_000), Budget: quota.LimitOf(1200),
			TTL: 30 * time.Second, Window: time.Minute, Agents: 24,
		}),
		controlplane.ComputeBound(controlplane.BoundTerms{
			Dimension: "api_calls", Tenant: "acme", Class: quota.Bounded, Limit: quota.LimitOf(120_000), Budget: quota.LimitOf(16_000),
			TTL: 30 * time.Second, Window: time.Minute, Agents: 40,
		}),
		controlplane.ComputeBound(controlplane.BoundTerms{
			Dimension: "payouts", Class: quota.Exact, Limit: quota.LimitOf(1000), TTL: 30 * time.Second, Window: 24 * time.Hour, Agents: 3,
		}),
		controlplane.ComputeBound(controlplane.BoundTerms{
			Dimension: "page_views", Class: quota.BestEffort, Limit: quota.NoLimit, Budget: quota.NoLimit, TTL: 30 * time.Second, Window: time.Minute, Agents: 2,
		}),
		controlplane.ComputeBound(controlplane.BoundTerms{
			Dimension: "status_reads", Class: quota.Bounded, Limit: quota.LimitOf(100), Budget: quota.LimitOf(10), TTL: 30 * time.Second, Window: 24 * time.Hour,
			Agents: 5, Peak: 1, Outage: policy.Outage{Open: true, For: 24 * time.Hour}, Cold: policy.Cold{Debt: true, Units: 50},
		}),
		controlplane.ComputeBound(controlplane.BoundTerms{
			Dimension: "report_export", Kind: quota.Period, Class: quota.Bounded, Limit: quota.LimitOf(50_000), Credit: 500, Budget: quota.LimitOf(250),
			TTL: 30 * time.Second, Window: 24 * time.Hour, Agents: 24, Outage: policy.Outage{Extend: true, Budget: 2_000},
			Regions: []policy.Region{{Name: "eu", Floor: 40_000_000, Ceiling: 100_000_000}, {Name: "us", Ceiling: 50_000_000}}, Places: map[string]int{"eu": 2, "us": 22},
		}),
		controlplane.ComputeBound(controlplane.BoundTerms{
			Dimension: "searches", Kind: quota.RateLimit, Class: quota.Hard, Limit: quota.LimitOf(200), Rate: quota.Rate{Units: 100, Per: time.Second},
			Budget: quota.LimitOf(20), TTL: 30 * time.Second, Agents: 4,
		}),
		controlplane.ComputeBound(controlplane.BoundTerms{
			Dimension: "batch_jobs", Kind: quota.Concurrency, Class: quota.Bounded, Limit: quota.LimitOf(20), MaxHold: 2 * time.Hour,
			Budget: quota.LimitOf(4), TTL: 30 * time.Second, Grace: 3 * time.Second, Agents: 2,
		}),
	}
}

func version(n int64, source, who, why string) *pb.PolicyVersion {
	return &pb.PolicyVersion{Version: n, AtUs: today.Add(time.Duration(n) * time.Hour).UnixMicro(), Source: source, Who: who, Why: why, Sum: "5c9a"}
}

// busy is a control plane in use.
func busy() *fakeAdmin {
	return &fakeAdmin{replies: map[string]proto.Message{
		"ApplyPolicy": &pb.ApplyPolicyReply{
			Version: 5, Changed: true, Changes: []string{"dimensions.report_export.limit: 50000 -> 60000"},
			Warnings: []string{"policy.yaml:7: dimensions.report_export.overshoot: 1 unit; allowed: two round trips of peak traffic"},
		},
		"RollbackPolicy": &pb.ApplyPolicyReply{Version: 6},
		"AddOverride": &pb.ApplyPolicyReply{
			Version: 5, Changed: true, Changes: []string{`overrides.report_export.acme: added (limit 80000, owner "sales-ops", reason "Q4 deal", expires 2027-01-30T15:00:00Z)`},
		},
		"RemoveOverride": &pb.ApplyPolicyReply{
			Version: 6, Changed: true, Changes: []string{`overrides.report_export.acme: removed (limit 80000, owner "sales-ops", reason "Q4 deal", expires 2027-01-30T15:00:00Z)`},
		},
		"GetPolicy": &pb.GetPolicyReply{Version: version(4, "override", "mina", "Q4 deal"), Text: currentYAML, Overrides: []*pb.CommandOverride{
			{Key: &pb.Key{Tenant: "acme", Dimension: "report_export"}, Limit: "80000", Owner: "sales-ops", Reason: "Q4 deal",
				Expires: "2027-01-31", Who: "mina", AtUs: today.UnixMicro()},
			{Key: &pb.Key{Tenant: "globex", Dimension: "page_views"}, Limit: "unlimited", Owner: "sre", Reason: "migration",
				Expires: "2026-11-01", Who: "jo", AtUs: today.AddDate(0, -2, 0).UnixMicro()},
		}},
		"ListPolicies": &pb.ListPoliciesReply{Versions: []*pb.PolicyVersion{
			version(4, "cli", "mina", "Q4 deal"), version(3, "rollback", "jo", "cut the wrong plan"), version(2, "dir", "controlplane", "policy directory"),
		}},
		"ExplainPolicy": &pb.ExplainPolicyReply{
			Lines: []string{"tenant acme: listed with plan basic", "limit: 80000 units, decided by the override of sales-ops until 2027-01-31 (Q4 deal)"},
			Limit: 80000, Budget: 400, Rule: "override", PolicyVersion: 4,
		},
		"ListTenants": &pb.ListTenantsReply{Tenants: []*pb.Tenant{
			{Tenant: "acme", Plan: "basic", Listed: true, Usage: []*pb.Usage{exportUsage()}, Limits: []*pb.LimitInForce{
				{Dimension: "page_views", Class: "best_effort", Limit: -1, Rule: "default"},
				{Dimension: "payouts", Class: "exact", Limit: 120_000, Rule: "plan"},
				{Dimension: "report_export", Class: "bounded", Limit: 80_000, Rule: "override"},
			}},
			{Tenant: "globex", Usage: []*pb.Usage{viewsUsage()}},
		}},
		"ListUsage":      &pb.ListUsageReply{Usage: []*pb.Usage{exportUsage(), viewsUsage(), callsUsage(), jobsUsage()}},
		"ListStatements": &pb.ListStatementsReply{Statements: []*pb.Statement{exportStatement(), viewsStatement()}},
		"AdjustUsage":    &pb.AdjustUsageReply{Usage: credited(exportUsage()), Timezone: "Asia/Seoul"},
		"ReleaseHeld":    &pb.ReleaseHeldReply{Released: 12, Usage: released(exportUsage()), Timezone: "Asia/Seoul", Revision: 3},
		"ListLeases":     &pb.ListLeasesReply{Leases: []*pb.Lease{exportLease(), deniedLease()}},
		"RevokeLeases":   &pb.RevokeLeasesReply{Revoked: 2},
		"ListAgents": &pb.ListAgentsReply{Agents: []*pb.Agent{{
			Incarnation: grantID(0xa), Name: "agent-1", Region: "ap-seoul", StartedAtUs: today.Add(-time.Hour).UnixMicro(),
			LastSeenUs: today.UnixMicro(), PolicyVersion: 4, LiveLeases: 12, Outstanding: 24_000,
		}}},
		"ListWaiting": &pb.ListWaitingReply{Waiting: []*pb.Waiting{
			waiting("acme", "start_export", 0, &pb.Take{Dimension: "report_export", Cost: 1}),
			waiting("acme", "start_export", 1, &pb.Take{Dimension: "report_export", Cost: 1}),
			waiting("globex\x1b[2J", "send_mail", 0, &pb.Take{Dimension: "mails", Cost: 12_000}, &pb.Take{Dimension: "mail_bytes", Cost: 4_000_000}),
			waiting("globex\x1b[2J", "since_removed", 0),
		}},
		"GetBound": &pb.GetBoundReply{Bounds: bounds()},
	}}
}

// waiting is a caller who came a quarter of an hour ago.
func waiting(tenant, operation string, place int64, takes ...*pb.Take) *pb.Waiting {
	at := func(d time.Duration) int64 { return today.Add(d).UnixMicro() }
	return &pb.Waiting{TicketId: grantID(byte(place + 1)), Tenant: tenant, Operation: operation, Place: place, Times: 1, Takes: takes,
		SinceUs: at(-15 * time.Minute), AskedAtUs: at(-time.Minute), AskAgainUs: at(time.Minute), AskByUs: at(75 * time.Second), ExpiresAtUs: at(45 * time.Minute)}
}

// idle is a control plane with a policy and nothing else.
func idle() *fakeAdmin {
	return &fakeAdmin{replies: map[string]proto.Message{
		"GetPolicy":    &pb.GetPolicyReply{Version: version(1, "cli", "mina", "first"), Text: ""},
		"ListPolicies": &pb.ListPoliciesReply{}, "ListTenants": &pb.ListTenantsReply{}, "ListUsage": &pb.ListUsageReply{},
		"ListLeases": &pb.ListLeasesReply{}, "ListAgents": &pb.ListAgentsReply{}, "GetBound": &pb.GetBoundReply{},
		"RevokeLeases": &pb.RevokeLeasesReply{}, "ListWaiting": &pb.ListWaitingReply{}, "ListStatements": &pb.ListStatementsReply{},
	}}
}
