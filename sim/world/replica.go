package world

import (
	"context"
	"fmt"
	"time"

	"github.com/quotalease/quotalease/controlplane"
	"github.com/quotalease/quotalease/sim/oracle"
)

// replica is one process of the control plane.
type replica struct {
	world   *World
	place   int
	starts  int
	cp      *controlplane.ControlPlane // nil while it is down
	offset  time.Duration              // of its clock
	skewed  time.Duration              // its clock is far off until then
	lagging time.Duration              // it looks for no newer policy until then
	behind  bool                       // accounts are to be brought to the policy in use
}

func (r *replica) now() time.Time {
	return epoch.Add(r.world.now + r.offset + astray(r.world.now, r.skewed))
}

// astray is how far a clock is off while it is.
func astray(now, until time.Duration) time.Duration {
	if now < until {
		return 20 * time.Second
	}
	return 0
}

// start begins a process of the replica.
func (r *replica) start() {
	w := r.world
	r.starts++
	to := &connection{database: w.database, replica: r, log: w.log}
	cfg := controlplane.DefaultConfig()
	cfg.Store, cfg.Reader, cfg.Keeper, cfg.Billing, cfg.Policies = to, to, to, to, policyLog{to}
	cfg.Retention, cfg.AccountRetention = w.setup.Retention, 48*time.Hour
	cfg.Now, cfg.Random = r.now, seeded(w.seed, 3, uint64(r.place), uint64(r.starts))
	cp, err := controlplane.New(cfg)
	if err != nil {
		w.broken(oracle.Works, "start a replica: %v", err)
		return
	}
	r.cp, r.behind = cp, true
	w.say("%s starts", replicaName(r.place))
	r.follow()
}

// every repeats a loop of the replica's for the rest of the world, whatever process is up.
func (r *replica) every(interval time.Duration, do func()) {
	// Replicas that started together do not stay together.
	step := interval + time.Duration(r.place)*interval/7
	var again func()
	again = func() {
		if r.cp != nil {
			do()
		}
		r.world.after(step, again)
	}
	r.world.after(step, again)
}

func (r *replica) loops() {
	r.every(500*time.Millisecond, r.follow)
	r.every(700*time.Millisecond, r.sweep)
	r.every(100*time.Millisecond, r.tell)
	if r.world.setup.Retention == shortRetention {
		r.every(1900*time.Millisecond, r.keep)
	}
}

// follow looks for a newer policy and brings accounts to it.
func (r *replica) follow() {
	if r.world.now < r.lagging {
		return
	}
	ctx := context.Background()
	if err := r.cp.Refresh(ctx); err != nil || !r.behind {
		return
	}
	version := r.world.version
	if err := r.cp.Reconcile(ctx); err == nil && version == r.world.version {
		r.behind = false
	}
}

func (r *replica) sweep() {
	_, err := r.cp.Sweep(context.Background())
	r.world.expectOutage(err, "sweep")
}

// keep folds and deletes, unless the database is ahead by more than the ledger remembers.
func (r *replica) keep() {
	if r.world.now < r.world.database.astray {
		return
	}
	r.world.expectOutage(r.cp.Keep(context.Background()), "keep")
}

// tell passes on what the journal says.
func (r *replica) tell() {
	if err := r.cp.Poll(context.Background()); err != nil {
		return
	}
	for _, n := range r.world.running {
		if n.listens == r {
			n.hear()
		}
	}
}

// crash ends the process; all that it knew is gone.
func (r *replica) crash() {
	r.cp = nil
	for _, n := range r.world.running {
		if n.listens == r {
			n.unhook()
		}
	}
}

func (r *replica) String() string { return fmt.Sprintf("r%d", r.place+1) }
