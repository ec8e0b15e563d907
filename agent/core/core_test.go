package core

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// warm brings the first lease of a key in.
func (d *driver) warm(key quota.Key, cost int64) {
	d.t.Helper()
	d.settle()
	if got, _ := d.take(key, cost); got != nil && !got.Allowed {
		d.t.Fatalf("first take: %+v", *got)
	}
	d.settle()
	if d.key(key).left(d.now) == 0 {
		d.t.Fatal("no lease came")
	}
}

func TestAColdKeyIsServedByTheGrantItWaitsFor(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.settle()
	var got []Outcome
	for range 3 {
		w := &Waiter{Key: exports, Cost: 2, Done: func(o Outcome) { got = append(got, o) }}
		d.core.Want(d.now, w)
	}
	if len(got) != 0 {
		t.Fatalf("answered before any lease came: %+v", got)
	}
	req := d.sync()
	if len(req.GetAsks()) != 1 || req.GetAsks()[0].GetNeed() != 2 || req.GetAsks()[0].GetWant() < 6 {
		t.Fatalf("one ask for all three callers wanted, got %v", req.GetAsks())
	}
	if len(got) != 3 || !got[0].Allowed || !got[1].Allowed || !got[2].Allowed {
		t.Fatalf("woken by the grant: %+v", got)
	}
	if got[0].Limit != 1000 || got[0].Version != 7 {
		t.Fatalf("the answer names limit and policy version: %+v", got[0])
	}
}

func TestR2_3LocalSpendNeedsNoRoundTrip(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.warm(exports, 1)
	k := d.key(exports)
	held := k.left(d.now)
	newest := k.held()[0]
	asked := 0
	for k.left(d.now) > 0 {
		before := k.left(d.now)
		got, _ := d.take(exports, 1)
		if got == nil || !got.Allowed {
			t.Fatalf("units in hand are spent at once: %+v", got)
		}
		if k.ask != nil && asked == 0 {
			asked = int(before)
		}
	}
	if int64(asked-1) != newest.low.Load() || newest.low.Load() < held/5-1 {
		t.Fatalf("prefetch at the watermark %d of %d, asked with %d left", newest.low.Load(), held, asked)
	}
	if got, _ := d.take(exports, 1); got != nil {
		t.Fatalf("at 0 no new work starts: %+v", *got)
	}
}

func TestF7WatermarkStorm(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.warm(exports, 1)
	k := d.key(exports)
	for k.left(d.now) > k.held()[0].low.Load() {
		d.take(exports, 1)
	}
	lows := 0
	for range 5 {
		if got, _ := d.take(exports, 1); got != nil && got.Low {
			lows++
		}
	}
	if req := d.build(); len(req.GetAsks()) != 1 || lows != 0 {
		t.Fatalf("at most one prefetch in flight: %d asks, %d more signals", len(req.GetAsks()), lows)
	}
	if d.build() != nil {
		t.Fatal("a second Sync while one is in flight")
	}
}

func TestD1LostReply(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.settle()
	d.take(exports, 1)
	first := proto.CloneOf(d.build())
	d.answer(first) // committed, and its reply is lost
	d.advance(100 * time.Millisecond)
	d.core.SyncDone(d.now, nil)
	d.advance(time.Second)
	again := d.build()
	if len(again.GetAsks()) != 1 || !proto.Equal(first.GetAsks()[0], again.GetAsks()[0]) {
		t.Fatalf("the ask is repeated byte for byte: %v, then %v", first.GetAsks(), again.GetAsks())
	}
	d.core.SyncDone(d.now, d.answer(again))
	if len(d.grants) != 1 {
		t.Fatalf("one grant, got %d", len(d.grants))
	}
	// The deadline still counts from the first send.
	if l := d.key(exports).held()[0]; l.deadline() >= d.now+9*time.Second {
		t.Fatalf("the lease ends a ttl after the first send, got %s after now", l.deadline()-d.now)
	}
}

