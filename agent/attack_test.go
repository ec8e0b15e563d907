package agent

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

func TestM1HostileDimensionNamesMakeNoSeries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := newFakeUplink()
		up.cut(true) // no policy is known yet
		registry := prometheus.NewRegistry()
		a, stop := start(t, up, func(c *Config) { c.Metrics = registry })
		time.Sleep(100 * time.Millisecond)
		hostile := func(when string) {
			for i := range 100 {
				_, _ = a.Take(t.Context(), "acme", fmt.Sprintf("%s-%d", when, i), 1)
			}
		}
		hostile("before")
		up.cut(false)
		time.Sleep(5 * time.Second)
		hostile("with-policy")
		stop()
		hostile("stopped")
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if n := len(f.GetMetric()); n > 10 {
				t.Errorf("%s has %d series", f.GetName(), n)
			}
		}
	})
}

func TestAnIdBelongsToItsTenant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, stop := start(t, newFakeUplink())
		defer stop()
		for _, tenant := range []string{"acme", "globex"} {
			if d, err := a.TakeOnce(t.Context(), "1", tenant, "report_export", 1); err != nil || !d.Allowed {
				t.Errorf("%s and its first id: %+v, %v", tenant, d, err)
			}
		}
	})
}

func TestAnOutcomeThatCameIsNotThrownAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := newFakeUplink()
		a, err := New(Config{Name: "a", Region: "eu", now: func() time.Duration { return time.Hour }}, up)
		if err != nil {
			t.Fatal(err)
		}
		answer := func() *pb.SyncReply {
			reply, err := up.Sync(t.Context(), a.core.BuildSync(a.now()))
			if err != nil {
				t.Error(err)
			}
			return reply
		}
		a.core.SyncDone(a.now(), answer())
		ctx, hangUp := context.WithCancel(t.Context())
		var got Decision
		var wg sync.WaitGroup
		wg.Go(func() { got, err = a.Take(ctx, "acme", "report_export", 1) })
		synctest.Wait()
		reply := answer()
		a.mu.Lock()
		hangUp() // and at the same moment the units come
		a.core.SyncDone(a.now(), reply)
		a.mu.Unlock()
		wg.Wait()
		if err != nil || !got.Allowed {
			t.Errorf("the unit is charged, and the caller is told %+v, %v", got, err)
		}
	})
}
