package agent

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeUplink is a control plane in memory: it takes rtt, grants what is left of limit, and
// can be cut off.
type fakeUplink struct {
	rtt time.Duration

	mu      sync.Mutex
	down    bool
	limit   int64
	granted int64
	taken   map[string]int64 // by grant id
	final   map[string]bool
	spent   map[string]int64
	syncs   int
	class   string
	outage  *pb.Outage
	notices chan *pb.WatchReply
	gen     int64
}

func newFakeUplink() *fakeUplink {
	return &fakeUplink{
		rtt: 2 * time.Millisecond, limit: 1000, class: "hard", gen: 1,
		taken: map[string]int64{}, final: map[string]bool{}, spent: map[string]int64{},
		outage:  &pb.Outage{Mode: "closed", AfterUs: 10_000_000},
		notices: make(chan *pb.WatchReply, 8),
	}
}

func (f *fakeUplink) wait(ctx context.Context) error {
	f.mu.Lock()
	down := f.down
	f.mu.Unlock()
	if down {
		return errors.New("connection refused")
	}
	select {
	case <-time.After(f.rtt):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *fakeUplink) cut(down bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = down
}

func (f *fakeUplink) state(k *pb.Key) *pb.KeyState {
	return &pb.KeyState{Key: k, Generation: f.gen, Limit: f.limit, Headroom: max(0, f.limit-f.granted), LeaseCap: 100,
		PolicyVersion: 3, Window: &pb.Window{StartUs: 1, EndUs: time.Now().Add(time.Hour).UnixMicro()}}
}

func (f *fakeUplink) Sync(ctx context.Context, req *pb.SyncRequest) (*pb.SyncReply, error) {
	if err := f.wait(ctx); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.syncs++
	reply := &pb.SyncReply{Token: []byte("t"), LedgerNowUs: time.Now().UnixMicro()}
	if req.GetHello().GetPolicyVersion() == 0 {
		reply.Catalogue = &pb.Catalogue{PolicyVersion: 3, Dimensions: []*pb.Dimension{{
			Name: "report_export", Kind: "period", Class: f.class, Limit: f.limit, Period: &pb.Period{Every: "day"},
			TtlUs: 10_000_000, LowWatermarkPpm: 200_000, Outage: f.outage, Cold: &pb.Cold{WaitUs: 10_000, Then: "deny"},
		}}}
	}
	for _, r := range req.GetReports() {
		id := string(r.GetGrantId())
		f.taken[id] = max(f.taken[id], r.GetTaken())
		if r.GetFinal() && !f.final[id] {
			f.final[id] = true
			f.granted -= r.GetReturned()
		}
		state := pb.GrantState_GRANT_STATE_LIVE
		if f.final[id] {
			state = pb.GrantState_GRANT_STATE_FINAL
		}
		reply.Results = append(reply.Results, &pb.ReportResult{GrantId: r.GetGrantId(), State: state})
	}
	for _, a := range req.GetAsks() {
		d := &pb.Decision{GrantId: a.GetGrantId(), Generation: f.gen, TtlUs: 10_000_000, PolicyVersion: 3, Window: &pb.Window{StartUs: 1}}
		amount := min(a.GetWant(), 100, f.limit-f.granted)
		if amount >= a.GetNeed() {
			f.granted += amount
			d.Amount, d.State = amount, pb.GrantState_GRANT_STATE_LIVE
		} else {
			d.Reason, d.State = "exhausted", pb.GrantState_GRANT_STATE_DENIED
		}
		reply.Decisions = append(reply.Decisions, d)
		reply.Keys = append(reply.Keys, f.state(a.GetKey()))
	}
	for _, k := range req.GetKeys() {
		reply.Keys = append(reply.Keys, f.state(k))
	}
	return reply, nil
}

func (f *fakeUplink) Spend(ctx context.Context, req *pb.SpendRequest) (*pb.SpendReply, error) {
	if err := f.wait(ctx); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	reply := &pb.SpendReply{LedgerNowUs: time.Now().UnixMicro()}
	for _, r := range req.GetRefunds() {
		f.granted -= f.spent[string(r.GetGrantId())]
		delete(f.spent, string(r.GetGrantId()))
	}
	for _, it := range req.GetItems() {
		d := &pb.Decision{GrantId: it.GetSpendId(), Generation: f.gen}
		if f.granted+it.GetCost() <= f.limit {
			f.granted += it.GetCost()
			f.spent[string(it.GetSpendId())] = it.GetCost()
			d.Amount = it.GetCost()
		} else {
			d.Reason = "exhausted"
		}
		reply.Decisions = append(reply.Decisions, d)
		reply.Keys = append(reply.Keys, f.state(it.GetKey()))
	}
	return reply, nil
}

func (f *fakeUplink) Watch(ctx context.Context, _ *pb.WatchRequest, notice func(*pb.WatchReply)) error {
	for {
		select {
		case n := <-f.notices:
			notice(n)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *fakeUplink) confirmed() (units int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.taken {
		units += n
	}
	for _, n := range f.spent {
		units += n
	}
	return units
}

// start runs an agent until the returned stop is called, which waits for its end.
func start(t *testing.T, up Uplink, change ...func(*Config)) (a *Agent, stop func()) {
	t.Helper()
	began := time.Now()
	cfg := Config{Name: "a", Region: "eu", now: func() time.Duration { return time.Hour + time.Since(began) }}
	for _, c := range change {
		c(&cfg)
	}
	a, err := New(cfg, up)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	return a, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestTakeFromTheFirstToTheLast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := newFakeUplink()
		a, stop := start(t, up)
		allowed := 0
		for range 1100 {
			d, err := a.Take(t.Context(), "acme", "report_export", 1)
			if err != nil {
				t.Fatal(err)
			}
			if d.Allowed {
				allowed++
			} else if d.Reason != quota.Exhausted || d.RetryIn <= 0 || d.RetryAfter() > 3600 {
				t.Fatalf("denied with %+v", d)
			}
			time.Sleep(time.Millisecond)
		}
		if allowed != 1000 {
			t.Errorf("%d of 1000 allowed", allowed)
		}
		up.mu.Lock()
		syncs := up.syncs
		up.mu.Unlock()
		if syncs > 100 {
			t.Errorf("%d Syncs for 1000 takes", syncs)
		}
		stop()
		if got := up.confirmed(); got != 1000 {
			t.Errorf("reported %d of 1000", got)
		}
	})
}

func TestF8WaitingCallersAreWokenByTheGrant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := newFakeUplink()
		a, stop := start(t, up)
		defer stop()
		synctest.Wait()
		time.Sleep(5 * time.Millisecond) // the catalogue is in
		began := time.Now()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				d, err := a.Take(t.Context(), "acme", "report_export", 1)
				if err != nil || !d.Allowed {
					t.Errorf("%+v, %v", d, err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(began); took > 2*up.rtt {
			t.Errorf("woken after %s, the round trip is %s", took, up.rtt)
		}
	})
}

