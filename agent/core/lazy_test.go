package core

import (
	"testing"
	"time"
)

func TestASpentLeaseIsReportedWithWhateverSyncIsSentNext(t *testing.T) {
	t.Parallel()
	dim := hardDay()
	dim.GraceUs = (2 * time.Second).Microseconds()
	d := newDriver(t, dim)
	d.limit, d.cap = 20, 10 // near its end: nothing is fetched ahead
	d.warm(exports, 1)
	k := d.key(exports)
	d.core.syncAt = d.now + time.Hour // no heartbeat in between
	for k.left(d.now) > 0 {
		d.take(exports, 1)
	}
	last := k.held()[0].deadline()
	d.advance(last - d.now) // it is over, with nothing to give back
	if req := d.sync(); req != nil {
		t.Fatalf("a report that frees nothing has no Sync of its own: %v", req)
	}
	if at := d.core.NextSync(); at != last+time.Second {
		t.Errorf("it is due %s after the lease's end, want half the grace", at-last)
	}
	d.take(exports, 1)
	req := d.sync()
	if len(req.GetReports()) != 1 || !req.GetReports()[0].GetFinal() || req.GetReports()[0].GetTaken() != 10 || len(req.GetAsks()) != 1 {
		t.Fatalf("the ask takes the report along: %v", req)
	}
}

func TestALeaseThatIsSpentWhenItIsReportedIsReportedForTheLastTime(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.cap = 10
	d.warm(exports, 1)
	k := d.key(exports)
	for k.left(d.now) > 0 {
		d.take(exports, 1)
	}
	req := d.sync() // the prefetch
	if len(req.GetReports()) != 1 || !req.GetReports()[0].GetFinal() {
		t.Fatalf("nothing is left of the lease: %v", req.GetReports())
	}
	if len(k.closing) != 0 || len(k.held()) != 1 {
		t.Fatalf("%d leases still to be reported, %d held", len(k.closing), len(k.held()))
	}
}

func TestUnitsThatOthersCouldUseAreReturnedAtOnce(t *testing.T) {
	t.Parallel()
	d := minutes(t)
	d.warm(exports, 1)
	k := d.key(exports)
	d.core.syncAt = d.now + time.Hour
	d.advance(k.held()[0].deadline() - d.now)
	if req := d.sync(); len(req.GetReports()) != 1 || req.GetReports()[0].GetReturned() == 0 {
		t.Fatalf("the lease ended with units in it: %v", req)
	}
	// The same at the end of the window is no use to anyone.
	d.now = d.at(59 * time.Second)
	d.take(exports, 1)
	d.settle()
	d.core.syncAt = d.now + time.Hour
	end := d.key(exports).held()[0].deadline()
	d.advance(end - d.now + 5*time.Millisecond)
	if req := d.sync(); req != nil {
		t.Fatalf("units of a window that is over are nobody's: %v", req)
	}
	if at := d.core.NextSync(); at > end+time.Second/2 {
		t.Errorf("and are reported %s after the end, before the ledger closes the lease", at-end)
	}
}

func TestOneSyncIsAHeartbeatToo(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.limit, d.cap = 1_000_000, 10
	d.warm(exports, 1)
	syncs := 0
	for end := d.now + 60*time.Second; d.now < end; d.advance(400 * time.Millisecond) {
		if got, _ := d.take(exports, 5); got == nil || got.Allowed { // 12 a second: a lease lasts less than a second
			for d.sync() != nil {
				syncs++
			}
		}
	}
	asks := 0
	for _, g := range d.grants {
		asks += g.asks
	}
	if syncs > asks+2 {
		t.Errorf("%d Syncs for %d asks: heartbeats that said nothing new", syncs, asks)
	}
}
