package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/controlplane"
	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/memory"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// realPlane is an uplink to the real control plane over a ledger in memory, in this process.
// It has no Watch: what agents hear, they hear from their Syncs.
type realPlane struct {
	cp    *controlplane.ControlPlane
	store *memory.Store
	down  atomic.Bool
}

func newRealPlane(t *testing.T, text string) *realPlane {
	t.Helper()
	store, log := memory.New(time.Now), policy.NewMemoryLog(time.Now)
	doc, err := policy.Parse([]policy.File{{Name: "test.yaml", Text: []byte(text)}}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	version, _, err := policy.Apply(t.Context(), log, doc, policy.SourceCLI, "tester", "test")
	if err != nil {
		t.Fatal(err)
	}
	store.SetPolicyVersion(version)
	cfg := controlplane.DefaultConfig()
	cfg.Store, cfg.Reader, cfg.Keeper, cfg.Billing, cfg.Policies = store, store, store, store, log
	p := &realPlane{store: store}
	if p.cp, err = controlplane.New(cfg); err != nil {
		t.Fatal(err)
	}
	if err := p.cp.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *realPlane) wait(ctx context.Context) error {
	if p.down.Load() {
		return errors.New("connection refused")
	}
	select {
	case <-time.After(2 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *realPlane) Sync(ctx context.Context, req *pb.SyncRequest) (*pb.SyncReply, error) {
	if err := p.wait(ctx); err != nil {
		return nil, err
	}
	return p.cp.Desk().Sync(ctx, req)
}

func (p *realPlane) Spend(ctx context.Context, req *pb.SpendRequest) (*pb.SpendReply, error) {
	if err := p.wait(ctx); err != nil {
		return nil, err
	}
	return p.cp.Desk().Spend(ctx, req)
}

func (p *realPlane) Defer(ctx context.Context, req *pb.DeferRequest) (*pb.DeferReply, error) {
	if err := p.wait(ctx); err != nil {
		return nil, err
	}
	return p.cp.Defer(ctx, req)
}

func (p *realPlane) Watch(ctx context.Context, _ *pb.WatchRequest, _ func(*pb.WatchReply)) error {
	<-ctx.Done()
	return ctx.Err()
}

func (p *realPlane) account(t *testing.T, dimension string) ledger.Account {
	t.Helper()
	found, err := p.store.Accounts(t.Context(), ledger.AccountQuery{Tenant: "acme", Dimension: dimension})
	if err != nil || len(found) == 0 {
		t.Fatal(found, err)
	}
	return found[0]
}

const jobsPolicy = `
dimensions:
  - name: batch_jobs
    kind: concurrency
    limit: 20
    max_hold: 1h
    class: hard
    lease: {ttl: 10s}
  - name: daily_jobs
    kind: period
    limit: 50000
    period: {every: day}
    class: hard
    lease: {ttl: 10s}
operations:
  - name: run_job
    takes: [{dimension: batch_jobs}, {dimension: daily_jobs, cost: 2}]
`

func TestR2_12ManyJobsBeginAndEndAtTwoAgents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newRealPlane(t, jobsPolicy)
		a, stopA := start(t, p)
		b, stopB := start(t, p)
		var running, most, began atomic.Int64
		var wg sync.WaitGroup
		for i := range 60 {
			agent := []*Agent{a, b}[i%2]
			wg.Go(func() {
				for range 5 {
					permit, err := agent.Acquire(t.Context(), Acquire{Tenant: "acme", Operation: "run_job", Times: 1, Wait: time.Hour})
					if err != nil || !permit.Allowed {
						t.Errorf("%+v, %v", permit, err)
						return
					}
					began.Add(1)
					for n := running.Add(1); ; {
						if was := most.Load(); n <= was || most.CompareAndSwap(was, n) {
							break
						}
					}
					time.Sleep(100 * time.Millisecond)
					running.Add(-1)
					if err := agent.Release("acme", permit.ID); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if began.Load() != 300 || most.Load() > 20 || most.Load() < 15 {
			t.Errorf("%d jobs ran, at most %d at once, want 300 and nearly 20", began.Load(), most.Load())
		}
		stopA()
		stopB()
		if acc := p.account(t, "daily_jobs"); acc.Settled() != 600 {
			t.Errorf("the day's total is %+v, want 300 jobs of cost 2", acc.Tally)
		}
		if acc := p.account(t, "batch_jobs"); acc.Headroom() != 20 {
			t.Errorf("all have ended: %+v", acc.Tally)
		}
	})
}

func TestR1_11ABlockedAcquireIsCountedApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newRealPlane(t, jobsPolicy)
		a, stop := start(t, p)
		defer stop()
		all := Acquire{Tenant: "acme", Takes: []core.DimensionCost{{Dimension: "batch_jobs", Cost: 20}}}
		held, err := a.Acquire(t.Context(), all)
		if err != nil || !held.Allowed || held.Expires != time.Hour {
			t.Fatalf("%+v, %v", held, err)
		}
		denied, err := a.Acquire(t.Context(), Acquire{Tenant: "acme", Operation: "run_job", Times: 1})
		if err != nil || denied.Allowed || denied.ID != "" || denied.Dimension != "batch_jobs" || denied.Reason != quota.Exhausted || denied.RetryAfter() != 0 {
			t.Errorf("blocked at the permit, and nobody knows for how long: %+v, %v", denied, err)
		}
		if n := testutil.ToFloat64(a.seen.denial.WithLabelValues("batch_jobs", "exhausted")); n != 1 {
			t.Errorf("counted %v times", n)
		}
		began := time.Now()
		late, err := a.Acquire(t.Context(), Acquire{Tenant: "acme", Operation: "run_job", Times: 1, Wait: 3 * time.Second})
		if err != nil || late.Allowed || time.Since(began) != 3*time.Second {
			t.Errorf("after %s of 3: %+v, %v", time.Since(began), late, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if d, err := a.Acquire(ctx, Acquire{Tenant: "acme", Operation: "run_job", Times: 1, Wait: time.Hour}); err != nil || d.Allowed || time.Since(began) != time.Second {
			t.Errorf("the caller's deadline holds: after %s: %+v, %v", time.Since(began), d, err)
		}
		time.Sleep(time.Minute)
		if left, err := a.Renew("acme", held.ID); err != nil || left != time.Hour {
			t.Errorf("%s, %v", left, err)
		}
		for range 2 {
			if err := a.Release("acme", held.ID); err != nil {
				t.Error(err)
			}
		}
		if n := testutil.CollectAndCount(a.seen, "quotalease_agent_permit_held_seconds", "quotalease_agent_permit_slots"); n != 2 {
			t.Errorf("%d series of ended permits, want 2", n)
		}
		time.Sleep(time.Second)
		found, err := p.store.Accounts(t.Context(), ledger.AccountQuery{Tenant: "acme", Dimension: "daily_jobs"})
		if err != nil || len(found) > 0 && found[0].Settled() > 0 {
			t.Errorf("denied jobs were counted: %v, %v", found, err)
		}
	})
}

func TestAnAcquireRepeatedWhileItWaitsGetsTheSamePermit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newRealPlane(t, jobsPolicy)
		a, stop := start(t, p)
		defer stop()
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				permit, err := a.Acquire(t.Context(), Acquire{ID: "job 1", Tenant: "acme", Takes: []core.DimensionCost{{Dimension: "batch_jobs", Cost: 3}}})
				if err != nil || !permit.Allowed || permit.ID != "job 1" {
					t.Errorf("%+v, %v", permit, err)
				}
			})
		}
		wg.Wait()
		a.mu.Lock()
		running := a.core.Stats(a.now()).Running["batch_jobs"]
		a.mu.Unlock()
		if running != 3 {
			t.Errorf("%d slots are in use, want 3", running)
		}
		if err := a.Release("bolt", "job 1"); err == nil {
			t.Error("another tenant's permit")
		}
		if err := a.Release("acme", "job 1"); err != nil {
			t.Error(err)
		}
	})
}

