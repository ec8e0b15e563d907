package core

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// minutes is a driver whose windows are minutes. It begins at 12:00:00.
func minutes(t *testing.T) *driver {
	d := newDriver(t, hardMinute())
	d.every = time.Minute
	return d
}

func hardMinute() *pb.Dimension {
	d := hardDay()
	d.Period, d.GraceUs = &pb.Period{Every: "minute", Timezone: "UTC"}, time.Second.Microseconds()
	return d
}

// at is an instant of the hour after 12:00, by the ledger's clock.
func (d *driver) at(after time.Duration) Instant { return time.Hour + after }

// useUntil takes 1 every so often, with everything that is due in between, and returns how
// many of the takes were answered at once.
func (d *driver) useUntil(end Instant, every time.Duration) (atOnce, takes int) {
	d.t.Helper()
	for d.now < end {
		for next := d.now + every; d.now < next; {
			d.advance(min(5*time.Millisecond, next-d.now))
			d.sync()
		}
		got, _ := d.take(exports, 1)
		if takes++; got != nil && got.Allowed {
			atOnce++
		}
		d.settle()
	}
	return atOnce, takes
}

func TestTheNextWindowIsThereBeforeItBegins(t *testing.T) {
	t.Parallel()
	d := minutes(t)
	d.warm(exports, 1)
	d.useUntil(d.at(40*time.Second), 100*time.Millisecond)
	for boundary := time.Minute; boundary <= 5*time.Minute; boundary += time.Minute {
		d.useUntil(d.at(boundary-time.Second), 100*time.Millisecond)
		d.useUntil(d.at(boundary-20*time.Millisecond), 5*time.Millisecond)
		next := d.following().GetStartUs()
		settled, out := d.usedIn(next)
		if settled != 0 || out == 0 {
			t.Fatalf("before %s: %d units of the next window are in hand, %d used already", boundary, out, settled)
		}
		atOnce, takes := d.useUntil(d.at(boundary+100*time.Millisecond), 5*time.Millisecond)
		if atOnce < takes-1 { // one may fall between the end of the old lease and the new one's start
			t.Errorf("at %s: %d of %d takes had to wait", boundary, takes-atOnce, takes)
		}
	}
}

func TestNothingIsSpentBeforeItsWindow(t *testing.T) {
	t.Parallel()
	for _, slow := range []time.Duration{0, 100 * time.Millisecond, time.Second} {
		d := minutes(t)
		d.warm(exports, 1)
		d.useUntil(d.at(50*time.Second), 100*time.Millisecond)
		k := d.key(exports)
		for k.next == nil {
			d.advance(10 * time.Millisecond)
			d.take(exports, 1)
		}
		sent := d.now
		reply := d.answer(d.build())
		d.now += slow
		d.core.SyncDone(d.now, reply)
		var l *Lease
		for _, held := range k.held() {
			if held.more().start > 0 {
				l = held
			}
		}
		if l == nil {
			t.Fatal("no lease for the next window")
		}
		begins := d.at(time.Minute)
		// The stand-in answered at once, so the start is late by what the reply took, and by drift.
		if late := l.more().start - begins; late < slow || late > slow+5*time.Millisecond {
			t.Errorf("a reply that took %s: the lease starts %s after its window", slow, late)
		}
		if l.deadline() != sent+10*time.Second {
			t.Errorf("its whole life is a ttl from the send, got %s", l.deadline()-sent)
		}
		for k.newest(d.now) != nil { // the present window's units
			if got := k.Take(d.now, 1); !got.Allowed {
				k.keepOnly(d.now, 0)
				break
			}
		}
		if got := k.Take(l.more().start-1, 1); got.Allowed {
			t.Error("spent before it starts")
		}
		if got := k.Take(l.more().start, 1); !got.Allowed {
			t.Error("not spent when it starts")
		}
	}
}

func TestTheAskForTheNextWindowIsSpreadOverTheLead(t *testing.T) {
	t.Parallel()
	const agents, buckets = 300, 4
	var spread [buckets]int
	for seed := range uint64(agents) {
		d := minutes(t)
		d.core = New(Config{Name: "a", Region: "eu", Random: seeded(seed), Wall: epoch, Start: time.Hour})
		d.warm(exports, 1)
		d.now = d.at(50 * time.Second)
		d.useUntil(d.at(54*time.Second), 500*time.Millisecond)
		k := d.key(exports)
		d.core.tend(d.now, k)
		left := d.at(time.Minute) - k.lead.at
		if left < 2*d.rtt || left > 5*time.Second {
			t.Fatalf("asks %s before the boundary, want at least two round trips and at most ttl/2", left)
		}
		spread[min(int(left*buckets/(5*time.Second)), buckets-1)]++
	}
	for i, n := range spread {
		if n < agents/buckets/2 || n > agents/buckets*2 {
			t.Errorf("quarter %d of the lead has %d of %d agents: %v", i, n, agents, spread)
		}
	}
}

