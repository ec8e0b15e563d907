package controlplane

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/quotalease/quotalease/ledger"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

const slotsPolicy = `
dimensions:
  - {name: batch_jobs, kind: concurrency, limit: 20, max_hold: 1h, class: hard, overshoot: 10%, lease: {ttl: 30s, grace: 5s}}
  - name: free_reads
    kind: period
    limit: 100
    period: {every: day}
    class: best_effort
    overshoot: 100%
    lease: {ttl: 30s, grace: 5s}
    outage: {mode: extend, rate: 10/s, budget: 40}
`

func TestR2_12SlotsAreRenewedOverTheWire(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slotsPolicy)
	a := w.agent()
	ask := &pb.Ask{GrantId: w.id().Bytes(), Key: acme("batch_jobs"), Want: 9, Need: 3}
	lease := a.sync(&pb.SyncRequest{Asks: []*pb.Ask{ask}}).Decisions[0]
	if lease.Amount != 5 || lease.Seq != 0 { // 3 in use, 2 idle
		t.Fatalf("decision %v, want 5 slots", lease)
	}
	renewal := func(seq, inUse, returned int64) *pb.Renewal {
		return &pb.Renewal{GrantId: lease.GrantId, Key: acme("batch_jobs"), Seq: seq, InUse: inUse, Returned: returned}
	}
	w.ledger.move(20 * time.Second)
	foreign := renewal(1, 0, 0)
	foreign.GrantId = w.id().Bytes()
	odd := renewal(1, 0, 0)
	odd.GrantId = []byte("short")
	first := a.sync(&pb.SyncRequest{Renewals: []*pb.Renewal{renewal(1, 4, 0), foreign, odd}})
	got := first.Renewals
	if got[0].Amount != 5 || got[0].Seq != 1 || got[0].RemainingUs != 30_000_000 || got[0].TtlUs != 30_000_000 {
		t.Errorf("renewed %v, want 5 slots for another 30 s", got[0])
	}
	if got[1].Fault.GetCode() != "foreign_grant" || got[2].Fault.GetCode() != "invalid" {
		t.Errorf("answers %v and %v, want faults", got[1], got[2])
	}
	if k := first.Keys[0]; k.Key.Dimension != "batch_jobs" || k.Headroom != 15 {
		t.Errorf("key state %v, want 15 left", k)
	}
	// A report and an ask of the same Sync go before and after: what came back is asked for again.
	w.ledger.move(10 * time.Second)
	reply := a.sync(&pb.SyncRequest{
		Reports:  []*pb.Report{{GrantId: lease.GrantId, Key: acme("batch_jobs"), Seq: 2, InUse: 3, Returned: 2}},
		Renewals: []*pb.Renewal{renewal(3, 3, 2)},
		Asks:     []*pb.Ask{{GrantId: w.id().Bytes(), Key: acme("batch_jobs"), Want: 17, Need: 17}},
	})
	if d := reply.Renewals[0]; d.Amount != 3 || d.State != pb.GrantState_GRANT_STATE_LIVE || reply.Decisions[0].Amount != 17 {
		t.Errorf("renewed %v, decided %v: want 3 and 17", d, reply.Decisions[0])
	}
	// A cut keeps what runs.
	w.apply(strings.Replace(slotsPolicy, "limit: 20", "limit: 10", 1))
	d := a.sync(&pb.SyncRequest{Renewals: []*pb.Renewal{renewal(4, 1, 2)}}).Renewals[0]
	if d.Amount != 1 || !d.Revoked || d.State != pb.GrantState_GRANT_STATE_LIVE {
		t.Errorf("after a cut: %v, want the one in use", d)
	}
	// A closed lease is not renewed, and its answer says so.
	w.ledger.move(time.Minute)
	d = a.sync(&pb.SyncRequest{Renewals: []*pb.Renewal{renewal(5, 1, 4)}}).Renewals[0]
	if d.Amount != 0 || d.State != pb.GrantState_GRANT_STATE_CLOSED || d.Fault != nil || d.RemainingUs != 0 {
		t.Errorf("too late: %v, want a closed lease", d)
	}
	end := &pb.Report{GrantId: lease.GrantId, Key: acme("batch_jobs"), Seq: 6, Returned: 5, Final: true}
	if x := a.sync(&pb.SyncRequest{Reports: []*pb.Report{end}}).Results[0]; x.State != pb.GrantState_GRANT_STATE_FINAL {
		t.Errorf("the last report: %v", x)
	}
	w.verified()
}

