package agent

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/protobuf/proto"

	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/agent/local"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// under is an uplink whose first dimension is under a local limit.
type under struct {
	*fakeUplink
	limit *pb.LocalLimit
}

func (u under) Sync(ctx context.Context, req *pb.SyncRequest) (*pb.SyncReply, error) {
	reply, err := u.fakeUplink.Sync(ctx, req)
	if c := reply.GetCatalogue(); c != nil {
		c.LocalLimits = []*pb.LocalLimit{u.limit}
		c.Dimensions[0].Local = []string{u.limit.GetName()}
	}
	return reply, err
}

var reports = quota.Key{Tenant: "acme", Dimension: "report_export"}

func localLimit(algorithm string, units int64) *pb.LocalLimit {
	return &pb.LocalLimit{Name: "mine", Algorithm: algorithm, Rate: &pb.Rate{Units: units, PerUs: 3_600_000_000}, Capacity: units, StartFull: true,
		Ipv6Prefix: 64, IdleUs: 1_000_000, MaxKeys: 10}
}

func TestNobodyPassesBeforeLocalLimitsAreKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, stop := start(t, under{newFakeUplink(), localLimit("token_bucket", 2)})
		defer stop()
		var passed, denied atomic.Int64
		var wg sync.WaitGroup
		for range 20 { // the first Sync has not been answered
			wg.Go(func() {
				switch d, err := a.Take(t.Context(), "acme", "report_export", 1); {
				case err != nil:
					t.Error(err)
				case d.Allowed:
					passed.Add(1)
				case d.Dimension == "mine":
					denied.Add(1)
				}
			})
		}
		wg.Wait()
		if passed.Load() != 2 || denied.Load() != 18 {
			t.Errorf("%d passed a limit of 2, and it denied %d", passed.Load(), denied.Load())
		}
	})
}

// Who asks an agent that never had contact learns of the outage as soon as the agent does.
func TestO4AnOutageFromTheStartIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := newFakeUplink()
		up.cut(true)
		a, stop := start(t, up)
		defer stop()
		began := time.Now()
		var away *UnavailableError
		if _, err := a.Take(t.Context(), "acme", "report_export", 1); !errors.As(err, &away) || time.Since(began) > 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		ctx, hangUp := context.WithCancel(t.Context())
		hangUp()
		quiet, err := New(Config{Name: "a", Region: "eu"}, up) // it never runs
		if err != nil {
			t.Fatal(err)
		}
		if _, err := quiet.Take(ctx, "acme", "report_export", 1); !errors.Is(err, context.Canceled) {
			t.Errorf("who has hung up is told %v", err)
		}
		began = time.Now()
		if _, err := quiet.Take(t.Context(), "acme", "report_export", 1); !errors.As(err, &away) || time.Since(began) != spendPatience {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// A caller hangs up at the moment at which its work may begin: nobody knows of the permit, so its
// local slot is free, too.
func TestALocalSlotOfAPermitThatNobodyHeardOfComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, err := New(Config{Name: "a", Region: "eu", now: func() time.Duration { return time.Hour }}, newFakeUplink())
		if err != nil {
			t.Fatal(err)
		}
		asks := func() []*pb.Ask { return a.core.BuildSync(a.now()).GetAsks() }
		asks()
		a.synced(&pb.SyncReply{Catalogue: &pb.Catalogue{PolicyVersion: 3,
			LocalLimits: []*pb.LocalLimit{{Name: "gate", Algorithm: "concurrency", Capacity: 1, Ipv6Prefix: 64, IdleUs: 1, MaxKeys: 1}, localLimit("token_bucket", 1)},
			Dimensions:  []*pb.Dimension{{Name: "jobs", Kind: "concurrency", Class: "hard", Limit: 5, TtlUs: 10_000_000, MaxHoldUs: 3_600_000_000, Local: []string{"gate", "mine"}}}}})
		job := Acquire{ID: "job-1", Tenant: "acme", Takes: []core.DimensionCost{{Dimension: "jobs", Cost: 1}}}
		ctx, hangUp := context.WithCancel(t.Context())
		defer hangUp()
		var wg sync.WaitGroup
		wg.Go(func() { _, err = a.Acquire(ctx, job) })
		synctest.Wait()
		reply := &pb.SyncReply{}
		for _, ask := range asks() {
			reply.Decisions = append(reply.Decisions, &pb.Decision{GrantId: ask.GetGrantId(), Amount: ask.GetWant(), State: pb.GrantState_GRANT_STATE_LIVE, TtlUs: 10_000_000})
		}
		a.mu.Lock()
		a.synced(reply)
		running := a.core.Stats(a.now()).Running["jobs"]
		hangUp() // at the moment at which the work may begin
		a.mu.Unlock()
		wg.Wait()
		if running != 1 || !errors.Is(err, context.Canceled) {
			t.Fatalf("%d run, and the caller who left is told %v", running, err)
		}
		job.ID = "job-2"
		if p, err := a.Acquire(t.Context(), job); err != nil || !p.Allowed {
			t.Errorf("the next: %+v, %v", p, err)
		}
		if p, err := a.Acquire(t.Context(), Acquire{ID: "job-3", Tenant: "acme", Takes: job.Takes}); err != nil || p.Allowed || p.Dimension != "mine" {
			t.Errorf("and one more: %+v, %v", p, err)
		}
	})
}

