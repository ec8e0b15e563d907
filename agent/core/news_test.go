package core

import (
	"fmt"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// newsworthy is a driver with keys that were all used since their last report, at a heartbeat.
func newsworthy(t *testing.T, keys int) *driver {
	t.Helper()
	d := newDriver(t)
	d.limit, d.cap = 1<<40, 1<<40
	d.settle()
	for i := range keys {
		d.take(quota.Key{Tenant: fmt.Sprint("t", i), Dimension: exports.Dimension}, 1)
	}
	for d.sync() != nil {
	}
	for i := range keys {
		if got, _ := d.take(quota.Key{Tenant: fmt.Sprint("t", i), Dimension: exports.Dimension}, 1); got == nil || !got.Allowed {
			t.Fatalf("key %d has no lease: %v", i, got)
		}
	}
	d.core.syncAt = d.now
	return d
}

func asks(req *pb.SyncRequest, key quota.Key) bool {
	for _, a := range req.GetAsks() {
		if a.GetKey().GetTenant() == key.Tenant {
			return true
		}
	}
	return false
}

func TestAColdKeyWaitsForNoOthersNews(t *testing.T) {
	t.Parallel()
	d := newsworthy(t, 1000)
	first := d.build()
	if n := len(first.GetReports()); n != mostNews {
		t.Fatalf("a heartbeat's first Sync has %d reports, want %d", n, mostNews)
	}
	_, w := d.take(exports, 1)
	if w == nil {
		t.Fatal("the cold key did not have to wait")
	}
	d.core.SyncDone(d.now, d.answer(first))
	next := d.build()
	if !asks(next, exports) {
		t.Errorf("the Sync after it does not ask for the key that somebody waits for: %d reports, %d asks", len(next.GetReports()), len(next.GetAsks()))
	}
	if n := len(next.GetReports()); n > mostNews {
		t.Errorf("and has %d reports", n)
	}
}

func TestAllNewsAreSaidOnceAndAtOnce(t *testing.T) {
	t.Parallel()
	const keys = 1000
	d := newsworthy(t, keys)
	said := map[string]int{}
	for d.core.NextSync() <= d.now {
		req := d.build()
		if req == nil {
			break
		}
		for _, r := range req.GetReports() {
			said[r.GetKey().GetTenant()]++
		}
		d.core.SyncDone(d.now, d.answer(req))
	}
	if len(said) != keys {
		t.Errorf("%d of %d keys were reported on, without a pause", len(said), keys)
	}
	for key, times := range said {
		if times != 1 {
			t.Errorf("%s was reported on %d times", key, times)
		}
	}
}

// However many keys are urgent, the others are heard of before their leases end.
func TestNewsAreSaidBesideWhatIsUrgent(t *testing.T) {
	t.Parallel()
	const keys = 300
	d := newsworthy(t, keys)
	said := 0
	for turn := 0; said < keys && turn < keys; turn++ {
		for i := range 2 * mostNews {
			d.take(quota.Key{Tenant: fmt.Sprintf("cold %d %d", turn, i), Dimension: exports.Dimension}, 1)
		}
		req := d.build()
		for _, r := range req.GetReports() {
			if !r.GetFinal() && r.GetKey().GetTenant()[0] == 't' {
				said++
			}
		}
		d.core.SyncDone(d.now, d.answer(req))
		d.advance(time.Millisecond)
	}
	if said < keys {
		t.Errorf("%d of %d keys were reported on", said, keys)
	}
}

// Denials are checked all in one Sync (DESIGN 5), whatever else there is to say.
func TestAllDenialsAreCheckedInOneSync(t *testing.T) {
	t.Parallel()
	d := newsworthy(t, 1000)
	denied := 0
	for k := range d.core.each {
		if denied++; denied%2 == 0 {
			k.denial.Store(&denial{cost: 1, reason: quota.Exhausted, until: d.now + time.Hour})
			k.learned = d.now - k.dim().TTL
		}
	}
	if n := len(d.build().GetKeys()); n != denied/2 {
		t.Errorf("%d of %d denials are checked", n, denied/2)
	}
}

// An agent that never gets through with its news checks its denials all the same.
func TestDenialsAreCheckedWhileNewsWait(t *testing.T) {
	t.Parallel()
	d := newsworthy(t, 1000)
	d.core.SyncDone(d.now, d.answer(d.build()))
	k := d.key(quota.Key{Tenant: "t999", Dimension: exports.Dimension})
	k.denial.Store(&denial{cost: 1, reason: quota.Exhausted, until: d.now + time.Hour})
	k.learned, d.core.syncAt = d.now-k.dim().TTL, d.now
	if req := d.build(); len(d.core.news) == 0 || len(req.GetKeys()) != 1 {
		t.Errorf("%d denials are checked while %d keys wait with their news, want 1", len(req.GetKeys()), len(d.core.news))
	}
}
