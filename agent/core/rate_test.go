package core

import (
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
	"github.com/quotalease/quotalease/ledger/tokenbucket"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

var calls = quota.Key{Tenant: "acme", Dimension: "api_calls"}

// rated is a driver with a token bucket for a ledger: lumps of at most one unit, so that a
// lone agent feels the rate.
type rated struct {
	*driver
	bucket tokenbucket.Bucket
}

func newRated(t *testing.T, burst, perSecond int64) *rated {
	d := newDriver(t, &pb.Dimension{
		Name: "api_calls", Kind: "rate", Class: "bounded", Limit: burst, TtlUs: (10 * time.Second).Microseconds(),
		Rate: &pb.Rate{Units: perSecond, PerUs: time.Second.Microseconds()}, LowWatermarkPpm: 200_000,
		Outage: &pb.Outage{Mode: "closed", AfterUs: 10_000_000}, Cold: &pb.Cold{WaitUs: 10_000, Then: "deny"},
	})
	b, err := tokenbucket.New(tokenbucket.Config{Rate: quota.Units(perSecond), Per: time.Second, Burst: quota.Units(burst)}, d.now, true)
	if err != nil {
		t.Fatal(err)
	}
	return &rated{driver: d, bucket: b}
}

// syncRate carries one Sync, which takes no time, to the bucket.
func (d *rated) syncRate() bool {
	d.t.Helper()
	req := d.build()
	if req == nil {
		return false
	}
	reply := &pb.SyncReply{Token: []byte("t"), LedgerNowUs: d.ledgerNow().UnixMicro()}
	if req.GetHello().GetPolicyVersion() == 0 {
		reply.Catalogue = d.catalogue
	}
	for _, r := range req.GetReports() {
		reply.Results = append(reply.Results, &pb.ReportResult{GrantId: r.GetGrantId(), State: pb.GrantState_GRANT_STATE_FINAL})
	}
	state := &pb.KeyState{Key: wireKey(calls), Window: &pb.Window{}, Generation: 1, Limit: 3, LeaseCap: 1, PolicyVersion: 7}
	for _, a := range req.GetAsks() {
		got, err := d.bucket.Take(d.now, quota.Units(a.GetNeed()))
		if err != nil {
			d.t.Fatal(err)
		}
		dec := &pb.Decision{GrantId: a.GetGrantId(), Generation: 1, Window: &pb.Window{}, State: pb.GrantState_GRANT_STATE_LIVE, TtlUs: 10_000_000}
		if dec.Amount = a.GetNeed(); !got.Allowed {
			dec.Amount, dec.State, dec.Reason = 0, pb.GrantState_GRANT_STATE_DENIED, string(quota.Exhausted)
			dec.RetryInUs = (got.RetryIn + time.Microsecond - 1).Microseconds()
		}
		reply.Decisions = append(reply.Decisions, dec)
	}
	look, _ := d.bucket.Take(d.now, 0)
	if state.Headroom = int64(look.Left); look.Left < 1 {
		state.Reason, state.RetryInUs = string(quota.Exhausted), 1
	}
	for range req.GetKeys() {
		reply.Keys = append(reply.Keys, state)
	}
	if len(req.GetAsks()) > 0 {
		reply.Keys = []*pb.KeyState{state}
	}
	d.core.SyncDone(d.now, reply)
	return true
}

// ask is one caller, answered by the ledger if need be.
func (d *rated) ask() Outcome {
	d.t.Helper()
	var got *Outcome
	if k := d.core.Table.Find(calls); k != nil {
		if t := k.Take(d.now, 1); t.Allowed || t.Denied {
			if t.Low {
				d.core.Low(d.now, k)
			}
			return Outcome{Taken: t}
		}
	}
	d.core.Want(d.now, &Waiter{Key: calls, Cost: 1, Done: func(o Outcome) { got = &o }})
	for got == nil && d.syncRate() {
		continue
	}
	if got == nil {
		d.t.Fatal("no answer")
	}
	return *got
}

func TestH1ALoneCallerWhoWaitsAsToldSucceeds(t *testing.T) {
	t.Parallel()
	d := newRated(t, 3, 1)
	d.syncRate()
	for i := range 3 {
		if got := d.ask(); !got.Allowed {
			t.Fatalf("take %d of a burst of 3: %+v", i, got)
		}
	}
	d.now += 300 * time.Millisecond
	for range 5 {
		got := d.ask()
		if !got.Denied || got.Reason != quota.Exhausted || got.RetryIn <= 0 || got.RetryIn > time.Second || got.Reset != 0 || got.Window != 0 {
			t.Fatalf("an empty bucket: %+v", got)
		}
		d.now += got.RetryIn - 1
		if early := d.ask(); early.Allowed {
			t.Fatalf("allowed %d ns early", 1)
		}
		d.now++
		if got = d.ask(); !got.Allowed {
			t.Fatalf("a lone caller who waits exactly as told: %+v", got)
		}
	}
}

func TestF4DeniedCallersCostNoThroughput(t *testing.T) {
	t.Parallel()
	d := newRated(t, 5, 5)
	d.syncRate()
	allowed := 0
	for i := range 600 { // 10 a second for a minute
		d.now = time.Hour + time.Duration(i)*100*time.Millisecond
		d.core.Tick(d.now)
		if d.ask().Allowed {
			allowed++
		}
	}
	if allowed < 5*60 || allowed > 5*60+5 {
		t.Fatalf("%d of 600 pass in a minute of 5 a second and a burst of 5", allowed)
	}
}

// dripping gives the key a trickle of 10 units: nothing for 100 ms, then one every 100 ms.
func dripping(t *testing.T) (*rated, *Key, Instant) {
	d := newRated(t, 100, 10)
	d.catalogue.Dimensions[0].Cold.WaitUs = 250_000
	d.syncRate()
	var got *Outcome
	d.core.Want(d.now, &Waiter{Key: calls, Cost: 1, Done: func(o Outcome) { got = &o }})
	req := d.build()
	d.core.SyncDone(d.now, &pb.SyncReply{Token: []byte("t"), LedgerNowUs: d.ledgerNow().UnixMicro(),
		Keys: []*pb.KeyState{{Key: wireKey(calls), Window: &pb.Window{}, Generation: 1, Limit: 100, LeaseCap: 50, PolicyVersion: 7}},
		Decisions: []*pb.Decision{{GrantId: req.GetAsks()[0].GetGrantId(), Amount: 10, TtlUs: 10_000_000, Generation: 1,
			State: pb.GrantState_GRANT_STATE_LIVE, DelayUs: 100_000, DripUs: 1_000_000}}})
	k := d.core.Table.Find(calls)
	if got != nil || k.left(d.now) != 10 {
		t.Fatalf("nothing is released yet: %+v, %d in hand", got, k.left(d.now))
	}
	return d, k, d.now
}

func TestATrickleReleasesItsUnitsEvenly(t *testing.T) {
	t.Parallel()
	d, k, began := dripping(t)
	for _, w := range k.waiters {
		d.core.Abandon(w)
	}
	taken := int64(0)
	for at := time.Duration(0); at <= 1200*time.Millisecond; at += time.Millisecond {
		for k.Take(began+at, 1).Allowed {
			taken++
		}
		if want := int64(min(max(at-100*time.Millisecond, 0), time.Second) / (100 * time.Millisecond)); taken != want {
			t.Fatalf("after %s: %d units, want %d", at, taken, want)
		}
	}
}

func TestACallerOfATrickleIsServedOrToldWhen(t *testing.T) {
	t.Parallel()
	d, k, began := dripping(t)
	if got := k.Take(began, 3); !got.Denied || got.Reason != quota.Exhausted || got.RetryIn != 400*time.Millisecond {
		t.Fatalf("3 units are released after 400 ms: %+v", got)
	}
	// The caller who came first waits for the first unit, and no other ask is made for it.
	if k.ask != nil {
		t.Error("asked for what drips already")
	}
	first := k.waiters[0]
	var got *Outcome
	first.Done = func(o Outcome) { got = &o }
	d.now = began + 200*time.Millisecond - 1
	if d.core.Tick(d.now); got != nil {
		t.Fatalf("served early: %+v", got)
	}
	if at, ok := d.core.NextTick(); !ok || at > began+200*time.Millisecond {
		t.Fatalf("looks again at %s", at-began)
	}
	d.now++
	if d.core.Tick(d.now); got == nil || !got.Allowed {
		t.Fatalf("served when the unit is there: %+v", got)
	}
	// Whoever cannot wait that long is told how long it is.
	d.now = began + 250*time.Millisecond
	w := &Waiter{Key: calls, Cost: 1, Done: func(Outcome) {}}
	k.some().waiters = append(k.waiters, w)
	w.key = k
	if o, mine := d.core.GiveUp(d.now, w); !mine || !o.Denied || o.RetryIn != 50*time.Millisecond {
		t.Fatalf("gave up: %+v", o)
	}
}

func TestWhatIsGivenBackOfATrickleIsNotReleased(t *testing.T) {
	t.Parallel()
	_, k, began := dripping(t)
	k.keepOnly(began, 4) // 6 of the 10 go back
	taken := 0
	for at := time.Duration(0); at <= 2*time.Second; at += 10 * time.Millisecond {
		for k.Take(began+at, 1).Allowed {
			taken++
		}
		if most := int(max(at-100*time.Millisecond, 0) / (100 * time.Millisecond)); taken > most {
			t.Fatalf("%d units after %s", taken, at)
		}
	}
	if taken != 4 {
		t.Fatalf("%d units of the 4 kept", taken)
	}
}