func TestO4OutageIsAnErrorAndNeverADenial(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := newFakeUplink()
		var log strings.Builder
		a, stop := start(t, up, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		if d, err := a.Take(t.Context(), "acme", "report_export", 1); err != nil || !d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
		up.cut(true)
		time.Sleep(30 * time.Second) // leases are dead, the last attempt has failed
		began := time.Now()
		_, err := a.Take(t.Context(), "acme", "report_export", 1)
		var outage *UnavailableError
		if !errors.As(err, &outage) || outage.RetryIn <= 0 {
			t.Fatalf("want an outage, got %v", err)
		}
		if took := time.Since(began); took > 10*time.Millisecond {
			t.Errorf("callers fail fast, took %s", took)
		}
		if err := a.Ready(); err != nil {
			t.Errorf("an agent that decides as policy says is ready: %v", err)
		}
		up.cut(false)
		time.Sleep(5 * time.Second)
		if d, err := a.Take(t.Context(), "acme", "report_export", 1); err != nil || !d.Allowed {
			t.Errorf("after its return: %+v, %v", d, err)
		}
		stop()
		if n := strings.Count(log.String(), "lost"); n != 1 {
			t.Errorf("contact lost is logged once, got %d in\n%s", n, log.String())
		}
	})
}

func TestO3SilentFailOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := newFakeUplink()
		up.class, up.outage = "best_effort", &pb.Outage{Mode: "open", AfterUs: 1_000_000, ForUs: 60_000_000}
		registry := prometheus.NewRegistry()
		var log strings.Builder
		a, stop := start(t, up, func(c *Config) {
			c.Metrics, c.Logger = registry, slog.New(slog.NewTextHandler(&log, nil))
		})
		if _, err := a.Take(t.Context(), "acme", "report_export", 1); err != nil {
			t.Fatal(err)
		}
		up.cut(true)
		time.Sleep(30 * time.Second)
		for range 100 {
			d, err := a.Take(t.Context(), "acme", "report_export", 1)
			if err != nil || !d.Allowed || d.Reason != quota.OpenMode {
				t.Fatalf("not marked: %+v, %v", d, err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if n := testutil.ToFloat64(a.seen.open.WithLabelValues("report_export")); n != 100 {
			t.Errorf("counted %v of 100", n)
		}
		if n := strings.Count(log.String(), "outage mode open"); n < 1 || n > 2 {
			t.Errorf("logged %d times in a second", n)
		}
		time.Sleep(time.Minute) // `for` is over
		if _, err := a.Take(t.Context(), "acme", "report_export", 1); err == nil {
			t.Error("open for ever")
		}
		up.cut(false)
		time.Sleep(5 * time.Second)
		stop()
		if got := up.confirmed(); got != 101 {
			t.Errorf("reported %d of 101", got)
		}
	})
}