// A caller in line for a local slot does not outlast its agent.
func TestWhoWaitsForALocalSlotIsToldThatTheAgentStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := localLimit("concurrency", 1)
		gate.QueueCount, gate.QueueAgeUs = 1, 3_600_000_000
		a, stop := start(t, under{newFakeUplink(), gate})
		p, err := a.localPlan(t.Context(), "acme", "report_export")
		if err != nil {
			t.Fatal(err)
		}
		enter := func() error {
			v, err := a.enter(t.Context(), p.Dimension(nil, reports, 1, 1), time.Hour)
			if err == nil && v.Denied != nil {
				err = errors.New(string(v.Outcome))
			}
			return err
		}
		if err := enter(); err != nil {
			t.Fatal(err)
		}
		waits := make(chan error, 1)
		go func() { waits <- enter() }()
		synctest.Wait()
		stop()
		if err := <-waits; !errors.Is(err, ErrStopped) {
			t.Errorf("told %v", err)
		}
	})
}

// A request whose goroutine dies half way leaves nothing taken.
func TestWhatAPanicLeavesBehindGoesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, stop := start(t, under{newFakeUplink(), localLimit("token_bucket", 1)})
		defer stop()
		if p, err := a.localPlan(t.Context(), "acme", "report_export"); err != nil || p == nil {
			t.Fatal(p, err)
		}
		for range 3 {
			func() {
				defer func() { _ = recover() }()
				p := a.local.Plan()
				_, _ = a.guard(t.Context(), p, p.Dimension(nil, reports, 1, 1), func() (Decision, error) { panic("ours") })
			}()
		}
		if d, err := a.Take(t.Context(), "acme", "report_export", 1); err != nil || !d.Allowed {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

// Local limits need no control plane: an agent that starts in an outage keeps those it knows of.
func TestLocalLimitsAreAmongTheTermsOnDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	body, err := proto.Marshal(&pb.Catalogue{PolicyVersion: 3, LocalLimits: []*pb.LocalLimit{localLimit("fixed_window", 1)}})
	if err == nil {
		err = termsFile.write(dir, time.Now(), body)
	}
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	a, err := New(Config{Name: "a", Region: "eu", StateDir: dir, Metrics: registry}, newFakeUplink())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		if d, err := a.TakeLocal(t.Context(), "acme", "mine", 1); err != nil || d.Allowed != want || d.Dimension != "mine" || d.Limit.Units != 1 || d.Remaining != 0 {
			t.Errorf("%+v, %v; want allowed %v", d, err, want)
		}
	}
	if _, err := a.TakeLocal(t.Context(), "acme", "other", 1); err == nil {
		t.Error("a limit that nobody defined was taken from")
	}
	if n, err := testutil.GatherAndCount(registry, "quotalease_agent_local_keys"); err != nil || n != 1 {
		t.Errorf("%d series of keys, %v", n, err)
	}
}

// A shaped request whose caller leaves before its turn is not answered.
func TestAShapedCallerWhoLeavesIsNotAnswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shaped := localLimit("leaky_bucket", 10)
		shaped.Rate.PerUs = 10_000_000
		a, stop := start(t, under{newFakeUplink(), shaped})
		defer stop()
		if d, err := a.Take(t.Context(), "acme", "report_export", 1); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
		ctx, hangUp := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, hangUp)
		if _, err := a.Take(ctx, "acme", "report_export", 1); !errors.Is(err, context.Canceled) {
			t.Errorf("it is told %v", err)
		}
		short, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if d, err := a.Take(short, "acme", "report_export", 1); err != nil || d.Allowed || d.Dimension != "mine" || d.RetryIn <= 0 {
			t.Errorf("whose deadline is before its turn: %+v, %v", d, err)
		}
		began := time.Now()
		if d, err := a.Take(t.Context(), "acme", "report_export", 1); err != nil || !d.Allowed || time.Since(began) < 1800*time.Millisecond {
			t.Errorf("the next waits for the turn of who left, too: %+v, %v after %v", d, err, time.Since(began))
		}
	})
}

// underALimit is an agent with a lease that no benchmark empties, and a limit that denies nobody.
func underALimit(t testing.TB) (a *Agent, stop func()) {
	t.Helper()
	up := newFakeUplink()
	up.limit = 1 << 52
	limit := localLimit("token_bucket", 1<<50)
	limit.Key = []string{"tenant", "route"}
	a, err := New(Config{Name: "a", Region: "eu"}, hugeLease{under{up, limit}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	for i := 0; ; i++ {
		d, err := a.Take(local.WithCaller(ctx, local.Caller{Route: "/v1/reports"}), "acme", "report_export", 1)
		if err == nil && d.Allowed {
			break
		}
		if i == 1000 {
			t.Fatal(d, err)
		}
	}
	return a, func() { cancel(); <-done }
}

// Not parallel: it counts what the whole process allocates.
func TestATakeUnderALocalLimitAllocatesNothing(t *testing.T) {
	a, stop := underALimit(t)
	defer stop()
	ctx := local.WithCaller(t.Context(), local.Caller{Route: "/v1/reports"})
	if n := testing.AllocsPerRun(500, func() {
		if d, err := a.Take(ctx, "acme", "report_export", 1); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a take", n)
	}
}

func BenchmarkTakeUnderALocalLimit(b *testing.B) {
	a, stop := underALimit(b)
	defer stop()
	ctx := local.WithCaller(b.Context(), local.Caller{Route: "/v1/reports"})
	b.ReportAllocs()
	for b.Loop() {
		if d, err := a.Take(ctx, "acme", "report_export", 1); err != nil || !d.Allowed {
			b.Fatal(d, err)
		}
	}
}
