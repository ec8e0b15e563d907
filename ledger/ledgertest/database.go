package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/quotalease/quotalease/ledger/postgres"
	"github.com/quotalease/quotalease/ledger/postgres/pgserver"
	"github.com/quotalease/quotalease/migrations"
)

const (
	template    = "ledger_template"
	startWithin = time.Minute
	stopWithin  = 30 * time.Second
	poolSize    = 16
)

// shared is the one database server of a test process.
var shared struct {
	once   sync.Once
	server *pgserver.Server
	err    error
	clones atomic.Int64
}

// Main runs the tests of a package that uses DB and stops the server after them. Call it from
// TestMain.
func Main(m *testing.M) {
	code := m.Run()
	if shared.server != nil {
		ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
		defer cancel()
		if err := shared.server.Stop(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "stop the test database:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// DB returns the connection string of a migrated, empty database of this test alone. Without
// server binaries it skips the test, or fails it where CI=true.
func DB(t testing.TB) string {
	t.Helper()
	return create(t, template)
}

// Empty returns the connection string of a database of this test alone without any tables.
// It skips and fails as DB does.
func Empty(t testing.TB) string {
	t.Helper()
	return create(t, "")
}

func create(t testing.TB, from string) string {
	t.Helper()
	shared.once.Do(start)
	var missing pgserver.ErrNoBinaries
	if errors.As(shared.err, &missing) && os.Getenv("CI") != "true" {
		t.Skip("needs PostgreSQL: ", missing)
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	name := fmt.Sprintf("ledger_%d", shared.clones.Add(1))
	dsn, err := pgserver.CreateDatabase(t.Context(), shared.server.DSN(), name, from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
		defer cancel()
		if err := pgserver.DropDatabase(ctx, shared.server.DSN(), name); err != nil {
			t.Error(err)
		}
	})
	return dsn
}

// start starts the server and migrates the database that all others are copies of.
func start() {
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	shared.server, shared.err = pgserver.Start(ctx, pgserver.Config{})
	if shared.err != nil {
		return
	}
	dsn, err := pgserver.CreateDatabase(ctx, shared.server.DSN(), template, "")
	if err == nil {
		_, err = migrations.Up(ctx, dsn)
	}
	if err != nil {
		shared.err = fmt.Errorf("prepare the test database: %w", err)
	}
}

// Pool returns a pool on a database as DB gives it, closed when the test ends.
func Pool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	pool, err := postgres.Open(t.Context(), DB(t), poolSize)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}
