package core

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

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

func TestAKeyWithASpendInFlightIsNotForgotten(t *testing.T) {
	t.Parallel()
	short := openMinute()
	short.TtlUs = (500 * time.Millisecond).Microseconds()
	d := newDriver(t, short)
	d.cap = 0 // everything goes to the exact lane
	d.settle()
	d.take(exports, 0)
	d.settle()
	var got []Outcome
	d.core.Want(d.now, &Waiter{Key: exports, Cost: 1, Done: func(o Outcome) { got = append(got, o) }})
	if d.core.BuildSpend(d.now, time.Second) == nil {
		t.Fatal("no spend")
	}
	for range 12 { // the Spend hangs, and so do the Syncs
		d.advance(500 * time.Millisecond)
		if d.build() != nil {
			d.core.SyncDone(d.now, nil)
		}
	}
	d.core.SpendDone(d.now, d.now-time.Second, nil)
	if len(got) != 1 || !got[0].Allowed || got[0].Reason != quota.OpenMode {
		t.Fatalf("open mode: %+v", got)
	}
	if !d.core.Owes() {
		t.Fatal("a unit was used without a lease, and the core owes nothing")
	}
	d.advance(3 * time.Second)
	d.settle()
	if settled, _ := d.used(); settled != 1 {
		t.Fatalf("reported %d of 1", settled)
	}
	idle := 0
	for range 200 {
		if d.sync() != nil {
			idle++
		}
	}
	if idle > 3 {
		t.Fatalf("%d Syncs in a moment in which nothing happens", idle)
	}
}

func TestADebtIsRememberedWithoutTheKey(t *testing.T) {
	t.Parallel()
	debt := hardDay()
	debt.Class, debt.Cold = "best_effort", &pb.Cold{WaitUs: 10_000, Then: "debt", Units: 1}
	d := newDriver(t, debt)
	d.core.cfg.MaxKeys = 10
	d.settle()
	cold := func(key quota.Key) Outcome {
		var answered *Outcome
		w := &Waiter{Key: key, Cost: 1, Done: func(o Outcome) { answered = &o }}
		d.core.Want(d.now, w)
		if answered != nil {
			return *answered
		}
		o, _ := d.core.GiveUp(d.now, w)
		return o
	}
	for i := range 10 {
		if got := cold(tenant(i)); !got.Allowed || got.Reason != quota.Cold {
			t.Fatalf("tenant %d: %+v", i, got)
		}
	}
	for range 60 { // all of them go idle
		d.settle()
		d.advance(time.Second)
	}
	if got := cold(tenant(11)); got.Unavailable {
		t.Fatalf("ten tenants of an hour ago shut everyone else out: %+v", got)
	}
	if got := cold(tenant(0)); got.Allowed {
		t.Fatalf("a second debt of the same key and incarnation: %+v", got)
	}
}

func TestEqualSeedsMakeEqualMessages(t *testing.T) {
	t.Parallel()
	run := func() (said []proto.Message) {
		d := newDriver(t)
		say := func() {
			if req := d.build(); req != nil {
				said = append(said, proto.CloneOf(req))
				d.now += d.rtt
				d.core.SyncDone(d.now, d.answer(req))
			}
		}
		say()
		for range 12 {
			for i := range 7 {
				d.take(tenant(i), 1)
			}
			say()
			d.advance(700 * time.Millisecond)
			say()
		}
		d.core.Stop(d.now)
		say()
		return said
	}
	first, second := run(), run()
	same := slices.EqualFunc(first, second, func(x, y proto.Message) bool { return proto.Equal(x, y) })
	if !same {
		t.Fatal("two cores with one seed and one history say different things")
	}
}

func TestAWaiterOfLargeCostDoesNotEndWhatOthersLiveOn(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.warm(exports, 1)
	k := d.key(exports)
	left := k.left(d.now)
	_, w := d.take(exports, d.cap+1) // above L: the exact lane
	if w == nil || !w.Exact() || k.left(d.now) != left {
		t.Fatalf("a cost above L is spent one by one, and leaves the lease alone: exact %v, left %d of %d", w.Exact(), k.left(d.now), left)
	}
}

func TestHugeNumbersStayNumbers(t *testing.T) {
	t.Parallel()
	for _, limit := range []int64{-1, math.MaxInt64, math.MaxInt64 - 1} {
		d := newDriver(t)
		d.limit, d.cap = math.MaxInt64, math.MaxInt64
		if limit >= 0 {
			d.limit = limit
		}
		d.catalogue.Dimensions[0].Limit = limit
		d.settle()
		const cost = 1<<53 - 1
		for range 20 {
			got, _ := d.take(exports, cost)
			d.settle()
			if got != nil && (got.Denied || got.Remaining < 0 || got.Limit < -1) {
				t.Fatalf("limit %d: %+v", limit, *got)
			}
			d.advance(time.Second)
		}
		for _, g := range d.grants {
			if g.amount < 0 || g.taken < 0 || g.returned < 0 || g.taken+g.returned > g.amount {
				t.Fatalf("limit %d: %+v", limit, *g)
			}
		}
	}
}

func TestADroppedDimensionGivesItsLeasesBackAndItsMemory(t *testing.T) {
	t.Parallel()
	other := hardDay()
	other.Name = "api_calls"
	d := newDriver(t, hardDay(), other)
	d.warm(exports, 3)
	d.catalogue = &pb.Catalogue{PolicyVersion: 8, Dimensions: []*pb.Dimension{other}}
	d.advance(7 * time.Second)
	d.settle()
	if settled, out := d.used(); settled != 3 || out != 0 {
		t.Fatalf("settled %d of 3, %d out", settled, out)
	}
	if got, _ := d.take(exports, 1); got == nil || got.Bad == nil {
		t.Fatalf("no such dimension any more: %+v", got)
	}
	for range 30 {
		d.advance(time.Second)
		d.settle()
	}
	if len(d.core.keys) != 0 || len(d.core.dirty) != 0 {
		t.Fatalf("%d keys, %d of them with something to say", len(d.core.keys), len(d.core.dirty))
	}
}

func TestAClassThatBecomesExactStopsLeasing(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.warm(exports, 1)
	exact := hardDay()
	exact.Class = "exact"
	d.catalogue = &pb.Catalogue{PolicyVersion: 8, Dimensions: []*pb.Dimension{exact}}
	d.advance(7 * time.Second)
	d.settle()
	for range 10 {
		d.advance(time.Second)
		if req := d.sync(); len(req.GetAsks()) > 0 {
			t.Fatalf("asked for a lease of an exact key: %v", req.GetAsks())
		}
	}
	_, w := d.take(exports, 1)
	if w == nil || !w.Exact() || d.core.BuildSpend(d.now, time.Second) == nil {
		t.Fatal("every take of an exact key is a spend")
	}
}
