//go:build linux

package chaos

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

const (
	agents   = 3
	replicas = 2
	// cutsAStep is how many COMMITs in a row are cut: the attempt that settles the first is
	// likely to be the second.
	cutsAStep = 3
)

// fault is a kind of fault. Faults of one group and target wait for each other; all others may
// happen at the same time.
type fault struct {
	name    string
	group   string
	targets int
	most    time.Duration // that it lasts; the start of what was killed comes on top
	do      func(ctx context.Context, r *round, target int, lasts time.Duration) error
}

// faultsOf lists the kinds, with those of a pooler if there is one.
func faultsOf(pooled bool) []*fault {
	all := []*fault{
		{"SIGKILL agent", "agent", agents, 2 * time.Second, func(ctx context.Context, r *round, i int, lasts time.Duration) error {
			return bounce(ctx, r.agents[i], lasts)
		}},
		{"SIGSTOP agent", "agent", agents, 4 * time.Second, func(_ context.Context, r *round, i int, lasts time.Duration) error {
			r.agents[i].freeze(lasts)
			return nil
		}},
		{"SIGKILL control plane", "control", replicas, 2 * time.Second, func(ctx context.Context, r *round, i int, lasts time.Duration) error {
			return bounce(ctx, r.controls[i], lasts)
		}},
		{"SIGSTOP control plane", "control", replicas, 3 * time.Second, func(_ context.Context, r *round, i int, lasts time.Duration) error {
			r.controls[i].freeze(lasts)
			return nil
		}},
		{"SIGKILL Postgres", "postgres", 1, 500 * time.Millisecond, func(ctx context.Context, r *round, _ int, lasts time.Duration) error {
			return r.database.crash(ctx, syscall.SIGKILL, lasts)
		}},
		{"SIGQUIT Postgres", "postgres", 1, 500 * time.Millisecond, func(ctx context.Context, r *round, _ int, lasts time.Duration) error {
			return r.database.crash(ctx, syscall.SIGQUIT, lasts)
		}},
		{"SIGSTOP Postgres", "postgres", 1, 1500 * time.Millisecond, func(_ context.Context, r *round, _ int, lasts time.Duration) error {
			r.database.freeze(lasts)
			return nil
		}},
		{"end of all connections to Postgres", "", replicas, 1, func(_ context.Context, r *round, i int, _ time.Duration) error {
			r.toPostgres[i].cutAll()
			return nil
		}},
		{"silence from Postgres", "to postgres", replicas, 2 * time.Second, func(ctx context.Context, r *round, i int, lasts time.Duration) error {
			return silence(ctx, r.toPostgres[i], lasts)
		}},
		{"silence to an agent", "uplinks", agents, 4 * time.Second, func(ctx context.Context, r *round, i int, lasts time.Duration) error {
			for _, w := range r.uplinks[i] {
				w.hang()
				defer w.pass()
			}
			rest(ctx, lasts)
			return nil
		}},
		{"partition of an agent", "uplinks", agents, 4 * time.Second, func(ctx context.Context, r *round, i int, lasts time.Duration) error {
			for _, w := range r.uplinks[i] {
				w.refuse(true)
				defer w.refuse(false)
			}
			rest(ctx, lasts)
			return nil
		}},
	}
	for _, c := range []cut{before, torn, after} {
		all = append(all, &fault{fmt.Sprintf("cut %s", c), "", 1, 1, func(_ context.Context, r *round, _ int, _ time.Duration) error {
			for range cutsAStep {
				r.commits.arm(c)
			}
			return nil
		}})
	}
	if pooled {
		all = append(all, &fault{"SIGKILL pgbouncer", "pooler", 1, 500 * time.Millisecond, func(ctx context.Context, r *round, _ int, lasts time.Duration) error {
			r.pooler.kill()
			rest(ctx, lasts)
			return r.pooler.start(r.ordinary)
		}}, &fault{"cut after COMMIT behind pgbouncer", "", 1, 1, func(_ context.Context, r *round, _ int, _ time.Duration) error {
			r.behindPooler.arm(after)
			return nil
		}})
	}
	return all
}

// bounce kills a process, and starts it again after a while.
func bounce(ctx context.Context, n *node, down time.Duration) error {
	n.kill()
	rest(ctx, down)
	return n.start(ctx)
}

func silence(ctx context.Context, w *wire, d time.Duration) error {
	w.hang()
	defer w.pass()
	rest(ctx, d)
	return nil
}
