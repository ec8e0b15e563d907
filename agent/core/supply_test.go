package core

import (
	"math"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// empty spends what is in hand.
func (d *driver) empty() {
	for k := d.key(exports); k.left(d.now) > 0; {
		d.take(exports, 1)
	}
}

// outwait lets the moment pass in which units that were idle elsewhere may still come back.
func (d *driver) outwait() {
	if denial := d.key(exports).denial.Load(); denial != nil {
		d.advance(max(0, denial.settles-d.now))
	}
}

func TestNearTheEndUnitsAreFetchedForCallersOnly(t *testing.T) {
	t.Parallel()
	for limit, ahead := range map[int64]bool{100_000: true, 60: false} {
		d := newDriver(t)
		d.limit, d.cap = limit, 10
		d.warm(exports, 1)
		d.empty()
		if asked := d.key(exports).ask != nil; asked != ahead {
			t.Errorf("limit %d: fetched ahead: %v, want %v", limit, asked, ahead)
		}
		d.take(exports, 1)
		if d.key(exports).ask == nil {
			t.Errorf("limit %d: a caller waits, and nothing is asked for", limit)
		}
	}
}

func TestADrainedAccountCostsNoRoundTrip(t *testing.T) {
	t.Parallel()
	for name, tell := range map[string]func(*driver){
		"by a notice": func(d *driver) {
			d.core.Notice(d.now, &pb.Notice{Key: wireKey(exports), Generation: d.generation, Window: d.window, Drained: true})
		},
		"by the answer to the last ask": func(d *driver) {
			d.take(exports, 1)
			reply := d.answer(d.build())
			reply.Decisions[0].Last = true
			d.core.SyncDone(d.now, reply)
			d.empty()
		},
	} {
		d := newDriver(t)
		d.limit, d.cap = 1000, 10
		d.warm(exports, 1)
		d.empty()
		d.settle()
		d.empty()
		tell(d)
		d.settle()
		d.empty()
		d.outwait()
		got, _ := d.take(exports, 1)
		if got == nil || got.Reason != quota.LeasedOut || got.RetryIn <= 0 {
			t.Fatalf("%s: %+v", name, got)
		}
		// Until the account grows,
		d.generation++
		d.core.Notice(d.now, &pb.Notice{Key: wireKey(exports), Generation: d.generation, Window: d.window})
		if got, _ = d.take(exports, 1); got != nil {
			t.Errorf("%s: the account grew, and a caller is told %+v", name, got)
		}
		d.settle()
		d.empty()
		// or for a ttl, should that news be lost.
		d.core.Notice(d.now, &pb.Notice{Key: wireKey(exports), Generation: d.generation, Window: d.window, Drained: true})
		d.empty()
		d.outwait()
		if got, _ = d.take(exports, 1); got == nil || !got.Denied {
			t.Fatalf("%s: drained again: %+v", name, got)
		}
		d.now += 10 * time.Second
		if got, _ = d.take(exports, 1); got != nil && got.Denied {
			t.Errorf("%s: a ttl later: %+v", name, got)
		}
	}
}

func TestWhatThisAgentHoldsInPiecesIsNotLeasedOut(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.limit, d.cap = 1000, 24
	d.warm(exports, 1)
	k := d.key(exports)
	k.held()[0].giveBack(5)
	k.held()[0].renewed = true // its successor is fetched
	d.core.tend(d.now, k)
	d.settle()
	for _, l := range k.held() {
		l.giveBack(5)
	}
	d.core.mark(k)
	d.settle()
	pieces := k.left(d.now)
	largest := int64(0)
	for _, l := range k.held() {
		largest = max(largest, l.left())
	}
	cost := largest + 1
	if pieces < cost {
		t.Fatalf("%d in hand, the largest piece is %d", pieces, largest)
	}
	d.core.Notice(d.now, &pb.Notice{Key: wireKey(exports), Generation: d.generation, Window: d.window, Drained: true})
	d.outwait()
	if got := k.Take(d.now, pieces+1); !got.Denied {
		t.Fatalf("more than is in hand: %+v", got)
	}
	var got *Outcome
	d.core.Want(d.now, &Waiter{Key: exports, Cost: cost, Done: func(o Outcome) { got = &o }})
	d.settle()
	if got == nil || !got.Allowed {
		t.Fatalf("%d of the %d in hand: %+v", cost, pieces, got)
	}
}

func TestADrainedAccountThatWasUsedUpIsExhausted(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.limit = 10
	d.warm(exports, 1)
	d.core.Notice(d.now, &pb.Notice{Key: wireKey(exports), Generation: d.generation, Window: d.window, Drained: true})
	d.empty()
	d.outwait()
	if got, _ := d.take(exports, 1); got == nil || got.Reason != quota.LeasedOut {
		t.Fatalf("what was leased may come back: %+v", got)
	}
	d.advance(7 * time.Second) // a heartbeat reports that it was used
	d.settle()
	if got, _ := d.take(exports, 1); got == nil || got.Reason != quota.Exhausted || got.RetryIn < 11*time.Hour {
		t.Fatalf("all is used, until the window ends: %+v", got)
	}
}

func TestOldNewsOfAnEmptyAccountIsNotBelieved(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.warm(exports, 1)
	d.empty()
	d.generation = 5
	d.settle()
	d.empty()
	for name, n := range map[string]*pb.Notice{
		"an older generation": {Key: wireKey(exports), Generation: 4, Window: d.window, Drained: true},
		"another window":      {Key: wireKey(exports), Generation: 9, Window: &pb.Window{StartUs: 1, EndUs: 2}, Drained: true},
	} {
		d.core.Notice(d.now, n)
		if d.key(exports).denial.Load() != nil {
			t.Errorf("%s is believed", name)
		}
	}
}

func TestLeasedOutIsRetriedEverMoreRarely(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.warm(exports, 1)
	d.empty()
	d.settle()
	d.empty()
	d.settle()
	d.empty()
	d.reason = string(quota.LeasedOut)
	k := d.key(exports)
	var asked []Instant
	k.denial.Store(nil)
	for end := d.now + time.Minute; d.now < end; d.advance(20 * time.Millisecond) {
		if got, w := d.take(exports, 1); got == nil {
			d.core.syncAt = d.now + time.Hour
			if req := d.sync(); len(req.GetAsks()) > 0 {
				asked = append(asked, d.now)
			}
			d.core.Abandon(w)
		}
	}
	var waits []time.Duration
	for i := range len(asked) - 1 {
		waits = append(waits, asked[i+1]-asked[i])
	}
	want := []time.Duration{1250 * time.Millisecond, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 10 * time.Second}
	if len(waits) < len(want) {
		t.Fatalf("asked again after %v", waits)
	}
	for i, w := range want {
		if waits[i] < w*3/4 || waits[i] > w*5/4+50*time.Millisecond {
			t.Errorf("wait %d is %s, want about %s (ttl/8, doubling to a ttl): %v", i, waits[i], w, waits)
		}
	}
	// The first news of growth ends it.
	d.reason, d.generation = "", d.generation+1
	d.core.Notice(d.now, &pb.Notice{Key: wireKey(exports), Generation: d.generation, Window: d.window})
	d.take(exports, 1)
	d.settle()
	if got, _ := d.take(exports, 1); got == nil || !got.Allowed {
		t.Errorf("the account grew: %+v", got)
	}
}

func TestIdleUnitsGoBackWhenOthersWantThem(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.limit, d.cap = 1_000_000, 100
	d.warm(exports, 1)
	d.empty()
	d.settle()
	k := d.key(exports)
	k.demand = demand{rate: -100, at: d.now, total: k.total()}
	before := k.left(d.now)
	d.core.Notice(d.now, &pb.Notice{Key: wireKey(exports), Generation: d.generation, Window: d.window, Wanted: true})
	keep := k.left(d.now)
	if keep >= before || keep < k.demand.over(2*d.rtt) || keep > k.demand.over(2*d.core.rtt)+2 {
		t.Fatalf("kept %d of %d, used within two round trips are %d", keep, before, k.demand.over(2*d.core.rtt))
	}
	req := d.sync()
	if len(req.GetReports()) != 1 || req.GetReports()[0].GetReturned() != before-keep {
		t.Fatalf("the others are returned at once: %v", req)
	}
	d.empty()
	if k.ask != nil {
		t.Error("what was given is asked for anew, ahead of any caller")
	}
	d.take(exports, 1)
	if k.ask == nil {
		t.Error("a caller in wait is served all the same")
	}
}

func TestALeaseIsAnEconomicOrder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		perSecond float64
		cap, want int64
	}{
		{5, 250, 36}, // sqrt(2 * 5 * 0.5 * 250) = 35.4
		{50, 250, 112},
		{500, 250, 354},                   // and the ledger cuts that to L
		{0.1, 250, 3},                     // used in half a ttl; more would expire
		{5, 40_000, 150},                  // so would more than 150 here
		{1e6, 100, 40_000},                // what is used while the next lease is fetched, at least
		{1000, math.MaxInt64 - 1, 30_000}, // no cap, no reason to save
	} {
		dim := hardDay()
		dim.TtlUs = time.Minute.Microseconds()
		d := newDriver(t, dim)
		d.limit, d.cap = math.MaxInt64-1, c.cap
		d.settle()
		d.take(exports, 0)
		d.settle()
		k := d.key(exports)
		k.demand = demand{rate: -c.perSecond}
		d.core.rtt = 20 * time.Millisecond
		if got := d.core.order(k, k.most()); got != c.want {
			t.Errorf("%g a second under a cap of %d: an order of %d, want %d", c.perSecond, c.cap, got, c.want)
		}
	}
	// It is the cheapest: dearer by an eighth or less anywhere near, and more so further off.
	cost := func(q float64) float64 { return 5/q + q/(2*250*idlePerTrip.Seconds()) }
	for _, q := range []float64{9, 18, 70, 140} {
		if cost(q) <= cost(36) {
			t.Errorf("an order of %g costs %g, one of 36 costs %g", q, cost(q), cost(36))
		}
	}
}
