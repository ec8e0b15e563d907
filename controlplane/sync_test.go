package controlplane

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

func TestR2_4TwentyFourAgentsHoldTenEach(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	var agents []*agent
	for range 24 {
		a := w.agent()
		if d := a.lease("report_export", 1); d.Amount != 1 {
			t.Fatalf("first lease: %v", d)
		}
		agents = append(agents, a)
	}
	for i, a := range agents {
		if d := a.lease("report_export", 100); d.Amount != 9 {
			t.Errorf("agent %d holds 1 of L = 10 and is granted %d, want 9", i, d.Amount)
		}
	}
	if d := agents[0].lease("report_export", 100); d.Amount != 0 || d.Reason != string(quota.ExactLane) {
		t.Errorf("above L: %v, want the exact lane", d)
	}
	if got := w.account("report_export").Outstanding; got != 240 {
		t.Errorf("%d outstanding, want 24 x 10", got)
	}
	w.verified()
}

func TestR2_1LeaseCarriesItsTerms(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	a := w.agent()
	ask := a.ask("small", 40)
	reply := a.sync(&pb.SyncRequest{Asks: []*pb.Ask{ask}})
	want := &pb.Decision{
		GrantId: ask.GrantId, Amount: 40, TtlUs: 30_000_000, RemainingUs: 30_000_000, IssuedAtUs: noon.UnixMicro(),
		ExpiresAtUs: noon.Add(30 * time.Second).UnixMicro(), PolicyVersion: 1, Generation: reply.Decisions[0].Generation,
		State: pb.GrantState_GRANT_STATE_LIVE, Window: windowMessage(day(noon)), Region: "ap-seoul",
	}
	if !proto.Equal(reply.Decisions[0], want) {
		t.Errorf("decision %v, want %v", reply.Decisions[0], want)
	}
	if reply.LedgerNowUs != noon.UnixMicro() || reply.Catalogue != nil || reply.NewIncarnation {
		t.Errorf("reply %v", reply)
	}
	key := reply.Keys[0]
	if key.Limit != 100 || key.Headroom != 60 || key.LeaseCap != 100 || key.Fault != nil || key.Reason != "" {
		t.Errorf("key state %v, want limit 100, headroom 60, lease cap 100", key)
	}
}

func TestD1LostReplyGetsTheFirstAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	a := w.agent()
	m := &pb.SyncRequest{Hello: a.hello(), Asks: []*pb.Ask{a.ask("small", 40)}}
	first, err := w.cp.Desk().Sync(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	w.ledger.move(4 * time.Second)
	second, err := w.cp.Desk().Sync(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	again := second.Decisions[0]
	if again.RemainingUs != 26_000_000 {
		t.Errorf("%d us remain after 4 of 30 s", again.RemainingUs)
	}
	again.RemainingUs = first.Decisions[0].RemainingUs
	if !proto.Equal(first.Decisions[0], again) {
		t.Errorf("first %v, then %v", first.Decisions[0], again)
	}
	if got := w.account("small"); got.Granted != 40 || got.Outstanding != 40 {
		t.Errorf("granted %d, outstanding %d, want 40 once", got.Granted, got.Outstanding)
	}
	w.verified()
}

func TestD1SameIDWithOtherTermsIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	a := w.agent()
	ask := a.ask("small", 40)
	a.sync(&pb.SyncRequest{Asks: []*pb.Ask{ask}})
	ask.Want = 41
	d := a.sync(&pb.SyncRequest{Asks: []*pb.Ask{ask}}).Decisions[0]
	if d.Fault.GetCode() != "terms_mismatch" || d.Amount != 0 {
		t.Errorf("decision %v, want terms_mismatch", d)
	}
}

func TestD2CloneStartsAnewAndItsReportsCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	a := w.agent()
	d := a.lease("small", 40)
	clone := *a
	a.sync(&pb.SyncRequest{}) // echoes the token, which voids the clone's
	a.sync(&pb.SyncRequest{})
	reply := clone.sync(&pb.SyncRequest{
		Reports: []*pb.Report{{GrantId: d.GrantId, Key: acme("small"), Window: d.Window, Taken: 7}},
		Asks:    []*pb.Ask{w.ask("small", 5)},
		Cancels: []*pb.Cancel{{GrantId: d.GrantId, Key: acme("small")}},
	})
	if !reply.NewIncarnation || len(reply.Decisions) != 0 || reply.Results[0].Fault != nil {
		t.Errorf("reply to the clone: %v", reply)
	}
	if got := w.account("small"); got.Leased != 7 || got.Outstanding != 33 {
		t.Errorf("used %d, outstanding %d, want 7 and 33", got.Leased, got.Outstanding)
	}
	if got := a.lease("small", 1); got.Amount != 1 {
		t.Errorf("the original is denied: %v", got)
	}
}

func TestD3ReportAndAskInOneSyncCountOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	a := w.agent()
	d := a.lease("small", 60)
	reply := a.sync(&pb.SyncRequest{
		Reports: []*pb.Report{usedUp(d, acme("small"))},
		Asks:    []*pb.Ask{a.ask("small", 60)},
	})
	if got := reply.Decisions[0].Amount; got != 40 {
		t.Errorf("granted %d after 60 of 100 were used, want 40", got)
	}
	if got := reply.Keys[0]; got.Headroom != 0 || len(reply.Keys) != 1 {
		t.Errorf("key states %v", reply.Keys)
	}
	if got := w.account("small"); got.Leased != 60 || got.Outstanding != 40 || got.Held != 0 {
		t.Errorf("account %+v", got.Tally)
	}
	w.verified()
}

func TestD9WindowEndsBetweenReplicaAndLedger(t *testing.T) {
	t.Parallel()
	w := &world{t: t, ledger: &wall{at: noon.Add(12*time.Hour - time.Second)}}
	behind := func() time.Time { return w.ledger.now().Add(-2 * time.Second) }
	w.start(examplePolicy, w.ledger.now, behind)
	a := w.agent()
	w.ledger.move(time.Second) // midnight by the ledger, two seconds before it by the replica
	d := a.lease("small", 10)
	if want := windowMessage(day(w.ledger.now())); !proto.Equal(d.Window, want) || d.Amount != 10 {
		t.Fatalf("decision %v, want 10 units in the new window", d)
	}
	if got := w.metric("attempts_again_total"); got != 1 {
		t.Errorf("%v further attempts, want 1", got)
	}
	if d = a.lease("small", 10); d.Amount != 10 || w.metric("attempts_again_total") != 1 {
		t.Errorf("the clock's offset was not learnt: %v", d)
	}
}

func TestD9KeysAreToldInTheLedgersWindow(t *testing.T) {
	t.Parallel()
	w := &world{t: t, ledger: &wall{at: noon.Add(12 * time.Hour)}}
	behind := func() time.Time { return w.ledger.now().Add(-2 * time.Second) }
	w.start(examplePolicy, w.ledger.now, behind)
	a := w.agent()
	tomorrow := windowMessage(day(w.ledger.now()))
	ask := &pb.SyncRequest{Keys: []*pb.Key{acme("small")}}
	if k := a.sync(ask).Keys[0]; !proto.Equal(k.Window, tomorrow) {
		t.Errorf("key state %v, want window %v", k, tomorrow)
	}
	a.lease("small", 10)
	if k := a.sync(ask).Keys[0]; k.Headroom != 90 {
		t.Errorf("key state %v, want 90 left", k)
	}
	w.verified()
}

func TestC1LedgersClockGoesBackOverMidnight(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	w.ledger.move(12*time.Hour - time.Second)
	a := w.agent()
	d := a.lease("small", 100)
	w.ledger.move(2 * time.Second)
	a.sync(&pb.SyncRequest{Reports: []*pb.Report{usedUp(d, acme("small"))}}) // yesterday's account has seen midnight
	w.ledger.move(-2 * time.Second)
	got := a.lease("small", 100)
	if got.Amount != 100 || !proto.Equal(got.Window, windowMessage(day(noon.AddDate(0, 0, 1)))) {
		t.Errorf("decision %v, want a lease of the new window", got)
	}
	w.verified()
}

func TestW7UnknownNamesMakeNoAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "unlisted_tenants: deny\ntenants: [{tenant: acme}]\n"+examplePolicy)
	a := w.agent()
	typo, stranger := acme("report_exports"), &pb.Key{Tenant: "nobody", Dimension: "small"}
	for _, tc := range []struct {
		key  *pb.Key
		code string
	}{{typo, "unknown_dimension"}, {stranger, "unknown_tenant"}, {&pb.Key{Tenant: "a\x00", Dimension: "small"}, "invalid"}, {nil, "invalid"}} {
		id := w.id().Bytes()
		reply := a.sync(&pb.SyncRequest{
			Asks:    []*pb.Ask{{GrantId: id, Key: tc.key, Want: 1, Need: 1}},
			Reports: []*pb.Report{{GrantId: w.id().Bytes(), Key: tc.key, Window: windowMessage(day(noon)), Taken: 1, Unleased: true}},
			Cancels: []*pb.Cancel{{GrantId: w.id().Bytes(), Key: tc.key}},
		})
		for what, f := range map[string]*pb.Fault{"ask": reply.Decisions[0].Fault, "report": reply.Results[0].Fault, "key": reply.Keys[0].Fault} {
			if f.GetCode() != tc.code {
				t.Errorf("%s of %v: %v, want %s", what, tc.key, f, tc.code)
			}
		}
		if !strings.Contains(string(reply.Decisions[0].GrantId), string(id)) {
			t.Errorf("decision %v does not name its ask", reply.Decisions[0])
		}
		spent := a.spend(&pb.SpendItem{SpendId: w.id().Bytes(), Key: tc.key, Cost: 1})
		if spent.Decisions[0].Fault.GetCode() != tc.code {
			t.Errorf("spend of %v: %v", tc.key, spent.Decisions[0])
		}
	}
	if n := w.accountCount(); n != 0 {
		t.Errorf("%d accounts were made", n)
	}
}

