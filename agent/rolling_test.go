package agent_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/controlplane"
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/memory"
	"github.com/quotalease/quotalease/ledger/quota"
)

const rollingPolicy = `
dimensions:
  - {name: exports, kind: period, limit: 4000, period: {every: day}, class: hard, overshoot: 100%, lease: {ttl: 5s}, cold: {wait: 500ms, then: deny}}
`

var rolled = quota.Key{Tenant: "acme", Dimension: "exports"}

// region is two agents behind something that sends callers to those that are ready.
type region struct {
	t     *testing.T
	plane *controlplane.ControlPlane
	store *memory.Store
	began time.Time
	spots [2]*spot
	turn  int
	used  ledger.Units
}

// spot is where one agent runs: its successor finds the same state directory.
type spot struct {
	dir   string
	agent *agent.Agent
	up    *uplink
	stop  context.CancelFunc
	over  chan error
	calls int // answered with units
}

func inRegion(t *testing.T, test func(t *testing.T, r *region)) {
	t.Helper()
	dirs := [2]string{t.TempDir(), t.TempDir()}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		r := &region{t: t, began: time.Now()}
		r.plane, r.store = control(t, rollingPolicy)
		wg.Go(func() {
			if err := r.plane.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		for i := range r.spots {
			r.spots[i] = &spot{dir: dirs[i]}
			r.start(r.spots[i])
		}
		for r.spots[0].agent.Ready() != nil || r.spots[1].agent.Ready() != nil {
			time.Sleep(time.Millisecond)
		}
		defer func() {
			for _, s := range r.spots {
				if s.stop != nil {
					r.stop(s)
				}
			}
		}()
		test(t, r)
	})
}

func (r *region) start(s *spot) {
	s.up = &uplink{control: r.plane, store: r.store}
	cfg := agent.Config{Name: "a", Region: "eu", StateDir: s.dir}
	cfg.SetNow(func() time.Duration { return time.Hour + time.Since(r.began) })
	a, err := agent.New(cfg, s.up)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(r.t.Context())
	s.agent, s.stop, s.over = a, cancel, make(chan error, 1)
	go func() { s.over <- a.Run(ctx) }()
}

func (r *region) stop(s *spot) {
	s.stop()
	s.stop = nil
	if err := <-s.over; err != nil {
		r.t.Error(err)
	}
}

// kill ends an agent of which the ledger hears nothing more, and returns once callers are sent
// elsewhere.
func (r *region) kill(s *spot) {
	s.up.cut(true)
	s.stop()
	s.stop = nil
	synctest.Wait()
}

// ask sends one caller to an agent that is ready, in turn.
func (r *region) ask() agent.Decision {
	r.t.Helper()
	for range r.spots {
		r.turn++
		s := r.spots[r.turn%len(r.spots)]
		if s.agent.Ready() != nil {
			continue
		}
		d, err := s.agent.Take(r.t.Context(), rolled.Tenant, rolled.Dimension, 1)
		if err != nil {
			r.t.Fatalf("after %d units: %v", r.used, err)
		}
		if d.Allowed {
			r.used++
			s.calls++
		}
		return d
	}
	r.t.Fatal("no agent is ready")
	return agent.Decision{}
}

// load asks a hundred times a second, and wants units each time.
func (r *region) load(span time.Duration) {
	r.t.Helper()
	for end := time.Now().Add(span); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if d := r.ask(); !d.Allowed {
			r.t.Fatalf("denied after %d of 4000 units: %+v", r.used, d)
		}
	}
}

// drain asks on until somebody is denied.
func (r *region) drain() agent.Decision {
	r.t.Helper()
	for {
		if d := r.ask(); !d.Allowed {
			return d
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (r *region) account() ledger.Account {
	r.t.Helper()
	found, err := r.store.Accounts(r.t.Context(), ledger.AccountQuery{Tenant: rolled.Tenant, Dimension: rolled.Dimension})
	if err != nil || len(found) != 1 {
		r.t.Fatal(found, err)
	}
	return found[0]
}

// TestARollingRestartUnderLoadDeniesNobodyWhileUnitsAreFree restarts both agents, one after the
// other, twice.
func TestARollingRestartUnderLoadDeniesNobodyWhileUnitsAreFree(t *testing.T) {
	t.Parallel()
	inRegion(t, func(t *testing.T, r *region) {
		r.load(3 * time.Second)
		for range 2 {
			for _, s := range r.spots {
				stopped := make(chan struct{})
				go func() {
					defer close(stopped)
					r.stop(s)
				}()
				synctest.Wait()
				r.load(500 * time.Millisecond)
				<-stopped
				r.start(s)
				if s.agent.Ready() == nil {
					t.Error("a replacement is ready before it holds what was hot")
				}
				r.load(3 * time.Second)
				if k, ok := s.agent.Known(agent.KeyTake{KeyCost: core.KeyCost{Key: rolled}}); s.agent.Ready() != nil || !ok || k.Remaining == 0 {
					t.Errorf("the replacement is not in use: %v, %+v", s.agent.Ready(), k)
				}
			}
		}
		if d := r.drain(); r.used != 4000 || d.Reason != quota.Exhausted && d.Reason != quota.LeasedOut {
			t.Errorf("denied after %d units of 4000: %+v", r.used, d)
		}
		for _, s := range r.spots {
			r.stop(s)
		}
		if a := r.account(); a.Leased+a.Spent != r.used || a.Outstanding+a.Held+a.Unleased != 0 {
			t.Errorf("callers used %d, the ledger has %+v", r.used, a.Tally)
		}
	})
}

// TestAKilledAgentsCallersGoToTheOther: what the dead one held is all that callers may lack.
func TestAKilledAgentsCallersGoToTheOther(t *testing.T) {
	t.Parallel()
	inRegion(t, func(t *testing.T, r *region) {
		r.load(3 * time.Second)
		dead, other := r.spots[0], r.spots[1]
		holdings, err := r.store.Holdings(t.Context())
		if err != nil || len(holdings) != 2 {
			t.Fatal(holdings, err)
		}
		lost := max(holdings[0].Outstanding, holdings[1].Outstanding)
		r.kill(dead)
		before := other.calls
		r.load(10 * time.Second) // beyond the dead one's leases
		if moved := other.calls - before; moved != 1000 || dead.agent.Ready() == nil {
			t.Errorf("%d of 1000 callers were served by the other", moved)
		}
		if d := r.drain(); r.used < 4000-lost || lost == 0 {
			t.Errorf("denied after %d of 4000 units, the dead agent held %d at most: %+v", r.used, lost, d)
		}
		if err := <-dead.over; err != nil {
			t.Error(err)
		}
		r.stop(other)
		a := r.account()
		if a.Leased+a.Spent+a.Held < r.used || a.Leased+a.Spent+a.Held > r.used+lost || a.Outstanding != 0 {
			t.Errorf("callers used %d, the dead agent held %d, the ledger has %+v", r.used, lost, a.Tally)
		}
	})
}
