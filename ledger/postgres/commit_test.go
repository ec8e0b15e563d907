package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/postgres"
)

// failAtCommit makes the first commits that insert a grant fail with a serialization error,
// at COMMIT itself.
func (f *fixture) failAtCommit(times int) {
	f.Helper()
	f.exec("CREATE SEQUENCE attempt")
	f.exec(`CREATE FUNCTION fail_at_commit() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF nextval('attempt') <= TG_ARGV[0]::bigint THEN
				RAISE EXCEPTION 'made to fail' USING ERRCODE = '40001';
			END IF;
			RETURN NULL;
		END $$`)
	f.exec(`CREATE CONSTRAINT TRIGGER fail AFTER INSERT ON lease_grant
		DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fail_at_commit(` + strconv.Itoa(times) + `)`)
}

func TestD5RetryAfter40001(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.failAtCommit(1)
	id := endless("retry")
	runs := 0
	a := ask(t, id, 7)
	scope := ledger.Scope{Accounts: []ledger.AccountID{id}, Grants: []ledger.ID{a.ID}}
	f.must(f.store.Update(f.Context(), scope, func(b *ledger.Book) error {
		runs++
		_, err := b.Ask(a, terms(), most)
		return err
	}))
	if runs != 2 {
		t.Errorf("the batch ran %d times, want 2", runs)
	}
	if got := f.account(id); got.Granted != 7 || got.Outstanding != 7 {
		t.Errorf("granted %d, outstanding %d after the second attempt, want 7 and 7", got.Granted, got.Outstanding)
	}
	if n := f.number("SELECT count(*) FROM lease_grant WHERE id = $1", a.ID); n != 1 {
		t.Errorf("%d grants were written, want 1", n)
	}
	if n := f.number("SELECT count(*) FROM participant"); n != 1 {
		t.Errorf("%d participants were written, want 1", n)
	}
	f.verified()
}

// A conflict that never ends is an outage, not a success of nothing.
func TestD5ConflictThatNeverEnds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.failAtCommit(9)
	_, err := lease(f.Context(), f.store, []ledger.Ask{ask(t, endless("never"), 7)}, terms())
	if !errors.Is(err, postgres.ErrUnavailable) {
		t.Errorf("Update = %v, want ErrUnavailable", err)
	}
	if n := f.number("SELECT count(*) FROM account"); n != 0 {
		t.Errorf("%d accounts were written by transactions that failed", n)
	}
}

// unnamed sends statements by their text, so that a wire sees which one it carries.
func unnamed(cfg *pgxpool.Config, _ *postgres.Options) {
	cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
}

// cutAtCommit breaks the first connection that carries a COMMIT: before it is sent, or after
// the server has carried it out and before the answer is read.
func cutAtCommit(sent bool, cuts *atomic.Int64) *wires {
	ws := &wires{}
	ws.onWrite = func(w *wire, b []byte) (int, error) {
		if !bytes.Contains(b, []byte("\nCOMMIT\x00")) || cuts.Add(1) > 1 {
			return w.Conn.Write(b)
		}
		if sent {
			if n, err := w.Conn.Write(b); err != nil {
				return n, err
			}
			// The answer begins when the server is done: then the outcome exists, unread.
			if _, err := io.ReadFull(w.Conn, make([]byte, 1)); err != nil {
				return 0, err
			}
		}
		_ = w.Conn.Close()
		return len(b), nil
	}
	return ws
}

func TestD8UnknownCommit(t *testing.T) {
	t.Parallel()
	for name, sent := range map[string]bool{"before COMMIT was forwarded": false, "after COMMIT was forwarded": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			var cuts atomic.Int64
			ws := cutAtCommit(sent, &cuts)
			_, store := f.open(ws.via, unnamed)
			id := endless("unknown")
			var repeats []bool
			a := ask(t, id, 7)
			scope := ledger.Scope{Accounts: []ledger.AccountID{id}, Grants: []ledger.ID{a.ID}}
			f.must(store.Update(f.Context(), scope, func(b *ledger.Book) error {
				answer, err := b.Ask(a, terms(), most)
				repeats = append(repeats, answer.Repeated)
				return err
			}))
			if len(repeats) != 2 || repeats[0] || repeats[1] != sent {
				t.Errorf("attempts found their grant recorded: %v, want [false %v]", repeats, sent)
			}
			if got := f.account(id); got.Granted != 7 || got.Outstanding != 7 {
				t.Errorf("granted %d, outstanding %d, want 7 and 7: once", got.Granted, got.Outstanding)
			}
			if n := ws.cancels.Load(); n != 0 {
				t.Errorf("%d cancel requests were sent to a server that commits", n)
			}
			f.verified()
		})
	}
}