func TestR2_2RepeatOutlivesItsDimension(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	a := w.agent()
	ask := a.ask("small", 10)
	a.sync(&pb.SyncRequest{Asks: []*pb.Ask{ask}})
	w.apply(strings.Replace(examplePolicy, "name: small", "name: other", 1))
	if d := a.sync(&pb.SyncRequest{Asks: []*pb.Ask{ask}}).Decisions[0]; d.Amount != 10 || d.Fault != nil || d.PolicyVersion != 1 {
		t.Errorf("the repeat: %v, want the first answer", d)
	}
	if d := a.lease("small", 1); d.Fault.GetCode() != "unknown_dimension" {
		t.Errorf("a new ask: %v, want unknown_dimension", d)
	}
}

func TestStalePolicyIsReloadedBeforeAnythingIsGranted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	a := w.agent()
	w.apply(strings.Replace(examplePolicy, "limit: 100", "limit: 30", 1))
	d := a.lease("small", 60)
	if d.Amount != 30 || d.PolicyVersion != 2 {
		t.Errorf("granted %d under version %d, want 30 under 2", d.Amount, d.PolicyVersion)
	}
}

func TestExactLaneSpendsAndRefundsByID(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	a := w.agent()
	if d := a.lease("payments", 1); d.Amount != 0 || d.Reason != string(quota.ExactLane) {
		t.Fatalf("a lease of an exact key: %v", d)
	}
	item := func(cost int64) *pb.SpendItem {
		return &pb.SpendItem{SpendId: w.id().Bytes(), Key: acme("payments"), Cost: cost}
	}
	first, large, small, whole := item(6), item(5), item(4), item(11)
	reply := a.spend(first, large, small, whole)
	var got []string
	for _, d := range reply.Decisions {
		got = append(got, fmt.Sprint(d.Amount, d.Reason))
	}
	if fmt.Sprint(got) != "[6 0exhausted 4 0too_large]" {
		t.Errorf("decisions %v", got)
	}
	if k := reply.Keys[0]; k.Headroom != 0 || k.LeaseCap != 0 || k.Reason != string(quota.Exhausted) {
		t.Errorf("key state %v", k)
	}
	for range 2 { // a refund counts once
		_, err := w.cp.Desk().Spend(t.Context(), &pb.SpendRequest{Hello: a.hello(), Refunds: []*pb.Cancel{{GrantId: first.SpendId, Key: first.Key}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := w.account("payments"); got.Spent != 4 || got.Headroom() != 6 {
		t.Errorf("spent %d, headroom %d, want 4 and 6", got.Spent, got.Headroom())
	}
	late := item(1)
	late.NotAfterUs = noon.Add(-time.Second).UnixMicro()
	if d := a.spend(late).Decisions[0]; d.Reason != string(quota.Stale) {
		t.Errorf("a spend after its not-after: %v", d)
	}
	w.verified()
}

// TestASyncAboutAnyNumberOfPastWindowsIsAnswered is an agent that was cut off while windows
// passed: it reports, and takes back, in more of them than a transaction is tried again.
func TestASyncAboutAnyNumberOfPastWindowsIsAnswered(t *testing.T) {
	t.Parallel()
	const before = "dimensions:\n  - {name: brief, kind: period, limit: 100, period: {every: second}, class: hard, overshoot: 100%, lease: {ttl: 1s}}\n"
	const after = "dimensions:\n  - {name: other, kind: period, limit: 100, period: {every: second}, class: hard, overshoot: 100%, lease: {ttl: 1s}}\n"
	for name, removed := range map[string]bool{"policy still has the key": false, "policy has dropped the key": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, before)
			a := w.agent()
			last := &pb.SyncRequest{}
			for i := range 2 * maxAttempts {
				d := a.lease("brief", 3)
				if d.GetAmount() != 3 {
					t.Fatalf("window %d: %v", i, d)
				}
				if i%2 == 0 {
					last.Reports = append(last.Reports, usedUp(d, acme("brief")))
				} else {
					last.Cancels = append(last.Cancels, &pb.Cancel{GrantId: d.GrantId, Key: acme("brief")})
				}
				w.ledger.move(time.Second)
			}
			if removed {
				w.apply(after)
			}
			for i, r := range a.sync(last).Results {
				if r.GetFault() != nil || r.GetState() != pb.GrantState_GRANT_STATE_FINAL {
					t.Errorf("report %d: %v", i, r)
				}
			}
			accounts, err := w.store.Accounts(t.Context(), ledger.AccountQuery{})
			if err != nil {
				t.Fatal(err)
			}
			var used, rest ledger.Units
			for _, x := range accounts {
				used, rest = used+x.Settled(), rest+x.Outstanding+x.Held
			}
			if used != 3*maxAttempts || rest != 0 {
				t.Errorf("%d settled and %d outstanding or held, want %d and 0", used, rest, 3*maxAttempts)
			}
			w.verified()
		})
	}
}
