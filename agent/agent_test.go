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
		// What the lane costs its callers is shown: of each whom it served, not of those who were
		// told what is remembered.
		registry := prometheus.NewRegistry()
		registry.MustRegister(a.seen)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var served uint64
		for _, f := range families {
			if f.GetName() == "quotalease_agent_exact_lane_seconds" {
				served = f.GetMetric()[0].GetHistogram().GetSampleCount()
			}
		}
		if served < 30 || served > 50 {
			t.Errorf("the wait of %d callers is shown, want that of the 30 and of those who were denied there", served)
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
type hugeLease struct{ Uplink }

func (h hugeLease) Sync(ctx context.Context, req *pb.SyncRequest) (*pb.SyncReply, error) {
	reply, err := h.Uplink.Sync(ctx, req)
	for _, d := range reply.GetDecisions() {
		d.Amount, d.TtlUs = 1<<50, 3_600_000_000
	}
	return reply, err
}