func TestBadAcquiresNameTheirField(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, stop := start(t, newRealPlane(t, jobsPolicy))
		defer stop()
		slot := []core.DimensionCost{{Dimension: "batch_jobs", Cost: 1}}
		for field, r := range map[string]Acquire{
			"tenant":    {Takes: slot},
			"takes":     {Tenant: "acme"},
			"cost":      {Tenant: "acme", Takes: []core.DimensionCost{{Dimension: "batch_jobs"}}},
			"dimension": {Tenant: "acme", Takes: []core.DimensionCost{{Dimension: "daily_jobs", Cost: 1}}},
			"operation": {Tenant: "acme", Operation: "fly", Times: 1},
			"times":     {Tenant: "acme", Operation: "run_job"},
			"hold":      {Tenant: "acme", Takes: slot, Hold: -1},
			"wait":      {Tenant: "acme", Takes: slot, Wait: 2 * time.Hour},
			"id":        {Tenant: "acme", Takes: slot, ID: strings.Repeat("x", 129)},
		} {
			var bad *quota.FieldError
			if _, err := a.Acquire(t.Context(), r); !errors.As(err, &bad) || bad.Field != field {
				t.Errorf("%s: %v", field, err)
			}
		}
		if _, err := a.TakeOperation(t.Context(), "acme", "run_job", 1); err == nil {
			t.Error("a slot was taken that nobody could give back")
		}
		if _, err := a.Renew("acme", "none"); err == nil {
			t.Error("renewed what is not there")
		}
	})
}