// When the outcome cannot be learnt, the caller is told just that.
func TestD8NeverSettled(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ws := &wires{}
	ws.onWrite = func(w *wire, b []byte) (int, error) {
		if bytes.Contains(b, []byte("\nCOMMIT\x00")) {
			_ = w.Conn.Close()
		}
		return w.Conn.Write(b)
	}
	_, store := f.open(ws.via, unnamed)
	_, err := lease(f.Context(), store, []ledger.Ask{ask(t, endless("never"), 7)}, terms())
	if !errors.Is(err, postgres.ErrUnknownOutcome) || !errors.Is(err, postgres.ErrUnavailable) {
		t.Errorf("Update = %v, want ErrUnknownOutcome and ErrUnavailable", err)
	}
}

// A COMMIT whose answer takes too long is given up by this side without cancelling it; a
// statement before COMMIT is cancelled.
func TestCommitIsNeverCancelled(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN PERFORM pg_sleep(0.5); RETURN NULL; END $$`)
	f.exec(`CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON lease_grant
		DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()`)
	ws := &wires{}
	pool, store := f.open(ws.via, func(_ *pgxpool.Config, o *postgres.Options) { o.CommitTimeout = 100 * time.Millisecond })
	id := endless("slow")
	answers, err := lease(f.Context(), store, []ledger.Ask{ask(t, id, 7)}, terms())
	f.must(err)
	if !answers[0].Repeated {
		t.Error("the batch that was submitted again did not find what the first one committed")
	}
	pool.Close() // waits for what pgx does with the broken connection
	if n := ws.cancels.Load(); n != 0 {
		t.Errorf("%d cancel requests were sent to a server that commits", n)
	}

	holder, err := f.pool.Begin(f.Context())
	f.must(err)
	_, err = holder.Exec(f.Context(), "SELECT 1 FROM account FOR UPDATE")
	f.must(err)
	pool, store = f.open(ws.via, func(_ *pgxpool.Config, o *postgres.Options) { o.Timeout = 200 * time.Millisecond })
	if _, err := lease(f.Context(), store, []ledger.Ask{ask(t, id, 1)}, terms()); !errors.Is(err, postgres.ErrUnavailable) {
		t.Errorf("Update = %v, want ErrUnavailable", err)
	}
	f.eventually("the statement that waits for a lock is cancelled", func() bool { return ws.cancels.Load() == 1 })
	f.must(holder.Rollback(f.Context()))
	pool.Close()
}

func TestTwoRoundTrips(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]pgx.QueryExecMode{
		"prepared": pgx.QueryExecModeCacheStatement, "unnamed": pgx.QueryExecModeExec,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			ws := &wires{}
			_, store := f.open(ws.via, func(cfg *pgxpool.Config, _ *postgres.Options) {
				cfg.MaxConns, cfg.ConnConfig.DefaultQueryExecMode = 1, mode
				cfg.ShouldPing = func(_ context.Context, _ pgxpool.ShouldPingParams) bool { return false }
			})
			asks := []ledger.Ask{ask(t, endless("a"), 1), ask(t, endless("b"), 2)}
			_, err := lease(f.Context(), store, asks, terms()) // connects and prepares
			f.must(err)
			for _, c := range []struct {
				second string
				again  int
				want   int64
			}{
				{"b", 1, 2}, {"c", 1, 2}, // newcomers were here just now, so one is made at once
				{"c", 16, 2}, {"d", 1, 4}, {"e", 1, 2}, // there were none for long: one is found out, and made
			} {
				for range c.again - 1 {
					_, err = lease(f.Context(), store, []ledger.Ask{ask(t, endless("a"), 1), ask(t, endless(c.second), 2)}, terms())
					f.must(err)
				}
				before := ws.trips.Load()
				_, err = lease(f.Context(), store, []ledger.Ask{ask(t, endless("a"), 1), ask(t, endless(c.second), 2)}, terms())
				f.must(err)
				if n := ws.trips.Load() - before; int64(n) != c.want {
					t.Errorf("a transaction on a and %s took %d round trips, want %d", c.second, n, c.want)
				}
			}
		})
	}
}

// The same id asked for under other locks at the same time: one records it, the other finds
// the record and says that the terms differ.
func TestSameIDUnderOtherLocks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := ask(t, endless("a"), 1)
	b := a
	b.Account = endless("b")
	scope := ledger.Scope{Accounts: []ledger.AccountID{a.Account}, Grants: []ledger.ID{a.ID}}
	once := false
	err := f.store.Update(f.Context(), scope, func(book *ledger.Book) error {
		if !once {
			once = true
			if _, err := lease(f.Context(), f.store, []ledger.Ask{b}, terms()); err != nil {
				t.Error(err)
			}
		}
		_, err := book.Ask(a, terms(), most)
		return err
	})
	var refused *ledger.ProtocolError
	if !errors.As(err, &refused) || refused.Code != ledger.CodeTerms {
		t.Errorf("Update = %v, want %s", err, ledger.CodeTerms)
	}
	f.verified()
}