func TestASyncInTheLeadTakesTheAskForTheNextWindowAlong(t *testing.T) {
	t.Parallel()
	d := minutes(t)
	d.warm(exports, 1)
	d.useUntil(d.at(54*time.Second), 500*time.Millisecond)
	k := d.key(exports)
	k.lead = lead{window: d.following().GetStartUs(), at: d.at(59900 * time.Millisecond)} // a late moment
	d.advance(d.at(55500*time.Millisecond) - d.now)
	d.core.tend(d.now, k)
	if k.next != nil {
		t.Fatal("asked before its moment, without a Sync to ride on")
	}
	d.take(exports, 0)
	k.refresh = true // a peek: a Sync goes out now
	d.core.mark(k)
	req := d.sync()
	if len(req.GetAsks()) != 1 || req.GetAsks()[0].GetWindow().GetStartUs() != d.following().GetStartUs() {
		t.Fatalf("the Sync carries the ask for the next window: %v", req.GetAsks())
	}
	d.useUntil(d.at(59900*time.Millisecond), 20*time.Millisecond)
	asked := 0
	for _, g := range d.grants {
		if g.window == d.following().GetStartUs() {
			asked++
		}
	}
	if asked != 1 {
		t.Fatalf("%d leases for one window", asked)
	}
}

// TestTheKeysOfAnAgentDoNotAskTogetherForTheNextWindow: two hundred keys that are all in use.
func TestTheKeysOfAnAgentDoNotAskTogetherForTheNextWindow(t *testing.T) {
	t.Parallel()
	const keys = 200
	d := minutes(t)
	d.limit, d.cap = 1_000_000, 1000
	var all []quota.Key
	for i := range keys {
		key := quota.Key{Tenant: fmt.Sprintf("t%d", i), Dimension: exports.Dimension}
		all = append(all, key)
		d.take(key, 1)
	}
	d.settle()
	next, most := d.following().GetStartUs(), 0
	asked := map[string]bool{}
	for d.now < d.at(time.Minute-30*time.Millisecond) {
		d.advance(10 * time.Millisecond)
		for i, key := range all {
			if (int64(d.now/(10*time.Millisecond))+int64(i))%100 == 0 { // each of them once a second
				d.take(key, 1)
			}
		}
		n := 0
		for _, ask := range d.sync().GetAsks() {
			if ask.GetWindow().GetStartUs() == next {
				n++
				asked[ask.GetKey().GetTenant()] = true
			}
		}
		most = max(most, n)
	}
	if len(asked) < keys*9/10 { // the stand-in sends some of them to the exact lane
		t.Errorf("%d of %d keys asked for the next window before it began", len(asked), keys)
	}
	if most > keys/4 {
		t.Errorf("%d of %d keys asked in one Sync", most, keys)
	}
}

func TestF7OnePrefetchInFlightForEachWindow(t *testing.T) {
	t.Parallel()
	d := minutes(t)
	d.warm(exports, 1)
	d.useUntil(d.at(53*time.Second), 500*time.Millisecond)
	inFlight := map[int64]*pb.Ask{}
	windows := map[int64]bool{}
	for d.now < d.at(59*time.Second) { // every answer is lost
		d.advance(20 * time.Millisecond)
		if got, w := d.take(exports, 1); got == nil {
			d.core.Abandon(w)
		}
		req := d.build()
		for _, c := range req.GetCancels() {
			for window, a := range inFlight {
				if string(a.GetGrantId()) == string(c.GetGrantId()) {
					delete(inFlight, window)
				}
			}
		}
		for _, a := range req.GetAsks() {
			window := a.GetWindow().GetStartUs()
			if was := inFlight[window]; was != nil && !proto.Equal(was, a) {
				t.Fatalf("asked %v while %v was in flight", a, was)
			}
			inFlight[window] = proto.CloneOf(a)
			windows[window] = true
		}
		if req != nil {
			d.core.SyncDone(d.now, nil)
		}
	}
	if !windows[0] || !windows[d.following().GetStartUs()] {
		t.Fatalf("both the present and the next window are asked for: %v", windows)
	}
}

