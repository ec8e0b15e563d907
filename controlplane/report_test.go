package controlplane

import (
	"strings"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

func TestReportsOfOddWindowsMakeNoAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	a := w.agent()
	days := func(n int) *pb.Window { return windowMessage(day(noon.AddDate(0, 0, n))) }
	for _, tc := range []struct {
		name   string
		window *pb.Window
		ok     bool
	}{
		{"today", days(0), true},
		{"yesterday", days(-1), true},
		{"tomorrow", days(1), true},
		{"the day after tomorrow", days(2), false},
		{"before the ledger's memory", days(-32), false},
		{"an hour", &pb.Window{StartUs: noon.UnixMicro(), EndUs: noon.Add(time.Hour).UnixMicro()}, false},
		{"endless", &pb.Window{}, false},
		{"backwards", &pb.Window{StartUs: 2, EndUs: 1}, false},
		{"from the far past", &pb.Window{StartUs: -1 << 63, EndUs: 1}, false},
	} {
		reply := a.sync(&pb.SyncRequest{Reports: []*pb.Report{
			{GrantId: w.id().Bytes(), Key: acme("small"), Window: tc.window, Taken: 1, Unleased: true},
		}})
		f := reply.Results[0].Fault
		if (f == nil) != tc.ok || (!tc.ok && (f.Code != "invalid" || f.Field != "window")) {
			t.Errorf("%s: fault %v, accepted should be %t", tc.name, f, tc.ok)
		}
	}
	if n := w.accountCount(); n != 3 {
		t.Errorf("%d accounts, want those of three days", n)
	}
}

func TestO7EachWindowIsChargedItsOwnUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	a := w.agent()
	var reports []*pb.Report
	for n := -2; n <= 0; n++ {
		reports = append(reports, &pb.Report{GrantId: w.id().Bytes(), Key: acme("small"),
			Window: windowMessage(day(noon.AddDate(0, 0, n))), Taken: 5, Unleased: true})
	}
	a.sync(&pb.SyncRequest{Reports: reports})
	usage, err := w.cp.ListUsage(t.Context(), &pb.ListUsageRequest{AllWindows: true})
	if err != nil || len(usage.Usage) != 3 {
		t.Fatalf("usage %v, %v, want three windows", usage, err)
	}
	for _, u := range usage.Usage {
		if u.Unleased != 5 || u.Limit != 100 {
			t.Errorf("window %v: %d unleased of %d, want 5 of 100", u.Window, u.Unleased, u.Limit)
		}
	}
}

func TestLateReportOfARemovedDimensionCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	a := w.agent()
	d := a.lease("small", 10)
	w.apply(strings.Replace(examplePolicy, "name: small", "name: other", 1))
	reply := a.sync(&pb.SyncRequest{Reports: []*pb.Report{usedUp(d, acme("small"))}})
	if f := reply.Results[0].Fault; f != nil {
		t.Fatalf("report refused: %v", f)
	}
	if got := w.account("small"); got.Leased != 10 || got.Outstanding != 0 {
		t.Errorf("account %+v, want 10 used", got.Tally)
	}
	if reply.Keys[0].Fault.GetCode() != "unknown_dimension" || reply.Catalogue.GetPolicyVersion() != 2 {
		t.Errorf("keys %v, catalogue of version %d", reply.Keys, reply.Catalogue.GetPolicyVersion())
	}
}

func TestA1HostileReportsChangeNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	a := w.agent()
	d := a.lease("small", 40)
	for _, tc := range []struct {
		taken int64
		code  string
	}{{-600, "invalid"}, {1<<31 - 1, "report_step"}, {1<<63 - 1, "report_step"}} {
		r := &pb.Report{GrantId: d.GrantId, Key: acme("small"), Window: d.Window, Taken: tc.taken}
		if f := a.sync(&pb.SyncRequest{Reports: []*pb.Report{r}}).Results[0].Fault; f.GetCode() != tc.code {
			t.Errorf("taken %d: %v, want %s", tc.taken, f, tc.code)
		}
	}
	if got := w.account("small"); got.Leased != 0 || got.Unleased != 0 {
		t.Errorf("account %+v", got.Tally)
	}
	good := &pb.Report{GrantId: d.GrantId, Key: acme("small"), Window: d.Window, Taken: 3}
	if f := a.sync(&pb.SyncRequest{Reports: []*pb.Report{good}}).Results[0].Fault; f != nil {
		t.Errorf("the next good report: %v", f)
	}
}

func TestAnotherAgentsGrantIsForeign(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	a, b := w.agent(), w.agent()
	d := a.lease("small", 40)
	other := usedUp(d, acme("report_export"))
	reply := b.sync(&pb.SyncRequest{Reports: []*pb.Report{usedUp(d, acme("small")), other}})
	for _, r := range reply.Results {
		if r.Fault.GetCode() != "foreign_grant" {
			t.Errorf("result %v, want foreign_grant", r)
		}
	}
}

func TestCancelReachesALeaseOfThePastWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	a := w.agent()
	w.ledger.move(12*time.Hour - 10*time.Second)
	d := a.lease("small", 10)
	w.ledger.move(11 * time.Second)
	a.sync(&pb.SyncRequest{Cancels: []*pb.Cancel{{GrantId: d.GrantId, Key: acme("small")}}})
	leases, err := w.cp.ListLeases(t.Context(), &pb.ListLeasesRequest{GrantId: d.GrantId})
	if err != nil || leases.Leases[0].State != pb.GrantState_GRANT_STATE_FINAL || leases.Leases[0].Returned != 10 {
		t.Errorf("lease %v, %v, want all 10 returned", leases, err)
	}
	w.verified()
}

func TestCancelledAskThatArrivesLateGetsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	a := w.agent()
	ask := a.ask("small", 10)
	a.sync(&pb.SyncRequest{Cancels: []*pb.Cancel{{GrantId: ask.GrantId, Key: ask.Key}}})
	d := a.sync(&pb.SyncRequest{Asks: []*pb.Ask{ask}}).Decisions[0]
	if d.Amount != 0 || d.Reason != string(quota.Cancelled) || d.State != pb.GrantState_GRANT_STATE_CANCELLED {
		t.Errorf("decision %v, want cancelled", d)
	}
}
