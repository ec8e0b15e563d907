package core

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

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
	for range 24 { // the Spend hangs, and so do the Syncs
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
		for range 8 {
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

func TestAKeyForgottenWhileItsSyncIsInFlight(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.settle()
	_, w := d.take(exports, 1)
	if len(d.build().GetAsks()) != 1 {
		t.Fatal("no ask")
	}
	d.core.Abandon(w)
	for range 30 { // the Sync hangs; the ask is withdrawn, the key is idle
		d.advance(time.Second)
	}
	d.core.SyncDone(d.now, nil)
	d.advance(3 * time.Second)
	d.settle()
	d.take(exports, 1)
	d.settle()
	if got, _ := d.take(exports, 1); got == nil || !got.Allowed || len(d.core.keys) != 1 {
		t.Fatalf("the key comes back: %+v, %d keys", got, len(d.core.keys))
	}
}

func TestW4ARevokedLeaseIsNotSpent(t *testing.T) {
	t.Parallel()
	for name, revoke := range map[string]func(*driver){
		"told by a notice": func(d *driver) {
			d.core.Notice(d.now, &pb.Notice{Key: wireKey(exports), RevokedGrant: d.key(exports).held()[0].id.Bytes()})
		},
		"told by the answer to a report": func(d *driver) {
			d.advance(7 * time.Second)
			req := d.build()
			reply := d.answer(req)
			reply.Results[0].Revoked = true
			d.core.SyncDone(d.now, reply)
		},
		"told with the grant itself": func(d *driver) {
			d.core.Notice(d.now, &pb.Notice{Key: wireKey(exports), RevokedGrant: d.key(exports).held()[0].id.Bytes()})
			d.settle()
			_, w := d.take(exports, 1)
			req := d.build()
			reply := d.answer(req)
			reply.Decisions[0].Revoked = true
			d.core.SyncDone(d.now, reply)
			d.core.Abandon(w)
		},
	} {
		d := newDriver(t)
		d.warm(exports, 1)
		k := d.key(exports)
		before := k.total()
		revoke(d)
		if got := k.Take(d.now, 1); got.Allowed || k.left(d.now) != 0 {
			t.Errorf("%s: still spent: %+v, %d left", name, got, k.left(d.now))
		}
		d.settle()
		if settled, out := d.used(); settled != before || out != 0 {
			t.Errorf("%s: %d of %d reported, %d out", name, settled, before, out)
		}
	}
}

func TestStopAnswersEveryCallerOnce(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	answers := map[*Waiter]int{}
	want := func(key quota.Key, cost int64) {
		w := &Waiter{Key: key, Cost: cost}
		w.Done = func(Outcome) { answers[w]++ }
		answers[w] = 0
		d.core.Want(d.now, w)
	}
	for i := range 5 {
		want(tenant(i), 1) // before the first catalogue
	}
	d.settle()
	for i := range 5 {
		want(tenant(i+5), 1)           // for a lease
		want(tenant(i), d.cap+1)       // in the exact lane
		want(tenant(i+5), 0)           // to peek
		d.take(tenant(i), int64(i)+50) // and some more that asks
	}
	d.core.BuildSpend(d.now, time.Second)
	req := d.build()
	want(tenant(20), 1)
	d.core.Stop(d.now)
	want(tenant(21), 1)
	d.core.SyncDone(d.now, d.answer(req))
	d.core.SpendDone(d.now, d.now, nil)
	d.advance(3 * time.Second)
	d.settle()
	for w, n := range answers {
		if n != 1 {
			t.Errorf("the caller of %d of %s got %d answers", w.Cost, w.Key, n)
		}
	}
	d.core.BuildSpend(d.now, time.Second)
	d.core.SpendDone(d.now, d.now, &pb.SpendReply{LedgerNowUs: d.ledgerNow().UnixMicro()})
	if _, out := d.used(); out != 0 || d.core.Owes() {
		t.Errorf("%d units still out, owes %v", out, d.core.Owes())
	}
}

func TestD6AStoppingAgentTriesUntilItsTimeIsOver(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.warm(exports, 1)
	d.take(exports, 1)
	d.cutOff(time.Minute) // attempts are 2 s apart by now
	d.core.Stop(d.now)
	stopped, tries := d.now, 0
	for d.now < stopped+5*time.Second {
		d.advance(10 * time.Millisecond)
		if d.build() != nil {
			d.core.SyncDone(d.now, nil)
			tries++
		}
	}
	if tries < 8 {
		t.Fatalf("%d attempts in the 5 s that a stop may take: a control plane that comes back late in them never hears what was used", tries)
	}
}

// TestSealingABucketIsOneStep holds the one promise that takes need no lock for: every unit is
// either taken or among what the seal found.
func TestSealingABucketIsOneStep(t *testing.T) {
	t.Parallel()
	for range 8 {
		sealRace(t)
	}
}

func sealRace(t *testing.T) {
	t.Helper()
	const amount = 1 << 40
	type round struct {
		bucket
		taken atomic.Int64
		found int64
	}
	rounds := make([]round, 50_000)
	var now atomic.Int64 // the round that takers take from
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for i := now.Load(); i < int64(len(rounds)); i = now.Load() {
				if _, ok := rounds[i].take(1, 0); ok {
					rounds[i].taken.Add(1)
				}
			}
		})
	}
	for i := range rounds {
		rounds[i].bucket.left.Store(amount)
		now.Store(int64(i))
		for range 20 {
			rounds[i].bucket.left.Load()
		}
		rounds[i].found, _ = rounds[i].seal()
	}
	now.Store(int64(len(rounds)))
	wg.Wait()
	for i := range rounds {
		r := &rounds[i]
		if n := r.taken.Load(); n+r.found != amount {
			t.Fatalf("%d taken and %d sealed of %d", n, r.found, int64(amount))
		}
		if _, again := r.seal(); again {
			t.Fatal("sealed twice")
		}
	}
}
