package core

import (
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// drained is the notice that nothing is left of the account.
func (d *driver) drained() *pb.Notice {
	return &pb.Notice{Key: wireKey(exports), Generation: d.generation, Window: d.window, Drained: true}
}

// spentAndDrained is an agent with nothing in hand that has just heard that nothing is left.
func spentAndDrained(t *testing.T) *driver {
	d := newDriver(t)
	d.limit, d.cap = 1000, 10
	d.warm(exports, 1)
	d.settle()
	d.core.Notice(d.now, d.drained())
	d.empty()
	return d
}

func TestUnitsThatComeBackAreForWhoWaited(t *testing.T) {
	t.Parallel()
	d := spentAndDrained(t)
	var got *Outcome
	d.core.Want(d.now, &Waiter{Key: exports, Cost: 1, Done: func(o Outcome) { got = &o }})
	if got != nil || d.key(exports).ask != nil {
		t.Fatalf("right after the account was emptied a caller is told %+v, and an ask is made: %v", got, d.key(exports).ask != nil)
	}
	d.advance(d.core.rtt) // the holders have heard, and their units are back
	d.generation++
	d.core.Notice(d.now, &pb.Notice{Key: wireKey(exports), Generation: d.generation, Window: d.window})
	d.settle()
	if got == nil || !got.Allowed {
		t.Fatalf("units came back, and the caller is told %+v", got)
	}
}

func TestNobodyWaitsForUnitsThatDoNotComeBack(t *testing.T) {
	t.Parallel()
	d := spentAndDrained(t)
	var got *Outcome
	d.core.Want(d.now, &Waiter{Key: exports, Cost: 1, Done: func(o Outcome) { got = &o }})
	d.advance(settleTrips*d.core.rtt - 1)
	if got != nil {
		t.Fatalf("there was time for news still: %+v", got)
	}
	at, ok := d.core.NextTick()
	if !ok || at != d.now+1 {
		t.Fatalf("the key is looked at again at %s, want %s", at, d.now+1)
	}
	d.advance(1)
	if got == nil || !got.Denied || got.Reason != quota.LeasedOut || got.RetryIn <= 0 {
		t.Fatalf("nothing came back: %+v", got)
	}
	// An ask in vain a while later says nothing new: callers are answered at once.
	k := d.key(exports)
	d.core.deny(d.now, k, 1, quota.LeasedOut, &pb.Decision{Window: d.window, Generation: d.generation})
	if again := k.Take(d.now, 1); !again.Denied {
		t.Errorf("denied a second time: %+v", again)
	}
	if d.key(exports).ask != nil || len(d.core.spends) > 0 {
		t.Error("to wait cost a round trip")
	}
}

func TestWhosePatienceEndsIsToldThatUnitsAreLeasedOut(t *testing.T) {
	t.Parallel()
	d := spentAndDrained(t)
	w := &Waiter{Key: exports, Cost: 1, Done: func(o Outcome) { t.Errorf("answered: %+v", o) }}
	d.core.Want(d.now, w)
	if o, mine := d.core.GiveUp(d.now, w); !mine || !o.Denied || o.Reason != quota.LeasedOut {
		t.Errorf("a caller who cannot wait is told %+v", o)
	}
	if got := d.key(exports).Take(d.now, 0); !got.Denied {
		t.Errorf("a peek waits: %+v", got)
	}
}

// However many wait, none is sent to the exact lane, which would find nothing.
func TestALongLineWaitsWithoutARoundTrip(t *testing.T) {
	t.Parallel()
	d := spentAndDrained(t)
	denied := 0
	for range 3 * d.cap {
		d.core.Want(d.now, &Waiter{Key: exports, Cost: 1, Done: func(o Outcome) { denied += int(asNumber(o.Denied)) }})
	}
	if d.core.SpendWaiting(d.now) || d.key(exports).ask != nil {
		t.Fatalf("spends: %d; asked: %v", len(d.core.spends), d.key(exports).ask != nil)
	}
	d.outwait()
	if denied != 3*int(d.cap) {
		t.Errorf("%d of %d were denied when nothing came back", denied, 3*d.cap)
	}
}

// A group of keys one of which is denied does not ask for that, whether it waits for it or for
// another one first.
func TestAGroupWaitsForUnitsToComeBackToo(t *testing.T) {
	t.Parallel()
	for _, other := range []string{"", "a_cold_one"} {
		cold := hardDay()
		cold.Name = "a_cold_one"
		d := newDriver(t, hardDay(), cold)
		d.limit, d.cap = 1000, 10
		d.warm(exports, 1)
		d.settle()
		d.core.Notice(d.now, d.drained())
		d.empty()
		takes := []DimensionCost{{Dimension: exports.Dimension, Cost: 1}}
		if other != "" {
			takes = append(takes, DimensionCost{Dimension: other, Cost: 1})
		}
		var got *Outcome
		d.core.WantAll(d.now, &Group{Tenant: exports.Tenant, Takes: takes, Done: func(o Outcome) { got = &o }})
		if got != nil || d.key(exports).ask != nil || len(d.core.spends) > 0 {
			t.Fatalf("%q: told %+v; asked: %v; spends: %d", other, got, d.key(exports).ask != nil, len(d.core.spends))
		}
		d.settle()
		d.outwait()
		if got == nil || got.Reason != quota.LeasedOut || got.Key != exports {
			t.Fatalf("%q: nothing came back: %+v", other, got)
		}
	}
}

// One by one there is nothing to be had either.
func TestAGroupInTheExactLaneIsDeniedWithoutARoundTrip(t *testing.T) {
	t.Parallel()
	d := spentAndDrained(t)
	d.core.enterLane(d.now, d.key(exports))
	var got *Outcome
	d.core.WantAll(d.now, &Group{Tenant: exports.Tenant, Takes: []DimensionCost{{Dimension: exports.Dimension, Cost: 1}}, Done: func(o Outcome) { got = &o }})
	if got == nil || got.Reason != quota.LeasedOut || d.core.SpendWaiting(d.now) {
		t.Errorf("told %+v; spends: %d", got, len(d.core.spends))
	}
}

// The agent's estimate of the ledger's clock may be a little late, so that the ledger's next window
// begins while a denial of the last one seems to hold. The lease for it is in hand: that costs no
// round trip.
func TestADenialDoesNotOutliveItsWindow(t *testing.T) {
	t.Parallel()
	d := minutes(t)
	d.warm(exports, 1)
	d.useUntil(d.at(59*time.Second), 100*time.Millisecond)
	d.useUntil(d.at(59_900*time.Millisecond), 5*time.Millisecond)
	k, c := d.key(exports), d.core
	end := c.windowEnd(d.present())
	n := d.drained()
	n.Window = d.present()
	c.Notice(d.now, n)
	d.empty()
	d.outwait()
	d.settle()
	if len(k.held()) == 0 || c.clockErr(end) <= 0 || c.clockErr(end) > c.rtt {
		t.Fatalf("%d leases for the next window in hand, a clock that is off by up to %s", len(k.held()), c.clockErr(end))
	}
	d.advance(end - c.clockErr(end) - 1 - d.now)
	if got, _ := d.take(exports, 1); got == nil || !got.Denied {
		t.Fatalf("the window surely lasts, and a caller is told %+v", got)
	}
	d.advance(1)
	var got *Outcome
	c.Want(d.now, &Waiter{Key: exports, Cost: 1, Done: func(o Outcome) { got = &o }})
	if got != nil || k.ask != nil {
		t.Fatalf("the window may have ended, and a caller is told %+v; asked: %v", got, k.ask != nil)
	}
	d.advance(end - d.now) // the denial is forgotten, the lease begins a moment later
	if k.ask != nil {
		t.Fatal("an ask for a window whose lease is in hand")
	}
	d.advance(k.held()[0].more().start - d.now)
	if got == nil || !got.Allowed {
		t.Errorf("the next window has begun: %+v", got)
	}
}

// Who asked the ledger itself is told what it said, and does not wait for what may come.
func TestTheExactLanesOwnAnswerIsNotWaitedOut(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.limit, d.cap = 1000, 10
	d.warm(exports, 1)
	d.settle()
	d.empty()
	c := d.core
	c.enterLane(d.now, d.key(exports))
	var got *Outcome
	w := &Waiter{Key: exports, Cost: 1, Done: func(o Outcome) { got = &o }, again: true}
	c.Want(d.now, w)
	req := c.BuildSpend(d.now, time.Second)
	c.SpendDone(d.now, d.now, &pb.SpendReply{LedgerNowUs: d.ledgerNow().UnixMicro(), Decisions: []*pb.Decision{{
		GrantId: req.GetItems()[0].GetSpendId(), Window: d.window, Generation: d.generation, Reason: string(quota.LeasedOut)}}})
	if got == nil || !got.Denied || got.Reason != quota.LeasedOut {
		t.Errorf("told %+v", got)
	}
}

// More callers than a lease is for go to the exact lane. If that finds all units in others' hands
// they wait in line again, and no lease goes back for one of them.
func TestALongLineDoesNotGiveUpItsLeases(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.limit, d.cap = 1000, 10
	d.warm(exports, 1)
	d.settle()
	d.empty()
	k, c := d.key(exports), d.core
	passed := 0
	for range 11 {
		c.Want(d.now, &Waiter{Key: exports, Cost: 1, Done: func(o Outcome) { passed += int(asNumber(o.Allowed)) }})
	}
	req := c.BuildSpend(d.now, time.Second)
	if k.ask == nil || len(req.GetItems()) != 1 {
		t.Fatalf("asked: %v, sent to the exact lane: %d", k.ask != nil, len(req.GetItems()))
	}
	c.SpendDone(d.now, d.now, &pb.SpendReply{LedgerNowUs: d.ledgerNow().UnixMicro(), Decisions: []*pb.Decision{{
		GrantId: req.GetItems()[0].GetSpendId(), Window: d.window, Generation: d.generation, Reason: string(quota.LeasedOut)}}})
	if len(k.parked) > 0 || len(k.waiters) != 11 {
		t.Fatalf("%d wait for what this agent gives back, %d for a lease", len(k.parked), len(k.waiters))
	}
	d.settle() // the ask in flight brings units
	if passed < 10 {
		t.Errorf("%d of 11 passed", passed)
	}
}

// Exposure refuses more beside what is in hand. That is a reason to ask later, but not when it is
// used up and callers wait.
func TestWhatExposureRefusedIsAskedForAgainWhenNothingIsInHand(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.limit, d.cap = 1000, 10
	d.warm(exports, 1)
	k := d.key(exports)
	d.reason = string(quota.ExactLane)
	k.newest(d.now).renewed = true // its successor is fetched
	d.core.tend(d.now, k)
	d.settle()
	if k.nextAsk <= d.now || k.left(d.now) == 0 || k.lane.on {
		t.Fatalf("the next ask is in %s, with %d in hand, in the exact lane: %v", k.nextAsk-d.now, k.left(d.now), k.lane.on)
	}
	d.empty()
	if k.ask != nil {
		t.Fatal("asked although nobody waits")
	}
	d.reason = ""
	got, _ := d.take(exports, 1)
	if got != nil || k.ask == nil {
		t.Errorf("a caller is told %+v; asked: %v", got, k.ask != nil)
	}
}

// A lease that goes back for who is parked is asked for anew soon, however near its window's end is:
// only one that came too late to be of use says that no longer life is to be had.
func TestALeaseThatWentBackForAnotherIsAskedForAnewSoon(t *testing.T) {
	t.Parallel()
	d := minutes(t)
	d.warm(exports, 1)
	d.useUntil(d.at(55*time.Second), 100*time.Millisecond)
	k := d.key(exports)
	l := k.held()[0]
	l.cut = true // its window ends before a ttl has passed
	d.core.retire(k, l)
	d.core.returnWhole(d.now, k, l)
	if l.deadline()-d.now < d.core.rtt || k.nextAsk-d.now > 3*d.core.rtt {
		t.Errorf("a lease of %s of life: the next ask is in %s", l.deadline()-d.now, k.nextAsk-d.now)
	}
}

// The news that a grant emptied the account may overtake that grant.
func TestTheLastUnitsAreNotDeniedToWhoTheyAreFor(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.limit, d.cap = 1, 10
	d.settle()
	got, w := d.take(exports, 1)
	var outcome *Outcome
	w.Done = func(o Outcome) { outcome = &o }
	if got != nil {
		t.Fatalf("%+v", got)
	}
	req := d.build()
	reply := d.answer(req)
	d.core.Notice(d.now, &pb.Notice{Key: wireKey(exports), Generation: d.generation, Window: d.window, Drained: true})
	if outcome != nil {
		t.Errorf("before its reply, the notice of its own grant denied the caller: %+v", outcome)
	}
	d.core.SyncDone(d.now, reply)
	if outcome == nil || !outcome.Allowed {
		t.Errorf("the granted unit did not serve the caller: %+v", outcome)
	}
}