func TestC4ServerAhead(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.warm(exports, 1)
	d.take(exports, 1)
	for _, g := range d.grants { // the ledger closed it
		g.final = true
	}
	d.advance(7 * time.Second)
	d.settle()
	if left := d.key(exports).left(d.now); left != 0 {
		t.Fatalf("a lease that the ledger closed is dropped, %d still to be spent", left)
	}
	d.take(exports, 1)
	asks := 0
	for range 10 {
		if req := d.sync(); req != nil {
			asks += len(req.GetAsks())
		}
	}
	if asks != 1 || d.key(exports).left(d.now) == 0 {
		t.Fatalf("asked anew %d times, want once and a new lease", asks)
	}
}

func TestC2SuspendEndsLeases(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.warm(exports, 1)
	d.now += 600 * time.Second // the machine slept: boot time went on
	if got, w := d.take(exports, 1); got != nil || w == nil {
		t.Fatalf("the old lease is dead: %+v", got)
	}
	d.settle()
	var taken int64
	for _, g := range d.grants {
		taken += g.taken
	}
	if len(d.grants) != 2 || d.key(exports).left(d.now) == 0 {
		t.Fatalf("freshly leased: %d grants", len(d.grants))
	}
}

func TestD6Sigterm(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.warm(exports, 1)
	for range 36 {
		if d.key(exports).left(d.now) == 0 {
			d.settle()
		}
		if got, _ := d.take(exports, 1); got == nil {
			d.settle()
		}
	}
	spent := d.key(exports).total()
	ids := map[ID]bool{}
	for id := range d.grants {
		ids[id] = true
	}
	d.core.Stop(d.now)
	if got, _ := d.take(exports, 1); got == nil || !got.Unavailable {
		t.Fatalf("nothing starts after the stop: %+v", got)
	}
	for range 3 { // the control plane is down for a while
		if d.build() != nil {
			d.core.SyncDone(d.now, nil)
		}
		d.advance(time.Second)
	}
	if !d.core.Owes() {
		t.Fatal("unreported units are owed until the ledger has them")
	}
	d.advance(3 * time.Second)
	d.settle()
	settled, out := d.used()
	if settled != spent || out != 0 || d.core.Owes() {
		t.Fatalf("reported %d of %d, %d still out, owes %v", settled, spent, out, d.core.Owes())
	}
	for id, g := range d.grants {
		if !ids[id] && g.taken > 0 {
			t.Errorf("reported under another id: %s", id)
		}
	}
}

func TestD7ADenialDropsNoPendingUse(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.limit = 25
	d.warm(exports, 1)
	var got *Outcome
	for range 60 {
		if got, _ = d.take(exports, 1); got == nil {
			d.settle()
		} else if got.Denied {
			break
		}
	}
	if got == nil || !got.Denied || got.Reason != quota.Exhausted {
		t.Fatalf("spent: %+v", got)
	}
	d.advance(7 * time.Second)
	d.settle()
	if settled, _ := d.used(); settled != 25 {
		t.Fatalf("all 25 used units are reported, got %d", settled)
	}
}

func TestW3ADenialGoesWhenTheAccountGrows(t *testing.T) {
	t.Parallel()
	for name, tell := range map[string]func(*driver){
		"notice": func(d *driver) {
			d.core.Notice(d.now, &pb.Notice{Key: wireKey(exports), Generation: d.generation})
		},
		"next Sync within a ttl": func(d *driver) { d.advance(7 * time.Second); d.settle() },
	} {
		d := newDriver(t)
		d.limit = 10
		d.settle()
		for range 20 {
			if got, _ := d.take(exports, 1); got == nil {
				d.settle()
			}
		}
		if got, _ := d.take(exports, 1); got == nil || got.Reason != quota.Exhausted || got.RetryIn <= 0 || got.RetryIn > 12*time.Hour {
			t.Fatalf("%s: denied until the window ends: %+v", name, got)
		}
		d.limit, d.generation = 20, 2
		tell(d)
		d.take(exports, 1)
		d.settle()
		if got, _ := d.take(exports, 1); got == nil || !got.Allowed {
			t.Errorf("%s: the cached denial goes: %+v", name, got)
		}
	}
}