func TestAnAskThatMissedItsWindowIsNotMadeForTheNextOne(t *testing.T) {
	t.Parallel()
	d := minutes(t)
	d.warm(exports, 1)
	d.useUntil(d.at(54*time.Second), 500*time.Millisecond)
	k := d.key(exports)
	k.lead = lead{window: d.following().GetStartUs(), at: d.at(59900 * time.Millisecond)}
	d.now = d.at(55500 * time.Millisecond)
	d.core.tend(d.now, k) // waits for a Sync
	d.now = d.at(60500 * time.Millisecond)
	d.core.tend(d.now, k) // and the boundary went by without one
	k.refresh = true
	d.core.mark(k)
	for _, a := range d.sync().GetAsks() {
		if a.GetWindow().GetStartUs() > d.present().GetStartUs() {
			t.Fatalf("asked half a second into a minute for the one after it: %v", a)
		}
	}
}

func TestARefusedWindowIsNotAskedForInALoop(t *testing.T) {
	t.Parallel()
	d := minutes(t)
	d.limit, d.cap = 1_000_000, 10_000
	d.warm(exports, 1)
	d.useUntil(d.at(50*time.Second), 500*time.Millisecond)
	asks := 0
	for d.now < d.at(60*time.Second) {
		d.advance(10 * time.Millisecond)
		if got, w := d.take(exports, 1); got == nil {
			d.core.Abandon(w)
		}
		req := d.build()
		if req == nil {
			continue
		}
		reply := d.answer(req)
		for i, a := range req.GetAsks() {
			if a.GetWindow() != nil {
				asks++
				reply.Decisions[i] = &pb.Decision{GrantId: a.GetGrantId(), Fault: &pb.Fault{Code: "invalid", Field: "window"}}
			}
		}
		d.core.SyncDone(d.now, reply)
	}
	if asks == 0 || asks > 12 {
		t.Fatalf("a window that the ledger does not admit was asked for %d times", asks)
	}
	d.useUntil(d.at(61*time.Second), 100*time.Millisecond)
	d.take(exports, 1)
	d.settle()
	if got, _ := d.take(exports, 1); got == nil || !got.Allowed {
		t.Fatalf("the window itself works as ever: %+v", got)
	}
}

func TestAnIdleKeyAsksForNoWindow(t *testing.T) {
	t.Parallel()
	d := minutes(t)
	d.warm(exports, 1)
	d.advance(d.at(40*time.Second) - d.now)
	for d.now < d.at(2*time.Minute) {
		d.advance(100 * time.Millisecond)
		if req := d.sync(); len(req.GetAsks()) > 0 {
			t.Fatalf("nobody uses the key: %v", req.GetAsks())
		}
	}
}

func TestW2StuckWindow(t *testing.T) {
	t.Parallel()
	d := minutes(t)
	d.limit, d.cap = 10, 5
	d.settle()
	for range 2 * 60 * 24 {
		clear(d.grants) // all of them are settled by now
		var got *Outcome
		d.core.Want(d.now, &Waiter{Key: exports, Cost: 1, Done: func(o Outcome) { got = &o }})
		d.settle()
		if got == nil || !got.Allowed {
			t.Fatalf("one request in 30 s against 10 a minute is denied at %s: %+v", d.ledgerNow(), got)
		}
		for end := d.now + 30*time.Second; d.now < end; {
			d.advance(min(5*time.Second, end-d.now))
			d.sync()
		}
	}
}

func TestAnswersSpeakOfTheNewWindowWithoutARoundTrip(t *testing.T) {
	t.Parallel()
	d := minutes(t)
	d.warm(exports, 1)
	d.useUntil(d.at(58*time.Second), 500*time.Millisecond)
	k := d.key(exports)
	for k.next != nil || k.lead.window == 0 || !k.led {
		d.advance(10 * time.Millisecond)
		d.settle()
	}
	d.now = d.at(time.Minute + 100*time.Millisecond)
	got := k.Take(d.now, 1)
	if !got.Allowed || got.Window != time.Minute || got.Reset < 59*time.Second || got.Reset > time.Minute {
		t.Fatalf("100 ms into the new window: %+v", got)
	}
}
