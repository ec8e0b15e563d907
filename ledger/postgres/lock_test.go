package postgres_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/postgres"
)

// Two batches name accounts in opposite orders, a hundred times: the server sees no deadlock.
func TestP1LockOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a, b := endless("a"), endless("b")
	var wg sync.WaitGroup
	for _, order := range [][]ledger.AccountID{{a, b}, {b, a}} {
		wg.Go(func() {
			for range 100 {
				_, err := lease(f.Context(), f.store, []ledger.Ask{ask(t, order[0], 1), ask(t, order[1], 1)}, terms())
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := f.number("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"); n != 0 {
		t.Errorf("the server saw %d deadlocks", n)
	}
	for _, id := range []ledger.AccountID{a, b} {
		if got := f.account(id).Outstanding; got != 200 {
			t.Errorf("%s has %d units outstanding, want 200", id, got)
		}
	}
	f.verified()
}

func TestP2FirstGrants(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := endless("new")
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			answers, err := lease(f.Context(), f.store, []ledger.Ask{ask(t, id, 3)}, terms())
			if err != nil || !answers[0].Approved() {
				t.Errorf("first grant: %v, %v", answers, err)
			}
		})
	}
	wg.Wait()
	if n := f.number("SELECT count(*) FROM account"); n != 1 {
		t.Errorf("%d rows were made for one account", n)
	}
	if got := f.account(id); got.Granted != 300 || got.Outstanding != 300 {
		t.Errorf("granted %d, outstanding %d, want 300 and 300", got.Granted, got.Outstanding)
	}
	f.verified()
}

func TestP3DeadLockHolder(t *testing.T) {
	t.Parallel()
	impatient := func(_ *pgxpool.Config, o *postgres.Options) { o.LockTimeout = 100 * time.Millisecond }
	f := newFixture(t, impatient)
	id := endless("stuck")
	first, err := lease(f.Context(), f.store, []ledger.Ask{ask(t, id, 1)}, terms())
	f.must(err)

	holder, err := pgx.Connect(f.Context(), f.dsn)
	f.must(err)
	_, err = holder.Exec(f.Context(), "BEGIN")
	f.must(err)
	_, err = holder.Exec(f.Context(), "SELECT 1 FROM account FOR UPDATE")
	f.must(err)
	began := time.Now()
	_, err = lease(f.Context(), f.store, []ledger.Ask{ask(t, id, 1)}, terms())
	if !errors.Is(err, postgres.ErrUnavailable) {
		t.Errorf("a held lock gives %v, want ErrUnavailable: an outage, not a denial", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the caller waited %s for a lock", took)
	}
	f.must(holder.Close(f.Context()))
	again, err := lease(f.Context(), f.store, []ledger.Ask{ask(t, id, 1)}, terms())
	if err != nil || again[0].Account.Granted != first[0].Account.Granted+1 {
		t.Errorf("after the holder's death: %v, %v", again, err)
	}
}

// A replica that hangs in the middle of a transaction, its connection open, loses its locks.
func TestP3HungReplica(t *testing.T) {
	t.Parallel()
	brief := func(_ *pgxpool.Config, o *postgres.Options) { o.Timeout = time.Second }
	f := newFixture(t)
	pool, hung := f.open(brief)
	f.must(pool.Ping(f.Context()))
	id := endless("stuck")
	locked, release := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		var once sync.Once
		ended <- hung.Update(f.Context(), ledger.Scope{Accounts: []ledger.AccountID{id}}, func(b *ledger.Book) error {
			once.Do(func() { close(locked) })
			<-release
			_, err := b.Open(id, terms())
			return err
		})
	}()
	select {
	case <-locked:
	case err := <-ended:
		t.Fatalf("the replica did not come to hang: %v", err)
	}
	_, err := lease(f.Context(), f.store, []ledger.Ask{ask(t, id, 1)}, terms())
	if err != nil {
		t.Errorf("the server did not free the locks of a client that hangs: %v", err)
	}
	close(release)
	if err := <-ended; err != nil {
		t.Errorf("the replica that woke up runs its batch again: %v", err)
	}
	f.verified()
}