func TestD6StopReportsAndReturnsEverything(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]time.Duration{"at once": 0, "control plane away for 3 s": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				up := newFakeUplink()
				a, stop := start(t, up)
				for range 37 {
					if d, err := a.Take(t.Context(), "acme", "report_export", 1); err != nil || !d.Allowed {
						t.Fatalf("%+v, %v", d, err)
					}
				}
				up.cut(away > 0)
				go func() {
					time.Sleep(away)
					up.cut(false)
				}()
				stop()
				if got := up.confirmed(); got != 37 {
					t.Errorf("reported %d of 37", got)
				}
				if up.granted != 37 {
					t.Errorf("%d units were not returned", up.granted-37)
				}
				if _, err := a.Take(t.Context(), "acme", "report_export", 1); err == nil {
					t.Error("took after the stop")
				}
			})
		})
	}
}

func TestD6StopEndsWithoutAControlPlane(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := newFakeUplink()
		a, stop := start(t, up)
		if _, err := a.Take(t.Context(), "acme", "report_export", 1); err != nil {
			t.Fatal(err)
		}
		up.cut(true)
		began := time.Now()
		stop()
		if took := time.Since(began); took < 5*time.Second || took > 6*time.Second {
			t.Errorf("gave up after %s, the stop timeout is 5 s", took)
		}
	})
}

func TestR2_13ExactLane(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := newFakeUplink()
		up.class, up.limit = "exact", 30
		a, stop := start(t, up)
		defer stop()
		var mu sync.Mutex
		var wg sync.WaitGroup
		allowed, denied := 0, 0
		for range 50 {
			wg.Go(func() {
				d, err := a.Take(t.Context(), "acme", "report_export", 1)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err != nil:
					t.Error(err)
				case d.Allowed:
					allowed++
				default:
					denied++
				}
			})
		}
		wg.Wait()
		if allowed != 30 || denied != 20 {
			t.Errorf("%d allowed and %d denied of 30", allowed, denied)
		}
	})
}

func TestAnAbandonedSpendIsTakenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := newFakeUplink()
		up.class, up.limit, up.rtt = "exact", 30, 50*time.Millisecond
		a, stop := start(t, up)
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if d, err := a.Take(ctx, "acme", "report_export", 5); err == nil {
			t.Fatalf("nobody knows yet, but was told %+v", d)
		}
		time.Sleep(time.Second)
		stop()
		if up.granted != 0 {
			t.Errorf("%d units stay charged that nobody was told of", up.granted)
		}
	})
}

func TestW3ANoticeLiftsADenialAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := newFakeUplink()
		up.limit = 10
		a, stop := start(t, up)
		defer stop()
		for range 20 {
			if _, err := a.Take(t.Context(), "acme", "report_export", 1); err != nil {
				t.Fatal(err)
			}
		}
		up.mu.Lock()
		up.limit, up.gen = 20, 2
		up.mu.Unlock()
		up.notices <- &pb.WatchReply{Notices: []*pb.Notice{{Key: &pb.Key{Tenant: "acme", Dimension: "report_export"}, Generation: 2}}}
		synctest.Wait()
		if d, err := a.Take(t.Context(), "acme", "report_export", 1); err != nil || !d.Allowed {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

func TestBadInputNamesTheFieldAndMakesNoState(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := newFakeUplink()
		a, stop := start(t, up)
		defer stop()
		time.Sleep(time.Second)
		for _, c := range []struct {
			tenant, dimension string
			cost              int64
			field             string
		}{
			{"", "report_export", 1, "tenant"},
			{"a\x00b", "report_export", 1, "tenant"},
			{"acme", "", 1, "dimension"},
			{"acme", "no_such", 1, "dimension"},
			{"acme", "report_export", -1, "cost"},
			{"acme", "report_export", MaxCost + 1, "cost"},
		} {
			_, err := a.Take(t.Context(), c.tenant, c.dimension, c.cost)
			var field *quota.FieldError
			if !errors.As(err, &field) || field.Field != c.field {
				t.Errorf("%q %q %d: want field %s, got %v", c.tenant, c.dimension, c.cost, c.field, err)
			}
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		if n := a.core.Stats(a.now()).Keys; n != 0 {
			t.Errorf("%d keys were made", n)
		}
	})
}

func TestM1MetricsDoNotGrowWithTenants(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := newFakeUplink()
		registry := prometheus.NewRegistry()
		a, stop := start(t, up, func(c *Config) { c.Metrics = registry })
		defer stop()
		series := func(tenants ...string) int {
			for _, name := range tenants {
				if _, err := a.Take(t.Context(), name, "report_export", 1); err != nil {
					t.Fatal(err)
				}
			}
			n, err := testutil.GatherAndCount(registry)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		if one, more := series("a"), series("b", "c", "d", "e", "f"); one != more {
			t.Errorf("%d series with one tenant, %d with six", one, more)
		}
	})
}

func BenchmarkTakeHotKey(b *testing.B) {
	up := newFakeUplink()
	up.limit = 1 << 50
	a, err := New(Config{Name: "a", Region: "eu"}, hugeLease{up})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	for {
		if d, err := a.Take(ctx, "acme", "report_export", 1); err == nil && d.Allowed {
			break
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if d, err := a.Take(ctx, "acme", "report_export", 1); err != nil || !d.Allowed {
			b.Fatal(d, err)
		}
	}
	cancel()
	<-done
}

// hugeLease grants a lease that no benchmark empties.
type hugeLease struct{ *fakeUplink }

func (h hugeLease) Sync(ctx context.Context, req *pb.SyncRequest) (*pb.SyncReply, error) {
	reply, err := h.fakeUplink.Sync(ctx, req)
	for _, d := range reply.GetDecisions() {
		d.Amount, d.TtlUs = 1<<50, 3_600_000_000
	}
	return reply, err
}

// skewedUplink is a control plane whose clock is an hour ahead of this machine's.
type skewedUplink struct{ *fakeUplink }

func (s skewedUplink) Sync(ctx context.Context, req *pb.SyncRequest) (*pb.SyncReply, error) {
	reply, err := s.fakeUplink.Sync(ctx, req)
	if err == nil {
		reply.LedgerNowUs += time.Hour.Microseconds()
	}
	return reply, err
}

func TestAWallClockThatIsOffIsWarnedOfAndNotUsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		a, stop := start(t, skewedUplink{newFakeUplink()}, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		for range 3 {
			if d, err := a.Take(t.Context(), "acme", "report_export", 1); err != nil || !d.Allowed {
				t.Fatalf("%+v, %v", d, err)
			}
			time.Sleep(10 * time.Second)
		}
		a.mu.Lock()
		offset := a.core.LedgerTime(a.now()).Sub(time.Now())
		a.mu.Unlock()
		stop()
		if offset < time.Hour-time.Second || offset > time.Hour+time.Second {
			t.Errorf("the estimate is %s from the wall clock, want an hour", offset)
		}
		if n := strings.Count(log.String(), "wall clock is off"); n != 1 {
			t.Errorf("warned %d times:\n%s", n, log.String())
		}
	})
}
