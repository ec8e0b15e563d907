package agent

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

func handle(t testing.TB, a *Agent) *Handle {
	t.Helper()
	h, err := a.Handle("acme", "report_export")
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// passes takes one unit at a time until it is denied.
func passes(t *testing.T, h *Handle) (n int) {
	t.Helper()
	for {
		d, err := h.Take(t.Context(), 1)
		if err != nil || n > 10_000 {
			t.Fatal(n, d, err)
		}
		if !d.Allowed {
			return n
		}
		n++
		time.Sleep(time.Millisecond)
	}
}

func TestAHandleTakesAsItsKeyDoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := newFakeUplink()
		a, stop := start(t, up)
		h := handle(t, a)
		if d, err := a.Take(t.Context(), "acme", "report_export", 7); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
		if d, err := h.Take(t.Context(), 0); err != nil || !d.Allowed || d.Limit != quota.LimitOf(1000) {
			t.Errorf("a peek: %+v, %v", d, err)
		}
		if n := passes(t, h); n != 993 {
			t.Errorf("%d passed, 993 were left", n)
		}
		if d, err := h.Take(t.Context(), 1); err != nil || d.Reason != quota.Exhausted || d.RetryIn <= 0 || d.Dimension != "report_export" {
			t.Errorf("denied with %+v, %v", d, err)
		}
		var field *quota.FieldError
		if _, err := h.Take(t.Context(), MaxCost+1); !errors.As(err, &field) || field.Field != "cost" {
			t.Errorf("%v, want the cost named", err)
		}
		if _, err := a.Handle("", "report_export"); !errors.As(err, &field) || field.Field != "tenant" {
			t.Errorf("%v, want the tenant named", err)
		}
		stop()
		if got := up.confirmed(); got != 1000 {
			t.Errorf("reported %d of 1000", got)
		}
	})
}

// What a key that was dropped knew of denials may be over: nobody told it.
func TestAHandleOutlivesItsKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := newFakeUplink()
		up.limit = 10
		a, stop := start(t, up)
		defer stop()
		h := handle(t, a)
		if n := passes(t, h); n != 10 {
			t.Fatalf("%d of 10 passed", n)
		}
		time.Sleep(time.Minute)
		a.mu.Lock()
		held := a.core.Stats(a.now()).Keys
		a.mu.Unlock()
		if held != 0 {
			t.Fatalf("%d keys are held after a minute of nothing", held)
		}
		up.mu.Lock()
		up.limit, up.gen = 25, 2
		up.mu.Unlock()
		if n := passes(t, h); n != 15 {
			t.Errorf("%d passed of the 15 that came", n)
		}
		if k := a.table.Find(h.id); k == nil || h.key.Load() != k {
			t.Error("the handle does not remember the key that is there now")
		}
	})
}

func TestAHandleIsUnderTheLocalLimitsOfItsDimension(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := &limitedLater{under: under{newFakeUplink(), localLimit("token_bucket", 3)}}
		up.fakeUplink.limit = 100_000
		a, stop := start(t, up)
		defer stop()
		h := handle(t, a)
		for range 50 {
			if d, err := h.Take(t.Context(), 1); err != nil || !d.Allowed {
				t.Fatalf("without local limits: %+v, %v", d, err)
			}
		}
		up.limited.Store(true)
		up.notices <- &pb.WatchReply{Notices: []*pb.Notice{{PolicyVersion: 4}}}
		time.Sleep(time.Second)
		if n := passes(t, h); n != 3 {
			t.Errorf("%d passed, the local limit is 3", n)
		}
	})
}

// limitedLater is an uplink whose second policy has a local limit.
type limitedLater struct {
	under
	limited atomic.Bool
}

func (u *limitedLater) Sync(ctx context.Context, req *pb.SyncRequest) (*pb.SyncReply, error) {
	if !u.limited.Load() || req.GetHello().GetPolicyVersion() != 3 {
		return u.fakeUplink.Sync(ctx, req)
	}
	req.Hello.PolicyVersion = 0
	reply, err := u.under.Sync(ctx, req)
	if c := reply.GetCatalogue(); c != nil {
		c.PolicyVersion = 4
	}
	return reply, err
}

func warmHandle(b testing.TB) (*Handle, func()) {
	up := newFakeUplink()
	up.limit = 1 << 50
	a, err := New(Config{Name: "a", Region: "eu"}, hugeLease{up})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	h := handle(b, a)
	for {
		if d, err := h.Take(ctx, 1); err == nil && d.Allowed {
			return h, func() { cancel(); <-done }
		}
	}
}

// Not parallel: it counts what the whole process allocates.
func TestTakingByHandleAllocatesNothing(t *testing.T) {
	h, stop := warmHandle(t)
	defer stop()
	ctx := t.Context()
	if n := testing.AllocsPerRun(1000, func() { _, _ = h.Take(ctx, 1) }); n != 0 {
		t.Errorf("%v allocations a take", n)
	}
}

func BenchmarkTakeByHandle(b *testing.B) {
	h, stop := warmHandle(b)
	defer stop()
	b.ReportAllocs()
	for b.Loop() {
		if d, err := h.Take(b.Context(), 1); err != nil || !d.Allowed {
			b.Fatal(d, err)
		}
	}
}

// A copy of what is no multiple of 16 bytes ends in two moves that overlap, which is felt in each take.
func TestADecisionIsCopiedWithoutOverlap(t *testing.T) {
	t.Parallel()
	if n := unsafe.Sizeof(Decision{}); n%16 != 0 || n > 112 {
		t.Errorf("a decision has %d bytes", n)
	}
}
