package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/quotalease/quotalease/controlplane"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// Restart is how a control plane starts on a ledger that is there.
type Restart struct {
	Accounts int     `json:"accounts"`
	Due      int     `json:"leases_due"`     // that ended while no control plane was there
	ReadyMs  float64 `json:"ready_ms"`       // until it says that it serves
	GrantMs  float64 `json:"first_grant_ms"` // until somebody who asks again and again has a lease
	HeapMB   float64 `json:"heap_mb"`        // that it holds then
	SweptMs  float64 `json:"swept_ms,omitempty"`
	GrantP99 float64 `json:"grant_p99_ms,omitempty"` // of a lone asker, while it closes what is due
}

// seeded is what the tenants of many accounts are called.
const seeded = "seeded"

const (
	seeders  = 16
	seedEach = 256 // accounts of one message
)

// seed makes accounts of which nothing is leased, unless they are there.
func (r *run) seed(ctx context.Context, n int) error {
	from := r.made
	if n <= from {
		return nil
	}
	r.o.Say(fmt.Sprintf("makes %s accounts", controlplane.Grouped(int64(n-from))))
	list := make([]int, seeders)
	err := each(list, func(i int, _ int) error {
		for at := from + i*seedEach; at < n; at += seeders * seedEach {
			a := newAsker(r.world.control, tenantName("seeder", i), seedKeys("growth", at, min(at+seedEach, n)))
			if err := a.askFor(ctx, 0, len(a.keys)); err != nil {
				return err
			}
			if err := a.settle(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("make accounts: %w", err)
	}
	r.made = n
	return nil
}

func seedKeys(dimension string, from, to int) []*pb.Key {
	var keys []*pb.Key
	for k := from; k < to; k++ {
		keys = append(keys, &pb.Key{Tenant: tenantName(seeded, k), Dimension: dimension})
	}
	return keys
}

// growRestart starts control planes on a ledger of many accounts, and on one with leases that are
// overdue. That on an almost empty one was measured before anything was made.
func (r *run) growRestart(ctx context.Context, s sizes) error {
	if !r.wanted(growRestart) {
		return nil
	}
	if err := r.seed(ctx, s.keys[len(s.keys)-1]); err != nil {
		return err
	}
	if err := r.restarts(ctx); err != nil {
		return err
	}
	return r.restartDue(ctx, s.late)
}

// restarts starts one after the other on the ledger as it is.
func (r *run) restarts(ctx context.Context) error {
	if !r.wanted(growRestart) {
		return nil
	}
	r.o.Say(fmt.Sprintf("%s: %d times", growRestart, r.o.Rounds))
	var rounds []Restart
	for range r.o.Rounds {
		got, err := r.restart(ctx)
		if err != nil {
			return fmt.Errorf("restart the control plane: %w", err)
		}
		rounds = append(rounds, got)
	}
	r.report.Restarts = append(r.report.Restarts, medianRestart(rounds))
	return nil
}

func medianRestart(rounds []Restart) Restart {
	of := func(number func(Restart) float64) float64 {
		var all []float64
		for _, m := range rounds {
			all = append(all, number(m))
		}
		return median(all)
	}
	return Restart{Accounts: rounds[0].Accounts, ReadyMs: of(func(m Restart) float64 { return m.ReadyMs }),
		GrantMs: of(func(m Restart) float64 { return m.GrantMs }), HeapMB: of(func(m Restart) float64 { return m.HeapMB })}
}

// restart ends the control plane, and measures the one that takes its place.
func (r *run) restart(ctx context.Context) (got Restart, err error) {
	if got.Accounts, err = r.accounts(ctx); err != nil {
		return got, err
	}
	if err := r.world.close(); err != nil {
		return got, err
	}
	err = r.start(ctx, &got)
	return got, err
}

func (r *run) accounts(ctx context.Context) (n int, err error) {
	if err := r.world.pool.QueryRow(ctx, "SELECT count(*) FROM account").Scan(&n); err != nil {
		return 0, fmt.Errorf("count accounts: %w", err)
	}
	return n, nil
}

// start starts one, and asks it for a lease until it grants one.
func (r *run) start(ctx context.Context, got *Restart) error {
	before := heap()
	began := r.meter.now()
	w, err := startReplica(ctx, r.dsn)
	if err != nil {
		return err
	}
	w.program, w.tenants = r.world.program, r.world.tenants // the scenes after this one need them
	r.world = w
	ready := make(chan time.Duration, 1)
	looking, stop := context.WithTimeout(ctx, stopPatience)
	defer stop()
	go func() {
		defer close(ready)
		if until(looking, func() bool { return w.control.Ready() == nil }) {
			ready <- r.meter.now().Sub(began)
		}
	}()
	a := newAsker(w.control, "restart", []*pb.Key{{Tenant: "restart", Dimension: "growth"}})
	var refused error
	granted := until(looking, func() bool { refused = a.ask(looking, 1); return refused == nil })
	got.GrantMs = millis(r.meter.now().Sub(began))
	at, serves := <-ready
	if !granted || !serves {
		return errors.Join(fmt.Errorf("wait for the first grant, for %s: %w", stopPatience, errors.Join(refused, w.control.Ready())), ctx.Err())
	}
	got.ReadyMs = millis(at)
	got.HeapMB = max(0, float64(heap())-float64(before)) / (1 << 20)
	return a.settle(ctx)
}

// until tries again and again, and says whether it came true.
func until(ctx context.Context, done func() bool) bool {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
	}
	return true
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// late is leases that end while no control plane is there.
type late struct {
	dimension string
	leases    int
	after     time.Duration // which they are to be closed: their ttl and the grace
}

// restartDue has leases end while no control plane is there: the next one closes them, and grants
// meanwhile.
func (r *run) restartDue(ctx context.Context, l late) error {
	r.o.Say(fmt.Sprintf("%s: %s leases end meanwhile", growRestart, controlplane.Grouped(int64(l.leases))))
	due, err := r.leaveDue(ctx, l)
	if err != nil {
		return fmt.Errorf("lease what will be due: %w", err)
	}
	got := Restart{Due: due}
	if got.Accounts, err = r.accounts(ctx); err != nil {
		return err
	}
	if err := r.world.close(); err != nil {
		return err
	}
	closed, err := r.world.counted("leases_closed_total") // some may have been early
	if err != nil {
		return err
	}
	got.Due -= int(closed)
	pause := time.NewTimer(l.after)
	defer pause.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-pause.C:
	}
	began := r.meter.now()
	if err := r.start(ctx, &got); err != nil {
		return fmt.Errorf("restart the control plane: %w", err)
	}
	if err := r.sweep(ctx, began, &got); err != nil {
		return fmt.Errorf("ask while leases are closed: %w", err)
	}
	r.report.Restarts = append(r.report.Restarts, got)
	return nil
}

// leaveDue takes leases of many accounts, one of each, and says how many the sweeper has to close
// by its own count.
func (r *run) leaveDue(ctx context.Context, l late) (int, error) {
	closed, err := r.world.counted("leases_closed_total")
	if err != nil {
		return 0, err
	}
	return int(closed) + l.leases, each(make([]int, seeders), func(i, _ int) error {
		a := newAsker(r.world.control, tenantName("late", i), seedKeys(l.dimension, l.leases*i/seeders, l.leases*(i+1)/seeders))
		for at := 0; at < len(a.keys); at += seedEach {
			if err := a.askFor(ctx, at, min(at+seedEach, len(a.keys))); err != nil {
				return err
			}
		}
		return nil
	})
}

// sweep asks for leases until all that was due is closed.
func (r *run) sweep(ctx context.Context, began time.Time, got *Restart) error {
	a := newAsker(r.world.control, "meanwhile", []*pb.Key{{Tenant: "meanwhile", Dimension: "growth"}})
	var lasted []time.Duration
	var closed float64
	var failed error
	patience, stop := context.WithTimeout(ctx, sweepPatience)
	defer stop()
	swept := until(patience, func() bool {
		from := r.meter.now()
		if failed = a.ask(ctx, 1); failed != nil {
			return true
		}
		lasted = append(lasted, r.meter.now().Sub(from))
		closed, failed = r.world.counted("leases_closed_total")
		return failed != nil || int(closed) >= got.Due
	})
	if err := errors.Join(failed, ctx.Err()); err != nil {
		return err
	}
	if !swept {
		return fmt.Errorf("%d of %d are closed after %s", int(closed), got.Due, sweepPatience)
	}
	got.SweptMs = millis(r.meter.now().Sub(began))
	slices.Sort(lasted)
	got.GrantP99 = millis(quantile(lasted, 99))
	return a.settle(ctx)
}

// sweepPatience is how long a backlog may take.
const sweepPatience = 2 * time.Minute
