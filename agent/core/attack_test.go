package core

import (
	"fmt"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// mostItems is what the control plane takes of each list in one message.
const mostItems = 4096

func tenant(i int) quota.Key {
	return quota.Key{Tenant: fmt.Sprintf("tenant-%05d", i), Dimension: exports.Dimension}
}

// openMinute is a dimension that goes on without a lease during an outage.
func openMinute() *pb.Dimension {
	d := hardDay()
	d.Class, d.Period, d.TtlUs = "best_effort", &pb.Period{Every: "minute", Timezone: "UTC"}, (2 * time.Second).Microseconds()
	d.Outage = &pb.Outage{Mode: "open", AfterUs: (5 * time.Second).Microseconds(), ForUs: time.Hour.Microseconds()}
	return d
}

// cutOff fails Syncs for so long.
func (d *driver) cutOff(long time.Duration) {
	d.t.Helper()
	for end := d.now + long; d.now < end; {
		d.advance(100 * time.Millisecond)
		if d.build() != nil {
			d.core.SyncDone(d.now, nil)
		}
	}
}

func TestC5AClockThatWentBackPanicsNowhere(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.settle()
	d.take(exports, 1)
	for range 8 { // a lease that comes too late is asked anew, after a number of round trips
		if req := d.build(); req != nil {
			reply := d.answer(req)
			for _, dec := range reply.Decisions {
				dec.State, dec.Revoked = pb.GrantState_GRANT_STATE_LIVE, true
			}
			d.now -= 300 * time.Millisecond
			d.core.SyncDone(d.now, reply)
			d.core.Tick(d.now)
		}
		d.advance(400 * time.Millisecond)
		d.take(exports, 1)
	}
	d.settle()
	d.advance(time.Second)
	d.take(exports, 1)
	d.settle()
	if got, _ := d.take(exports, 1); got == nil || !got.Allowed {
		t.Fatalf("an agent whose clock went back once works on: %+v", got)
	}
}

func TestALongOutageLeavesNoOversizedSync(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.settle()
	const tenants = mostItems + 1000
	for i := range tenants {
		d.take(tenant(i), 1)
	}
	d.cutOff(time.Second)
	d.cutOff(12 * time.Second) // every ask is too old by now, and was withdrawn
	for range 100 {
		d.advance(time.Second)
		req := d.build()
		if req == nil {
			continue
		}
		if n := max(len(req.GetCancels()), len(req.GetAsks()), len(req.GetReports()), len(req.GetKeys())); n > mostItems {
			t.Fatalf("a Sync with %d items is refused as a whole, and so is every one after it", n)
		}
		d.now += d.rtt
		d.core.SyncDone(d.now, d.answer(req))
	}
	if len(d.core.cancels) != 0 {
		t.Fatalf("%d asks are still to be withdrawn", len(d.core.cancels))
	}
}

func TestFailingSpendsLeaveNoOversizedSpend(t *testing.T) {
	t.Parallel()
	exact := hardDay()
	exact.Class = "exact"
	d := newDriver(t, exact)
	d.settle()
	for range 20 {
		for range 300 {
			d.core.Want(d.now, &Waiter{Key: exports, Cost: 1, Done: func(Outcome) {}})
		}
		for d.core.SpendWaiting(d.now) {
			d.core.BuildSpend(d.now, time.Second)
			d.core.SpendDone(d.now, d.now, nil)
		}
		d.advance(3 * time.Second)
		d.settle() // Syncs get through: contact is not lost
	}
	d.advance(3 * time.Second)
	refunds := 0
	for range 100 {
		req := d.core.BuildSpend(d.now, time.Second)
		if req == nil {
			break
		}
		if n := max(len(req.GetRefunds()), len(req.GetItems())); n > mostItems {
			t.Fatalf("a Spend with %d items is refused as a whole, and so is every one after it", n)
		}
		refunds += len(req.GetRefunds())
		reply := &pb.SpendReply{LedgerNowUs: d.ledgerNow().UnixMicro()}
		for _, it := range req.GetItems() {
			reply.Decisions = append(reply.Decisions, &pb.Decision{GrantId: it.GetSpendId(), Amount: it.GetCost()})
		}
		d.core.SpendDone(d.now, d.now, reply)
	}
	if refunds < mostItems || d.core.Owes() {
		t.Fatalf("%d spends of unknown outcome taken back, owes %v", refunds, d.core.Owes())
	}
}

// refuseSteps answers unleased reports as a ledger does whose window never had a limit above most.
func (d *driver) refuseSteps(req *pb.SyncRequest, reply *pb.SyncReply, most int64, have map[string]int64) {
	for i, r := range req.GetReports() {
		if !r.GetUnleased() {
			continue
		}
		id := string(r.GetGrantId())
		if r.GetTaken()-have[id] > most {
			reply.Results[i] = &pb.ReportResult{GrantId: r.GetGrantId(), Fault: &pb.Fault{Code: "report_step", Field: "taken"}}
			continue
		}
		have[id] = max(have[id], r.GetTaken())
	}
}

func TestA1RefusedUnleasedUseIsReportedInSmallerSteps(t *testing.T) {
	t.Parallel()
	d := newDriver(t, openMinute()) // 1,000 by default; this tenant's plan says 100
	d.settle()
	d.cutOff(20 * time.Second)
	for range 350 {
		if got, _ := d.take(exports, 1); got == nil || !got.Allowed || got.Reason != quota.OpenMode {
			t.Fatalf("open: %+v", got)
		}
	}
	d.advance(3 * time.Second)
	have := map[string]int64{}
	syncs := 0
	for range 100 {
		req := d.build()
		if req == nil {
			d.advance(500 * time.Millisecond)
			continue
		}
		syncs++
		reply := d.answer(req)
		d.refuseSteps(req, reply, 100, have)
		d.now += d.rtt
		d.core.SyncDone(d.now, reply)
	}
	var sum int64
	for _, n := range have {
		sum += n
	}
	if sum != 350 {
		t.Fatalf("350 units were used in the outage, the ledger heard of %d", sum)
	}
	if d.core.Owes() || syncs > 60 {
		t.Fatalf("owes %v after %d Syncs", d.core.Owes(), syncs)
	}
}

func TestUseInAWindowThatTheCalendarLostIsChargedToThePresentOne(t *testing.T) {
	t.Parallel()
	d := newDriver(t, openMinute())
	d.settle()
	d.cutOff(20 * time.Second)
	for range 5 {
		if got, _ := d.take(exports, 1); got == nil || got.Reason != quota.OpenMode {
			t.Fatalf("open: %+v", got)
		}
	}
	day := openMinute()
	day.Period = &pb.Period{Every: "day", Timezone: "UTC"}
	d.catalogue = &pb.Catalogue{PolicyVersion: 8, Dimensions: []*pb.Dimension{day}}
	d.advance(3 * time.Second)
	have := map[string]int64{}
	for range 50 {
		req := d.build()
		if req == nil {
			d.advance(500 * time.Millisecond)
			continue
		}
		reply := d.answer(req)
		for i, r := range req.GetReports() {
			if r.GetWindow().GetStartUs() != d.window.GetStartUs() {
				reply.Results[i] = &pb.ReportResult{GrantId: r.GetGrantId(), Fault: &pb.Fault{Code: "invalid", Field: "window"}}
				continue
			}
			have[string(r.GetGrantId())] = max(have[string(r.GetGrantId())], r.GetTaken())
		}
		d.now += d.rtt
		d.core.SyncDone(d.now, reply)
	}
	var sum int64
	for _, n := range have {
		sum += n
	}
	if sum != 5 || d.core.Owes() {
		t.Fatalf("5 units used while the period changed, the ledger heard of %d, owes %v", sum, d.core.Owes())
	}
}

func TestA5PeekAtAnEmptyLease(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.limit = 10
	d.warm(exports, 1)
	k := d.key(exports)
	for k.left(d.now) > 0 {
		d.take(exports, 1)
	}
	var got *Outcome
	d.core.Want(d.now, &Waiter{Key: exports, Done: func(o Outcome) { got = &o }})
	d.settle()
	if got == nil || got.Allowed {
		t.Fatalf("all 10 of 10 are spent, a peek says %+v", got)
	}
	if fast := k.Take(d.now, 0); fast.Allowed {
		t.Fatalf("and the fast way: %+v", fast)
	}
}

func TestATooLargeTakeDoesNotStopPrefetch(t *testing.T) {
	t.Parallel()
	for name, cost := range map[string]int64{"above the limit": 5000, "above what one agent may hold": 500} {
		d := newDriver(t)
		d.warm(exports, 1)
		d.take(exports, cost) // its answer comes by the exact lane
		if req := d.core.BuildSpend(d.now, time.Second); req != nil {
			dec := &pb.Decision{GrantId: req.GetItems()[0].GetSpendId(), Generation: 1, Reason: string(quota.TooLarge)}
			if cost <= d.limit {
				dec = &pb.Decision{GrantId: req.GetItems()[0].GetSpendId(), Generation: 1, Amount: cost}
			}
			d.core.SpendDone(d.now, d.now, &pb.SpendReply{LedgerNowUs: d.ledgerNow().UnixMicro(), Decisions: []*pb.Decision{dec}})
		}
		k := d.key(exports)
		for k.left(d.now) > 1 {
			d.take(exports, 1)
		}
		req := d.build()
		if len(req.GetAsks()) != 1 || req.GetAsks()[0].GetNeed() > d.cap {
			t.Errorf("%s: the callers of cost 1 need the next lease fetched, asked %v", name, req.GetAsks())
		}
	}
}

func TestANoticeIsNotUndoneByAnOlderReply(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.limit = 10
	d.warm(exports, 1)
	k := d.key(exports)
	for k.left(d.now) > 0 {
		d.take(exports, 1)
	}
	var got *Outcome
	d.core.Want(d.now, &Waiter{Key: exports, Cost: 1, Done: func(o Outcome) { got = &o }})
	req := d.build()
	reply := d.answer(req) // exhausted, at generation 1
	d.limit, d.generation = 20, 2
	d.core.Notice(d.now, &pb.Notice{Key: wireKey(exports), Generation: 2})
	d.now += d.rtt
	d.core.SyncDone(d.now, reply)
	d.settle()
	if got == nil || !got.Allowed {
		t.Fatalf("the account grew while the denial was on its way: the caller is told %+v", got)
	}
}

func TestO4ASyncThatHangsIsAnOutage(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.warm(exports, 1)
	for d.key(exports).left(d.now) > 0 {
		d.take(exports, 1)
	}
	if d.build() == nil {
		t.Fatal("no Sync")
	}
	_, w := d.take(exports, 1)
	d.advance(time.Second) // nothing came back, and the call has not timed out
	if got, mine := d.core.GiveUp(d.now, w); !mine || !got.Unavailable || got.Denied {
		t.Fatalf("the ledger has not answered for a second: that is an outage, no denial: %+v", got)
	}
}

func TestO7OneLostMessageIsNoOutage(t *testing.T) {
	t.Parallel()
	d := newDriver(t, openMinute())
	d.settle()
	d.advance(12 * time.Second) // silent, because nobody wanted anything
	if d.build() == nil {
		t.Fatal("no heartbeat")
	}
	d.core.SyncDone(d.now, nil)
	if got, _ := d.take(exports, 1); got == nil || !got.Unavailable {
		t.Fatalf("one message was lost, and the agent goes on without leases: %+v", got)
	}
	d.cutOff(6 * time.Second)
	if got, _ := d.take(exports, 1); got == nil || got.Reason != quota.OpenMode {
		t.Fatalf("after 5 s of failures: %+v", got)
	}
}

func TestAnAnswerOfYesterdayDoesNotUndoToday(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.settle()
	d.take(exports, 0)
	d.settle()
	old := &pb.KeyState{Key: wireKey(exports), Window: d.window, Generation: 900, Limit: 7, LeaseCap: 1, PolicyVersion: 7, Reason: string(quota.Exhausted)}
	d.advance(12 * time.Hour)
	d.window = &pb.Window{StartUs: d.window.EndUs, EndUs: d.window.EndUs + (24 * time.Hour).Microseconds()}
	d.settle()
	d.take(exports, 1)
	d.settle()
	_, w := d.take(exports, d.cap+1)
	if w == nil || d.core.BuildSpend(d.now, time.Second) == nil {
		t.Fatal("no spend")
	}
	reply := &pb.SpendReply{Keys: []*pb.KeyState{old}, LedgerNowUs: d.ledgerNow().UnixMicro(),
		Decisions: []*pb.Decision{{GrantId: w.spend.id.Bytes(), Reason: string(quota.Exhausted), Generation: 900}}}
	d.core.SpendDone(d.now, d.now-time.Second, reply)
	if got, _ := d.take(exports, 1); got == nil || !got.Allowed || got.Limit != 1000 || got.Reset < 23*time.Hour {
		t.Fatalf("what was true yesterday is told today: %+v", got)
	}
}

func TestD2ACopyWithASpendInFlight(t *testing.T) {
	t.Parallel()
	exact := hardDay()
	exact.Class = "exact"
	d := newDriver(t, exact)
	d.settle()
	for range 2 { // two spends whose outcome nobody knows
		d.take(exports, 1)
		d.core.BuildSpend(d.now, time.Second)
		d.core.SpendDone(d.now, d.now, nil)
		d.advance(3 * time.Second)
	}
	if d.core.BuildSpend(d.now, time.Second) == nil {
		t.Fatal("nothing to take back")
	}
	d.advance(10 * time.Second)
	if d.build() == nil {
		t.Fatal("no Sync")
	}
	d.core.SyncDone(d.now, &pb.SyncReply{NewIncarnation: true, LedgerNowUs: d.ledgerNow().UnixMicro()})
	if d.core.SpendWaiting(d.now) {
		t.Fatal("a second Spend while one is in flight")
	}
	d.core.SpendDone(d.now, d.now, &pb.SpendReply{LedgerNowUs: d.ledgerNow().UnixMicro()})
	if d.core.Owes() {
		t.Fatal("what the original asked for is not the copy's to take back")
	}
}

func TestCallersBeforeTheFirstContactFailFast(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	if d.build() == nil {
		t.Fatal("no first Sync")
	}
	var got []Outcome
	for i := range 3 {
		d.core.Want(d.now, &Waiter{Key: tenant(i), Cost: 1, Done: func(o Outcome) { got = append(got, o) }})
	}
	d.core.SyncDone(d.now, nil)
	if len(got) != 3 || !got[0].Unavailable {
		t.Fatalf("the control plane cannot be reached, and the callers go on waiting: %+v", got)
	}
}
