package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/postgres"
)

// A replica whose clock is off decides nothing that depends on time (4.1).
func TestReplicaClockSkew(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, c := range []struct {
		off     time.Duration
		suspect bool
	}{{0, false}, {4 * time.Second, false}, {-4 * time.Second, false}, {7 * time.Second, true}, {-7 * time.Second, true}} {
		_, store := f.open(func(_ *pgxpool.Config, o *postgres.Options) {
			o.Now = func() time.Time { return time.Now().Add(c.off) }
		})
		_, err := lease(f.Context(), store, []ledger.Ask{ask(t, endless("x"), 1)}, terms())
		if got := errors.Is(err, ledger.ErrClock); got != c.suspect || (!c.suspect && err != nil) {
			t.Errorf("a clock that is off by %s gives %v, want ErrClock: %v", c.off, err, c.suspect)
		}
	}
}

// The clock is read after the wait for the lock, not before.
func TestClockIsReadUnderTheLock(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := endless("x")
	f.used(id, 1)
	holder, err := f.pool.Begin(f.Context())
	f.must(err)
	_, err = holder.Exec(f.Context(), "SELECT 1 FROM account FOR UPDATE")
	f.must(err)
	got := make(chan time.Time, 1)
	go func() {
		var now time.Time
		if err := f.store.Update(f.Context(), ledger.Scope{Accounts: []ledger.AccountID{id}}, func(b *ledger.Book) error {
			now = b.Now()
			return nil
		}); err != nil {
			t.Error(err)
		}
		got <- now
	}()
	f.eventually("somebody waits for the account", func() bool {
		return f.number("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == 1
	})
	var released time.Time
	f.must(holder.QueryRow(f.Context(), "SELECT clock_timestamp()").Scan(&released))
	f.must(holder.Commit(f.Context()))
	if now := <-got; now.Before(released) {
		t.Errorf("the clock reads %s, before the lock was free at %s", now, released)
	}
}