func TestO3WhatAnAllowanceLetsThroughIsMarkedCountedAndLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newRealPlane(t, `
dimensions:
  - name: exports
    kind: period
    limit: 1000
    period: {every: day}
    class: hard
    lease: {ttl: 4s, max: 5}
    outage: {mode: extend, after: 1s, rate: 10/s, budget: 100}
`)
		var log bytes.Buffer
		a, stop := start(t, p, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		if d, err := a.Take(t.Context(), "acme", "exports", 1); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
		time.Sleep(time.Second)
		p.down.Store(true)
		time.Sleep(10 * time.Second)
		extended := 0
		for range 100 {
			if d, err := a.Take(t.Context(), "acme", "exports", 1); err == nil && d.Allowed {
				if d.Reason != quota.Extended {
					t.Fatalf("not marked: %+v", d)
				}
				extended++
			}
			time.Sleep(20 * time.Millisecond)
		}
		if n := testutil.ToFloat64(a.seen.extended.WithLabelValues("exports")); int(n) != extended || extended < 20 || extended > 32 {
			t.Errorf("%d passed in 2 s at 10 a second, counted %v", extended, n)
		}
		if n := strings.Count(log.String(), "outage mode extend"); n < 1 || n > 3 {
			t.Errorf("logged %d times in 2 s", n)
		}
		p.down.Store(false)
		time.Sleep(5 * time.Second)
		stop()
		if acc := p.account(t, "exports"); int(acc.Extended) != extended || acc.Emergency != acc.Extended {
			t.Errorf("%d passed, the ledger has %+v", extended, acc.Tally)
		}
	})
}

func BenchmarkAcquireRelease(b *testing.B) {
	up := &countingJobs{}
	a, err := New(Config{Name: "a", Region: "eu"}, up)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	r := Acquire{Tenant: "acme", Takes: []core.DimensionCost{{Dimension: "jobs", Cost: 1}}}
	for i := 0; b.Loop(); i++ {
		r.ID = fmt.Sprint(i)
		if p, err := a.Acquire(ctx, r); err != nil || !p.Allowed {
			b.Fatal(p, err)
		}
		if err := a.Release("acme", r.ID); err != nil {
			b.Fatal(err)
		}
	}
	cancel()
	<-done
}

// countingJobs is an uplink that grants every slot that is asked for.
type countingJobs struct{}

func (c *countingJobs) Sync(_ context.Context, req *pb.SyncRequest) (*pb.SyncReply, error) {
	reply := &pb.SyncReply{Token: []byte("t"), LedgerNowUs: time.Now().UnixMicro()}
	if req.GetHello().GetPolicyVersion() == 0 {
		reply.Catalogue = &pb.Catalogue{PolicyVersion: 1, Dimensions: []*pb.Dimension{{Name: "jobs", Kind: "concurrency", Class: "hard",
			Limit: 1000, TtlUs: 10_000_000, MaxHoldUs: 3_600_000_000, Outage: &pb.Outage{Mode: "closed"}}}}
	}
	for _, r := range req.GetReports() {
		reply.Results = append(reply.Results, &pb.ReportResult{GrantId: r.GetGrantId(), State: pb.GrantState_GRANT_STATE_LIVE})
	}
	for _, r := range req.GetRenewals() {
		reply.Renewals = append(reply.Renewals, &pb.Decision{GrantId: r.GetGrantId(), Seq: r.GetSeq(), TtlUs: 10_000_000, State: pb.GrantState_GRANT_STATE_LIVE})
	}
	for _, a := range req.GetAsks() {
		reply.Decisions = append(reply.Decisions, &pb.Decision{GrantId: a.GetGrantId(), Amount: a.GetWant(), TtlUs: 10_000_000, State: pb.GrantState_GRANT_STATE_LIVE})
	}
	return reply, nil
}

func (c *countingJobs) Defer(context.Context, *pb.DeferRequest) (*pb.DeferReply, error) {
	return nil, errors.New("nobody waits here")
}

func (c *countingJobs) Spend(context.Context, *pb.SpendRequest) (*pb.SpendReply, error) {
	return nil, errors.New("nothing is spent here")
}

func (c *countingJobs) Watch(ctx context.Context, _ *pb.WatchRequest, _ func(*pb.WatchReply)) error {
	<-ctx.Done()
	return ctx.Err()
}
