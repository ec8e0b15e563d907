package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quotalease/quotalease/agent/core"
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
		a.synced(answer())
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

func TestAPermitThatNobodyHeardOfIsNotKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, err := New(Config{Name: "a", Region: "eu", now: func() time.Duration { return time.Hour }}, newFakeUplink())
		if err != nil {
			t.Fatal(err)
		}
		asks := func() []*pb.Ask { return a.core.BuildSync(a.now()).GetAsks() }
		asks()
		a.synced(&pb.SyncReply{Catalogue: &pb.Catalogue{PolicyVersion: 3, Dimensions: []*pb.Dimension{
			{Name: "credits", Kind: "period", Class: "hard", Limit: 100, Period: &pb.Period{Every: "day"}, TtlUs: 10_000_000, Cold: &pb.Cold{WaitUs: 10_000, Then: "deny"}},
			{Name: "jobs", Kind: "concurrency", Class: "hard", Limit: 1, TtlUs: 10_000_000, MaxHoldUs: 3_600_000_000},
		}}})
		job := Acquire{ID: "job-1", Tenant: "acme", Takes: []core.DimensionCost{{Dimension: "credits", Cost: 4}, {Dimension: "jobs", Cost: 1}}}
		ctx, hangUp := context.WithCancel(t.Context())
		defer hangUp()
		var wg sync.WaitGroup
		wg.Go(func() { _, err = a.Acquire(ctx, job) })
		var granted int64
		for range 2 { // first the units, then the slot
			synctest.Wait()
			reply := &pb.SyncReply{}
			for _, ask := range asks() {
				if ask.GetKey().GetDimension() == "credits" {
					granted += ask.GetWant()
				}
				reply.Decisions = append(reply.Decisions, &pb.Decision{GrantId: ask.GetGrantId(), Amount: ask.GetWant(), State: pb.GrantState_GRANT_STATE_LIVE, TtlUs: 10_000_000})
			}
			a.mu.Lock()
			a.core.SyncDone(a.now(), reply)
			if a.core.Stats(a.now()).Running["jobs"] == 1 {
				hangUp() // at the moment at which the work may begin
			}
			a.mu.Unlock()
		}
		wg.Wait()
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("the caller has left, and is told %v", err)
		}
		if s := a.core.Stats(a.now()); s.Running["jobs"] != 0 {
			t.Errorf("%d slots are in use by nobody, until the permit lapses in an hour", s.Running["jobs"])
		}
		if left := a.core.Stats(a.now()).InHand["credits"]; left != granted || granted == 0 {
			t.Errorf("%d of %d credits are in hand, and the work never began", left, granted)
		}
		again, err := a.Acquire(t.Context(), job)
		if err != nil || !again.Allowed || again.ID != "job-1" {
			t.Errorf("the same caller tries again: %+v, %v", again, err)
		}
	})
}
