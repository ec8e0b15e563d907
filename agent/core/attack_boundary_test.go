package core

import (
	"testing"
	"time"
)

// leading is a driver at the moment at which the ask for the next minute is on its way, the
// present minute's units all spent.
func leading(t *testing.T) *driver {
	d := minutes(t)
	d.warm(exports, 1)
	d.useUntil(d.at(50*time.Second), 100*time.Millisecond)
	for d.key(exports).next == nil {
		d.advance(10 * time.Millisecond)
		d.take(exports, 1)
	}
	return d
}

func TestACallerBetweenASlowLeaseAndItsStartSendsNoKeyToTheExactLane(t *testing.T) {
	t.Parallel()
	d := leading(t)
	d.cap = 10 // what the ask brings is all that this agent may hold
	req := d.build()
	d.key(exports).next.sent = true
	reply := d.answer(req)
	d.now += 300 * time.Millisecond // it is slow, so the start is late
	d.core.SyncDone(d.now, reply)
	k := d.key(exports)
	var start Instant
	for _, l := range k.held() {
		start = max(start, l.more().start)
	}
	if start == 0 {
		t.Fatal("no lease for the next window")
	}
	for d.now < d.at(time.Minute+10*time.Millisecond) {
		d.advance(10 * time.Millisecond)
		d.settle()
	}
	if d.now >= start || k.newest(d.now) != nil {
		t.Fatalf("not in the gap: %s before the start", start-d.now)
	}
	_, w := d.take(exports, 1) // the ledger's minute has begun, the lease's has not
	d.settle()
	if d.core.inLane(d.now, k) {
		t.Error("a key whose lease is about to begin is served one by one for a ttl")
	}
	d.advance(start - d.now)
	d.settle()
	if got, _ := d.take(exports, 1); got == nil || !got.Allowed {
		t.Errorf("the lease has begun: %+v", got)
	}
	if w != nil && !w.over && w.spend == nil {
		t.Error("who came before is still in line")
	}
}

func TestAnAskThatIsStillOnItsWayWhenItsWindowBeginsIsNotDoubled(t *testing.T) {
	t.Parallel()
	d := leading(t)
	k := d.key(exports)
	req := d.build()
	if len(req.GetAsks()) == 0 {
		t.Fatal("no ask")
	}
	d.core.SyncDone(d.now, nil) // lost
	for d.now < d.at(time.Minute+time.Second) {
		d.advance(50 * time.Millisecond)
		d.take(exports, 1)
		if req := d.build(); req != nil {
			asks := map[int64]int{}
			for _, a := range req.GetAsks() {
				start := a.GetWindow().GetStartUs()
				if start == 0 {
					start = d.present().GetStartUs()
				}
				asks[start]++
			}
			for start, n := range asks {
				if n > 1 {
					t.Fatalf("%d asks for the window of %d in one Sync: %v", n, start, req.GetAsks())
				}
			}
			d.core.SyncDone(d.now, nil)
		}
	}
	d.advance(3 * time.Second)
	for range 2 { // the first caller may still be told of the outage, which ends with its Sync
		d.take(exports, 1)
		d.settle()
	}
	if k.left(d.now) == 0 {
		t.Error("contact is back, and no lease came")
	}
}
