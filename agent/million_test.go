package agent

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// million is an agent with very many keys, and its control plane, which grants whatever is asked for and
// only counts: time passes when it is told to.
type million struct {
	t   *testing.T
	a   *Agent
	now core.Instant

	granted, used, returned int64 // units of leases, and of those that are accounted for
}

const millionTTL = time.Minute

func newMillion(t *testing.T, keys int) *million {
	w := &million{t: t, now: time.Hour}
	a, err := New(Config{Name: "a", Region: "eu", MaxKeys: keys, now: func() core.Instant { return w.now }}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.a = a
	w.sync()
	return w
}

// sync carries Syncs until the agent has nothing more to say.
func (w *million) sync() {
	w.t.Helper()
	for range 10_000 {
		req := w.a.core.BuildSync(w.now)
		if req == nil {
			return
		}
		w.a.mu.Lock()
		w.a.synced(w.answer(req))
		w.a.mu.Unlock()
	}
	w.t.Fatal("the agent never falls silent")
}

// pass lets time pass.
func (w *million) pass(d time.Duration) {
	w.t.Helper()
	w.now += d
	w.a.core.Tick(w.now)
	w.sync()
}

func (w *million) answer(req *pb.SyncRequest) *pb.SyncReply {
	at := time.Unix(1_800_000_000, 0).Add(w.now)
	window := func() *pb.Window { // each answer has its own, as those from the wire
		return &pb.Window{StartUs: at.Add(-24 * time.Hour).Truncate(24 * time.Hour).UnixMicro(), EndUs: at.Add(24 * time.Hour).Truncate(24 * time.Hour).UnixMicro()}
	}
	reply := &pb.SyncReply{Token: []byte("t"), LedgerNowUs: at.UnixMicro()}
	if req.GetHello().GetPolicyVersion() == 0 {
		reply.Catalogue = &pb.Catalogue{PolicyVersion: 3, Dimensions: []*pb.Dimension{{
			Name: "report_export", Kind: "period", Class: "hard", Limit: 1000, Period: &pb.Period{Every: "day"}, TtlUs: millionTTL.Microseconds(),
			LowWatermarkPpm: 200_000, Outage: &pb.Outage{Mode: "closed", AfterUs: 10_000_000}, Cold: &pb.Cold{WaitUs: 10_000, Then: "deny"},
		}}}
	}
	for _, r := range req.GetReports() {
		state := pb.GrantState_GRANT_STATE_LIVE
		if r.GetFinal() {
			state = pb.GrantState_GRANT_STATE_FINAL
			w.used += r.GetTaken() - r.GetRefunded()
			w.returned += r.GetReturned() + r.GetRefunded()
		}
		reply.Results = append(reply.Results, &pb.ReportResult{GrantId: r.GetGrantId(), State: state})
	}
	for _, a := range req.GetAsks() {
		w.granted += a.GetWant()
		reply.Decisions = append(reply.Decisions, &pb.Decision{GrantId: a.GetGrantId(), Generation: 1, TtlUs: millionTTL.Microseconds(), PolicyVersion: 3,
			Amount: a.GetWant(), State: pb.GrantState_GRANT_STATE_LIVE, Window: window()})
		reply.Keys = append(reply.Keys, &pb.KeyState{Key: a.GetKey(), Generation: 1, Limit: 1000, Headroom: 1000 - a.GetWant(), LeaseCap: 100,
			PolicyVersion: 3, Window: window()})
	}
	return reply
}

// tenantOf is a name of the length of a UUID.
func tenantOf(n int) string { return fmt.Sprintf("00000000-0000-7000-8000-%012d", n) }

// come has tenants take a unit each, from the one on, and returns how many were allowed.
func (w *million) come(from, to int) (allowed int) {
	w.t.Helper()
	done := func(o core.Outcome) {
		if o.Allowed {
			allowed++
		}
	}
	for n := from; n < to; n++ {
		w.a.core.Want(w.now, &core.Waiter{Key: quota.Key{Tenant: tenantOf(n), Dimension: "report_export"}, Cost: 1, Done: done})
		if n%1000 == 999 || n == to-1 {
			w.sync()
		}
	}
	return allowed
}

func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A million keys in use take less memory than twice what the names and counters of a million callers
// would in a plain map, and what nobody uses goes: the leases back to the ledger, the memory with them.
// Not parallel: it measures the heap.
func TestR1_13AMillionKeysInBoundedMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("it fills a million keys")
	}
	keys := 1_000_000
	if raceDetector {
		keys = 50_000
	}
	w := newMillion(t, keys)
	empty := heapInUse()
	if n := w.come(0, keys); n != keys || w.keys() != keys {
		t.Fatalf("%d of %d tenants were allowed, %d keys are held", n, keys, w.keys())
	}
	perKey := func() int64 { return (heapInUse() - empty) / int64(keys) }
	if got := perKey(); got > 400 && !raceDetector {
		t.Errorf("a key takes %d bytes", got)
	}
	for n := range keys {
		if d, err := w.a.Take(t.Context(), tenantOf(n), "report_export", 1); err != nil || !d.Allowed {
			t.Fatalf("tenant %d has a lease, and is told %+v, %v", n, d, err)
		}
	}

	// What is beyond the cap, or nobody vouches for, makes no state.
	if n := w.come(keys, keys+1000); n != 0 {
		t.Errorf("%d tenants beyond the cap were allowed", n)
	}
	for n := range 1000 {
		var told core.Outcome
		w.a.core.Want(w.now, &core.Waiter{Key: quota.Key{Tenant: tenantOf(n), Dimension: fmt.Sprint("made-up-", n)}, Cost: 1, Done: func(o core.Outcome) { told = o }})
		if told.Bad == nil {
			t.Fatalf("a dimension that policy does not know: %+v", told)
		}
		if _, err := w.a.Take(t.Context(), fmt.Sprint("tenant\x00", n), "report_export", 1); err == nil {
			t.Fatal("no tenant has that name")
		}
	}
	if w.keys() != keys {
		t.Errorf("%d keys are held, the cap is %d", w.keys(), keys)
	}
	if got := perKey(); got > 400 && !raceDetector {
		t.Errorf("with strangers at the door a key takes %d bytes", got)
	}

	// Nobody comes any more.
	for range 4 {
		w.pass(millionTTL)
	}
	if w.keys() != 0 {
		t.Errorf("%d keys are held that nobody uses", w.keys())
	}
	if want := 2 * int64(keys); w.used != want || w.used+w.returned != w.granted {
		t.Errorf("%d units were used and %d returned of %d granted, want %d used and the rest returned", w.used, w.returned, w.granted, want)
	}
	if got := perKey(); got > 100 && !raceDetector {
		t.Errorf("%d bytes are kept of a key that went", got)
	}
	if n := w.come(0, 10); n != 10 {
		t.Errorf("%d of 10 tenants who came back were allowed", n)
	}
}

func (w *million) keys() int { return w.a.core.Stats(w.now).Keys }