func TestO4OutageIsNot429(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.warm(exports, 1)
	for d.key(exports).left(d.now) > 0 {
		d.take(exports, 1)
	}
	if d.build() != nil {
		d.core.SyncDone(d.now, nil)
	}
	got, _ := d.take(exports, 1)
	if got == nil || !got.Unavailable || got.Denied || got.Allowed {
		t.Fatalf("no units and no control plane is an outage: %+v", got)
	}
	// The lease that is still good goes on being spent.
	d = newDriver(t)
	d.warm(exports, 1)
	d.advance(7 * time.Second)
	if d.build() != nil {
		d.core.SyncDone(d.now, nil)
	}
	if got, _ := d.take(exports, 1); got == nil || !got.Allowed {
		t.Fatalf("units in hand outlast the contact: %+v", got)
	}
}

func TestA5PeekTellsTheTruthAndChargesNothing(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.settle()
	var got *Outcome
	peek := func() {
		got = nil
		d.core.Want(d.now, &Waiter{Key: exports, Done: func(o Outcome) { got = &o }})
		d.settle()
	}
	peek()
	if got == nil || !got.Allowed || got.Remaining != 1000 || len(d.grants) != 0 {
		t.Fatalf("a full key: %+v, %d grants", got, len(d.grants))
	}
	d.limit = 5
	for range 8 {
		if o, _ := d.take(exports, 1); o == nil {
			d.settle()
		}
	}
	o, _ := d.take(exports, 0)
	if o == nil || o.Allowed || o.Reason != quota.Exhausted || o.Remaining != 0 {
		t.Fatalf("an empty key: %+v", o)
	}
}

func TestD2AClonesUseIsUnleased(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.warm(exports, 1)
	d.take(exports, 3)
	was := d.core.Incarnation()
	d.advance(7 * time.Second)
	if d.build() == nil {
		t.Fatal("no heartbeat")
	}
	d.core.SyncDone(d.now, &pb.SyncReply{NewIncarnation: true, LedgerNowUs: d.ledgerNow().UnixMicro()})
	if d.core.Incarnation() == was {
		t.Fatal("no new incarnation")
	}
	if left := d.key(exports).left(d.now); left != 0 {
		t.Fatalf("%d units of the original's lease can still be spent", left)
	}
	req := d.build()
	if len(req.GetHello().GetToken()) != 0 {
		t.Fatal("a new incarnation has no token")
	}
	var unleased int64
	for _, r := range req.GetReports() {
		if r.GetUnleased() {
			unleased += r.GetTaken()
		}
	}
	if unleased != 4 {
		t.Fatalf("what the copy spent and had not reported is unleased use: %d, want 4", unleased)
	}
	// Told so outside an answer to its Sync, it would have obeyed nothing.
	now := d.core.Incarnation()
	d.core.SyncDone(d.now, d.answer(req))
	d.core.SyncDone(d.now, &pb.SyncReply{NewIncarnation: true})
	if d.core.Incarnation() != now {
		t.Fatal("obeyed a reply to no Sync in flight")
	}
}

func TestASlowReplyDoesNotBlurTheLedgersClock(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.rtt = 2 * time.Millisecond
	d.settle()
	reply := func(slow, answeredAfter, ledgerIsAhead time.Duration) time.Duration {
		d.advance(13 * time.Second)
		if d.build() == nil {
			t.Fatal("no heartbeat")
		}
		d.now += answeredAfter
		r := &pb.SyncReply{Token: []byte("t"), LedgerNowUs: d.ledgerNow().Add(ledgerIsAhead).UnixMicro()}
		d.now += slow - answeredAfter
		d.core.SyncDone(d.now, r)
		return d.core.LedgerTime(d.now).Sub(d.ledgerNow())
	}
	// The ledger answered at once, and the answer took 900 ms: half of that would be an error.
	if off := reply(900*time.Millisecond, 0, 0); off.Abs() > 10*time.Millisecond {
		t.Errorf("off by %s after a slow reply", off)
	}
	// A clock that was set is followed at once, however slow the reply that tells it.
	if off := reply(100*time.Millisecond, 50*time.Millisecond, time.Hour); (off - time.Hour).Abs() > 100*time.Millisecond {
		t.Errorf("an hour ahead is taken for %s", off)
	}
}