func TestSlotsThatEndAreSwept(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slotsPolicy)
	a := w.agent()
	a.sync(&pb.SyncRequest{Asks: []*pb.Ask{{GrantId: w.id().Bytes(), Key: acme("batch_jobs"), Want: 5, Need: 5}}})
	for _, c := range []struct {
		after time.Duration
		swept int
		held  ledger.Units
	}{
		{35*time.Second - time.Microsecond, 0, 0}, {time.Microsecond, 1, 5},
		{time.Hour - time.Microsecond, 0, 5}, {time.Microsecond, 1, 0},
	} {
		w.ledger.move(c.after)
		n, err := w.cp.Desk().Sweep(t.Context())
		if got := w.account("batch_jobs"); err != nil || n != c.swept || got.Held != c.held {
			t.Errorf("after %s: swept %d, %v, H is %d: want %d and %d", c.after, n, err, got.Held, c.swept, c.held)
		}
	}
	if got := w.metric("leases_closed_total"); got != 1 {
		t.Errorf("%v leases closed, want 1", got)
	}
	w.verified()
}

func TestACopysRenewalsAreNotAnswered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slotsPolicy)
	a := w.agent()
	lease := a.sync(&pb.SyncRequest{Asks: []*pb.Ask{{GrantId: w.id().Bytes(), Key: acme("batch_jobs"), Want: 1, Need: 1}}}).Decisions[0]
	copied := *a
	a.sync(&pb.SyncRequest{})
	a.sync(&pb.SyncRequest{})
	reply := copied.sync(&pb.SyncRequest{Renewals: []*pb.Renewal{{GrantId: lease.GrantId, Key: acme("batch_jobs"), Seq: 1}}})
	if !reply.NewIncarnation || len(reply.Renewals) != 0 {
		t.Errorf("reply to the copy: %v", reply)
	}
	if got := w.account("batch_jobs"); got.Leased != 1 {
		t.Errorf("%+v, want the one slot in use", got.Tally)
	}
}

func TestR2_9AnAllowanceForAnOutage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slotsPolicy)
	a := w.agent()
	ask := &pb.Ask{GrantId: w.id().Bytes(), Key: acme("free_reads"), Want: 100, Need: 1, Emergency: true}
	reply := a.sync(&pb.SyncRequest{Asks: []*pb.Ask{ask}})
	d := reply.Decisions[0]
	if d.Amount != 40 || !d.Emergency || d.RemainingUs != (12*time.Hour).Microseconds() || reply.Keys[0].Headroom != 100 {
		t.Errorf("decision %v with headroom %d, want the pot of 40 until midnight, and 100", d, reply.Keys[0].Headroom)
	}
	used := &pb.Report{GrantId: ask.GrantId, Key: ask.Key, Window: d.Window, Taken: 15, Returned: 25, Final: true, Emergency: true}
	if x := a.sync(&pb.SyncRequest{Reports: []*pb.Report{used}}).Results[0]; x.Fault != nil || x.State != pb.GrantState_GRANT_STATE_FINAL {
		t.Errorf("the last report: %v", x)
	}
	if got := w.account("free_reads"); got.Emergency != 15 || got.Headroom() != 85 {
		t.Errorf("E is %d and headroom %d, want 15 and 85", got.Emergency, got.Headroom())
	}
	// The next window's is taken at any time before it, and tells when it begins.
	tomorrow := windowMessage(day(noon.Add(24 * time.Hour)))
	next := &pb.Ask{GrantId: w.id().Bytes(), Key: ask.Key, Want: 100, Need: 1, Emergency: true, Window: tomorrow}
	d = a.sync(&pb.SyncRequest{Asks: []*pb.Ask{next}}).Decisions[0]
	if d.Amount != 40 || d.StartsInUs != (12*time.Hour).Microseconds() || !proto.Equal(d.Window, tomorrow) {
		t.Errorf("decision %v, want tomorrow's pot of 40 in 12 hours", d)
	}
	w.ledger.move(36 * time.Hour)
	late := &pb.Ask{GrantId: w.id().Bytes(), Key: ask.Key, Want: 1, Need: 1, Emergency: true, Window: tomorrow}
	if d = a.sync(&pb.SyncRequest{Asks: []*pb.Ask{late}}).Decisions[0]; d.Fault.GetField() != "window" {
		t.Errorf("asked for a window that is over: %v", d)
	}
	w.verified()
}

func TestWhileClocksDisagreeRenewalsWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slotsPolicy)
	a := w.agent()
	w.store.SetClockSuspect(true)
	_, err := w.cp.Desk().Sync(t.Context(), &pb.SyncRequest{
		Hello:    &pb.Hello{Incarnation: a.inc.Bytes(), Name: "agent", Region: "eu"},
		Renewals: []*pb.Renewal{{GrantId: w.id().Bytes(), Key: acme("batch_jobs"), Seq: 1}},
	})
	if !errors.Is(err, ErrUnavailable) {
		t.Errorf("a renewal is answered with %v, want an outage", err)
	}
}
