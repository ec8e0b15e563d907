package postgres_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/ledgertest"
	"github.com/quotalease/quotalease/ledger/postgres"
	"github.com/quotalease/quotalease/ledger/postgres/pgserver"
	"github.com/quotalease/quotalease/migrations"
)

// A session that a pooler keeps open over a demotion meets a standby in its BEGIN: that is an
// outage, and the pool forgets its connections (O1).
func TestO1StandbyBehindAPooler(t *testing.T) {
	t.Parallel()
	server := standby(t)
	cfg, err := postgres.Config(server.DSN(), 1)
	if err != nil {
		t.Fatal(err)
	}
	cfg.ConnConfig.ValidateConnect = nil // the pooler answered before the demotion
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	store := postgres.New(pool, postgres.Options{})
	for n := range int64(2) {
		_, err = lease(t.Context(), store, []ledger.Ask{ask(t, endless("x"), 1)}, terms())
		if !errors.Is(err, postgres.ErrUnavailable) {
			t.Errorf("a standby gives %v, want ErrUnavailable", err)
		}
		if made := pool.Stat().NewConnsCount(); made != n+1 {
			t.Errorf("attempt %d has connection %d, want a new one each time", n+1, made)
		}
	}
	if _, err := pool.Exec(t.Context(), "SELECT pg_promote()"); err != nil {
		t.Fatal(err)
	}
	if _, err := lease(t.Context(), store, []ledger.Ask{ask(t, endless("x"), 1)}, terms()); err != nil {
		t.Errorf("after the promotion: %v", err)
	}
}

// standby is a server in recovery, with the ledger's schema and policy version 1 in force.
func standby(t *testing.T) *pgserver.Server {
	t.Helper()
	root := reachableDir(t)
	primary := startIn(t, root)
	if _, err := migrations.Up(t.Context(), primary.DSN()); err != nil {
		t.Fatal(err)
	}
	pool, err := postgres.Open(t.Context(), primary.DSN(), 1)
	if err != nil {
		t.Fatal(err)
	}
	_, err = pool.Exec(t.Context(), "UPDATE policy_head SET version = 1")
	pool.Close()
	if err = errors.Join(err, primary.Stop(t.Context())); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "db", "data", "standby.signal"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return startIn(t, root)
}

func startIn(t *testing.T, root string) *pgserver.Server {
	t.Helper()
	server, err := pgserver.Start(t.Context(), pgserver.Config{Dir: filepath.Join(root, "db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
		defer cancel()
		if err := server.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return server
}

// reachableDir is a folder that the server's own user may enter; t.TempDir's parent is closed.
func reachableDir(t *testing.T) string {
	t.Helper()
	ledgertest.Empty(t) // skips where there is no server
	dir, err := os.MkdirTemp("/tmp", "postgres-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}
