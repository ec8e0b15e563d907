//go:build linux

package chaos

import (
	"context"
	"fmt"
	"slices"
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
	all := slices.Concat(processFaults(), postgresFaults(), wireFaults(), cutFaults())
	if pooled {
		all = append(all, poolerFaults()...)
	}
	return all
}

// processFaults end and stop agents and replicas.
func processFaults() (all []*fault) {
	for _, kind := range []struct {
		group   string
		targets int
		frozen  time.Duration // at most; an agent's lease ends meanwhile, or does not
		of      func(*round) []*node
	}{
		{"agent", agents, 4 * time.Second, func(r *round) []*node { return r.agents }},
		{"control plane", replicas, 3 * time.Second, func(r *round) []*node { return r.controls }},
	} {
		restart := func(end func(*node)) func(context.Context, *round, int, time.Duration) error {
			return func(ctx context.Context, r *round, i int, lasts time.Duration) error {
				n := kind.of(r)[i]
				end(n)
				rest(ctx, lasts)
				return n.start(ctx)
			}
		}
		all = append(all,
			&fault{"SIGKILL " + kind.group, kind.group, kind.targets, 2 * time.Second, restart((*node).kill)},
			&fault{"SIGTERM " + kind.group, kind.group, kind.targets, time.Second, restart((*node).stop)},
			&fault{"SIGSTOP " + kind.group, kind.group, kind.targets, kind.frozen, func(_ context.Context, r *round, i int, lasts time.Duration) error {
				kind.of(r)[i].freeze(lasts)
				return nil
			}})
	}
	return all
}

func postgresFaults() []*fault {
	crash := func(signal syscall.Signal) func(context.Context, *round, int, time.Duration) error {
		return func(ctx context.Context, r *round, _ int, lasts time.Duration) error {
			return r.database.crash(ctx, signal, lasts)
		}
	}
	return []*fault{
		{"SIGKILL Postgres", "postgres", 1, 500 * time.Millisecond, crash(syscall.SIGKILL)},
		{"SIGQUIT Postgres", "postgres", 1, 500 * time.Millisecond, crash(syscall.SIGQUIT)},
		{"SIGSTOP Postgres", "postgres", 1, 1500 * time.Millisecond, func(_ context.Context, r *round, _ int, lasts time.Duration) error {
			r.database.freeze(lasts)
			return nil
		}},
	}
}

// wireFaults end connections or keep what is sent through them.
func wireFaults() []*fault {
	return []*fault{
		{"end of all connections to Postgres", "", replicas, 1, func(_ context.Context, r *round, i int, _ time.Duration) error {
			r.toPostgres[i].cutAll()
			return nil
		}},
		{"silence from Postgres", "to postgres", replicas, 2 * time.Second, func(ctx context.Context, r *round, i int, lasts time.Duration) error {
			r.toPostgres[i].hang()
			defer r.toPostgres[i].pass()
			rest(ctx, lasts)
			return nil
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
}

// cutFaults cut the connections of COMMITs.
func cutFaults() (all []*fault) {
	for _, c := range []cut{before, torn, after} {
		all = append(all, &fault{fmt.Sprintf("cut %s", c), "", 1, 1, func(_ context.Context, r *round, _ int, _ time.Duration) error {
			for range cutsAStep {
				r.commits.arm(c)
			}
			return nil
		}})
	}
	return all
}

func poolerFaults() []*fault {
	return []*fault{
		{"SIGKILL pgbouncer", "pooler", 1, 500 * time.Millisecond, func(ctx context.Context, r *round, _ int, lasts time.Duration) error {
			r.pooler.kill()
			rest(ctx, lasts)
			return r.pooler.start(r.ordinary)
		}},
		{"cut after COMMIT behind pgbouncer", "", 1, 1, func(_ context.Context, r *round, _ int, _ time.Duration) error {
			r.behindPooler.arm(after)
			return nil
		}},
	}
}