// One hot tenant: 64 callers at once, none of which fails or waits for a lock in vain.
func TestP4HotTenant(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(_ *pgxpool.Config, o *postgres.Options) {
		o.LockTimeout, o.Timeout = 20*time.Second, 30*time.Second
	})
	id := endless("hot")
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			asks := make([]ledger.Ask, 16)
			for i := range asks {
				asks[i] = ask(t, id, 1)
			}
			if _, err := lease(f.Context(), f.store, asks, terms()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := f.account(id).Granted; got != 64*16 {
		t.Errorf("granted %d, want %d", got, 64*16)
	}
	f.verified()
}

// More callers than connections: each needs one, so all get through (O8).
func TestO8PoolSmallerThanCallers(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(cfg *pgxpool.Config, _ *postgres.Options) { cfg.MaxConns = 2 })
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := lease(f.Context(), f.store, []ledger.Ask{ask(t, endless("busy"), 1)}, terms()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// The pool is taken and nobody gives a connection back: callers get an outage in time.
func TestO2SlowStore(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(cfg *pgxpool.Config, o *postgres.Options) {
		cfg.MaxConns, o.Timeout = 1, 200*time.Millisecond
	})
	conn, err := f.pool.Acquire(f.Context())
	f.must(err)
	_, err = lease(f.Context(), f.store, []ledger.Ask{ask(t, endless("x"), 1)}, terms())
	if !errors.Is(err, postgres.ErrUnavailable) {
		t.Errorf("Update = %v, want ErrUnavailable", err)
	}
	_, err = f.store.Events(f.Context(), 0, 1)
	if !errors.Is(err, postgres.ErrUnavailable) {
		t.Errorf("Events = %v, want ErrUnavailable", err)
	}
	conn.Release()
	if _, err := lease(f.Context(), f.store, []ledger.Ask{ask(t, endless("x"), 1)}, terms()); err != nil {
		t.Errorf("after the store is back: %v", err)
	}
}

// A demoted primary answers, but read only: the pool forgets its connections (O1).
func TestO1DemotedPrimary(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec("SELECT 1")
	before := f.pool.Stat().NewConnsCount()
	f.exec("ALTER DATABASE " + f.pool.Config().ConnConfig.Database + " SET default_transaction_read_only = on")
	f.pool.Reset()
	_, err := lease(f.Context(), f.store, []ledger.Ask{ask(t, endless("x"), 1)}, terms())
	if !errors.Is(err, postgres.ErrUnavailable) {
		t.Errorf("a read-only server gives %v, want ErrUnavailable", err)
	}
	admin, err := pgx.Connect(f.Context(), f.dsn)
	f.must(err)
	defer admin.Close(f.Context())
	_, err = admin.Exec(f.Context(), "SET default_transaction_read_only = off")
	f.must(err)
	_, err = admin.Exec(f.Context(), "ALTER DATABASE "+f.pool.Config().ConnConfig.Database+" RESET default_transaction_read_only")
	f.must(err)
	if _, err := lease(f.Context(), f.store, []ledger.Ask{ask(t, endless("x"), 1)}, terms()); err != nil {
		t.Errorf("after the promotion: %v", err)
	}
	if after := f.pool.Stat().NewConnsCount(); after <= before {
		t.Errorf("no new connection was made: %d before, %d after", before, after)
	}
}

func TestCallerThatCancels(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx, cancel := context.WithCancel(f.Context())
	cancel()
	_, err := lease(ctx, f.store, []ledger.Ask{ask(t, endless("x"), 1)}, terms())
	if !errors.Is(err, context.Canceled) || errors.Is(err, postgres.ErrUnavailable) {
		t.Errorf("Update = %v, want the caller's own cancellation", err)
	}
}
