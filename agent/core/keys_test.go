package core

import (
	"slices"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

func TestKeysAreCapped(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.core.cfg.MaxKeys = 2
	d.settle()
	for _, tenant := range []string{"a", "b"} {
		d.warm(quota.Key{Tenant: tenant, Dimension: "report_export"}, 1)
	}
	got, _ := d.take(quota.Key{Tenant: "c", Dimension: "report_export"}, 1)
	if got == nil || !got.Unavailable || got.Denied {
		t.Errorf("a key too many is %+v, want an outage, not a denial", got)
	}
	if n := d.core.Stats(d.now).Keys; n != 2 {
		t.Errorf("%d keys are held, the cap is 2", n)
	}
}

func TestAnOldAskIsCancelledAndReplacedInOneSync(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.warm(exports, 1)
	for d.key(exports).ask == nil {
		d.take(exports, 1)
	}
	old := d.build().GetAsks()[0].GetGrantId()
	d.advance(time.Second)
	d.core.SyncDone(d.now, nil)
	d.advance(5 * time.Second) // ttl/2 and more since the first send
	req := d.build()
	if len(req.GetCancels()) != 1 || string(req.GetCancels()[0].GetGrantId()) != string(old) {
		t.Fatalf("the old ask is cancelled: %v", req.GetCancels())
	}
	if len(req.GetAsks()) != 1 || string(req.GetAsks()[0].GetGrantId()) == string(old) {
		t.Fatalf("and replaced: %v", req.GetAsks())
	}
}

func TestALeaseInUseIsReplacedBeforeItEnds(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.warm(exports, 1)
	for range 40 { // a trickle that never reaches the watermark
		d.advance(500 * time.Millisecond)
		d.settle()
		if got, _ := d.take(exports, 1); got == nil || !got.Allowed {
			t.Fatalf("a key in use is never without units, at %s: %+v", d.now, got)
		}
		d.settle()
	}
}

func TestAnIdleKeyGivesBackItsLeaseAndItsMemory(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.warm(exports, 1)
	for range 60 {
		d.advance(time.Second)
		d.settle()
	}
	if _, out := d.used(); out != 0 {
		t.Errorf("%d units still out", out)
	}
	if d.core.Table.Find(exports) != nil || len(d.core.keys) != 0 {
		t.Error("the idle key is still held")
	}
	if settled, _ := d.used(); settled != 1 {
		t.Errorf("settled %d, want 1", settled)
	}
}

func TestUnknownDimensionMakesNoState(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.settle()
	got, _ := d.take(quota.Key{Tenant: "acme", Dimension: "report_exprot"}, 1)
	if got == nil || got.Bad == nil || got.Bad.Field != "dimension" {
		t.Fatalf("refused with the field named: %+v", got)
	}
	if len(d.core.keys) != 0 {
		t.Fatal("state was made")
	}
}

func TestASpendGetsBackWhatThisAgentHolds(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.limit, d.cap = 10, 2
	d.warm(exports, 1) // one unit used, one in hand, eight free
	var got *Outcome
	d.core.Want(d.now, &Waiter{Key: exports, Cost: 9, Done: func(o Outcome) { got = &o }})
	for range 10 {
		d.spendOnce()
		d.sync()
	}
	if got == nil || !got.Allowed {
		t.Fatalf("9 of 9 units are this tenant's to use: %+v", got)
	}
}

func TestR1_3TooLargeWhateverIsRemembered(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.limit = 10
	d.settle()
	for range 15 {
		if got, _ := d.take(exports, 1); got == nil {
			d.settle()
		}
	}
	if got, _ := d.take(exports, 1); got == nil || got.Reason != quota.Exhausted || got.RetryIn <= 0 {
		t.Fatalf("spent: %+v", got)
	}
	got, _ := d.take(exports, 11)
	if got == nil || got.Reason != quota.TooLarge || got.Largest != 10 || got.RetryIn != 0 {
		t.Fatalf("no wait helps 11 of 10: %+v", got)
	}
}

func TestO7LongerThanTheWindow(t *testing.T) {
	t.Parallel()
	open := &pb.Dimension{
		Name: "report_export", Kind: "period", Class: "best_effort", Limit: 100,
		Period: &pb.Period{Every: "minute", Timezone: "UTC"}, TtlUs: (2 * time.Second).Microseconds(),
		LowWatermarkPpm: 200_000, Cold: &pb.Cold{Then: "deny"},
		Outage: &pb.Outage{Mode: "open", AfterUs: (5 * time.Second).Microseconds(), ForUs: time.Hour.Microseconds()},
	}
	d := newDriver(t, open)
	d.settle()
	d.take(exports, 0)
	d.settle()
	d.advance(2 * time.Second)
	if d.build() == nil {
		t.Fatal("no heartbeat")
	}
	d.core.SyncDone(d.now, nil)
	if got, _ := d.take(exports, 1); got == nil || !got.Unavailable {
		t.Fatalf("before `after` is over nothing passes: %+v", got)
	}
	for range 3 {
		d.advance(time.Minute)
		for range 5 {
			if got, _ := d.take(exports, 1); got == nil || !got.Allowed || got.Reason != quota.OpenMode {
				t.Fatalf("open: %+v", got)
			}
		}
	}
	req := d.build()
	windows := map[int64]int64{}
	for _, r := range req.GetReports() {
		if !r.GetUnleased() {
			t.Errorf("not marked as unleased: %v", r)
		}
		windows[r.GetWindow().GetStartUs()] += r.GetTaken()
	}
	if len(windows) != 3 {
		t.Fatalf("three windows, got %v", windows)
	}
	for start, n := range windows {
		if n != 5 {
			t.Errorf("window %s is charged %d, want its own 5", time.UnixMicro(start).UTC(), n)
		}
	}
}

func TestALeftoverThatServesNobodyGoesBackWithTheAsk(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.cap = 10
	d.warm(exports, 1)
	for d.key(exports).left(d.now) > 3 {
		d.take(exports, 1)
	}
	d.key(exports).some().ask = nil // no prefetch is on its way
	var got *Outcome
	d.core.Want(d.now, &Waiter{Key: exports, Cost: 9, Done: func(o Outcome) { got = &o }})
	d.settle()
	if got == nil || !got.Allowed {
		t.Fatalf("9 of L = 10 with 3 in hand: the 3 count against L until they are back: %+v", got)
	}
}

func TestARenewalMakesRoomForAWholeLease(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.cap = 10
	d.warm(exports, 1)
	first := d.key(exports).held()[0]
	d.key(exports).demand = demand{rate: -40, at: d.now} // busy, until lately
	for d.key(exports).held()[0] == first {
		d.advance(5 * time.Millisecond)
		d.settle()
	}
	if got := d.key(exports).left(d.now); got < 8 {
		t.Errorf("%d units after the renewal: what the old lease held was in the way of a new one of 10", got)
	}
}

// spendOnce carries one Spend to a ledger that counts what is out, and its answer back.
func (d *driver) spendOnce() {
	req := d.core.BuildSpend(d.now, time.Second)
	if req == nil {
		return
	}
	reply := &pb.SpendReply{LedgerNowUs: d.ledgerNow().UnixMicro()}
	for _, it := range req.GetItems() {
		settled, out := d.used()
		dec := &pb.Decision{GrantId: it.GetSpendId(), Generation: d.generation, Window: d.window, Reason: string(quota.LeasedOut)}
		if settled+out+it.GetCost() <= d.limit {
			dec.Amount, dec.Reason = it.GetCost(), ""
		}
		reply.Decisions = append(reply.Decisions, dec)
	}
	d.core.SpendDone(d.now, d.now, reply)
}

func TestASpendWaitsForWhatAnAskInFlightBrings(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.limit, d.cap = 10, 1
	d.settle()
	d.take(exports, 1)
	d.sync() // the first lease: one unit, which the caller has at once
	d.take(exports, 1)
	next := d.build() // an ask for one more is on its way
	if len(next.GetAsks()) != 1 {
		t.Fatal("no ask for the next unit")
	}
	var got *Outcome
	d.core.Want(d.now, &Waiter{Key: exports, Cost: 8, Done: func(o Outcome) { got = &o }})
	reply := d.answer(next) // the ledger grants the unit, then decides on the spend
	d.limit = 9             // and now it is short of the unit that it has just leased out
	d.spendOnce()
	d.limit = 10
	d.core.SyncDone(d.now, reply)
	for range 10 {
		d.spendOnce()
		d.sync()
	}
	if got == nil || !got.Allowed {
		t.Fatalf("8 of 8 units are this tenant's to use: %+v", got)
	}
}

func TestARefusedSpendChargesNothingItsCallerDoesNotGet(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.cap = 5
	d.warm(exports, 1)
	for d.key(exports).left(d.now) > 0 {
		d.take(exports, 1)
	}
	d.settle() // the next lease is in hand
	k := d.key(exports)
	var got *Outcome
	d.core.Want(d.now, &Waiter{Key: exports, Cost: 6, Done: func(o Outcome) { got = &o }})
	before := k.total()
	req := d.core.BuildSpend(d.now, time.Second)
	if len(req.GetItems()) != 1 {
		t.Fatalf("a cost above L is spent: %v", req)
	}
	// A larger lease comes before the answer, which is a refusal.
	big := leaseOf(50, d.now+time.Second)
	big.window = d.window
	k.moveOut()
	k.hold(append(slices.Clone(k.held()), big))
	d.core.SpendDone(d.now, d.now, &pb.SpendReply{LedgerNowUs: d.ledgerNow().UnixMicro(), Decisions: []*pb.Decision{
		{GrantId: req.GetItems()[0].GetSpendId(), Fault: &pb.Fault{Code: "too_old", Field: "id"}},
	}})
	if got == nil {
		t.Fatal("not answered")
	}
	if charged := k.total() - before; got.Allowed != (charged == 6) {
		t.Fatalf("told %+v, charged %d", got.Taken, charged)
	}
}
