package migrations

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed *.sql
var files embed.FS

// How long Up waits for another replica's migration: once a second, for five minutes.
const (
	lockPeriod   = 1
	lockAttempts = 300
)

// ErrOutdated reports a schema that is older than this binary needs.
var ErrOutdated = errors.New("schema is older than this version needs: run quotalease migrate")

// Step is one migration.
type Step struct {
	Version   int64
	Name      string
	Applied   bool
	AppliedAt time.Time // zero unless Applied
}

// Up applies what is missing and returns the steps that it applied.
func Up(ctx context.Context, dsn string) ([]Step, error) {
	var done []Step
	err := withProvider(dsn, func(p *goose.Provider) error {
		results, err := p.Up(ctx)
		if err != nil {
			return fmt.Errorf("apply migrations: %w", err)
		}
		for _, r := range results {
			done = append(done, Step{Version: r.Source.Version, Name: path.Base(r.Source.Path), Applied: true})
		}
		return nil
	})
	return done, err
}

// Status lists every step of this binary, oldest first.
func Status(ctx context.Context, dsn string) ([]Step, error) {
	var steps []Step
	err := withProvider(dsn, func(p *goose.Provider) error {
		states, err := p.Status(ctx)
		if err != nil {
			return fmt.Errorf("read the state of migrations: %w", err)
		}
		for _, s := range states {
			steps = append(steps, Step{
				Version: s.Source.Version, Name: path.Base(s.Source.Path),
				Applied: s.State == goose.StateApplied, AppliedAt: s.AppliedAt,
			})
		}
		return nil
	})
	return steps, err
}

// withProvider runs use with goose on a connection of its own.
func withProvider(dsn string, use func(*goose.Provider) error) (err error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return fmt.Errorf("read the connection string: %w", err)
	}
	db := stdlib.OpenDB(*config)
	defer func() { err = errors.Join(err, db.Close()) }()
	provider, err := newProvider(db)
	if err != nil {
		return fmt.Errorf("prepare migrations: %w", err)
	}
	return use(provider)
}

func newProvider(db *sql.DB) (*goose.Provider, error) {
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(lockPeriod, lockAttempts))
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithSessionLocker(locker), goose.WithDisableGlobalRegistry(true))
}

// Needed is the version of the schema that this binary was built for.
func Needed() int64 {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return 0 // the pattern is a constant and valid
	}
	var newest int64
	for _, name := range names {
		number, _, _ := strings.Cut(name, "_")
		if v, err := strconv.ParseInt(number, 10, 64); err == nil {
			newest = max(newest, v)
		}
	}
	return newest
}

// Querier is a pool or a connection.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// checkSQL reads the newest step that was applied.
const checkSQL = `-- name: check_schema
SELECT coalesce(max(version_id), 0)::bigint FROM goose_db_version WHERE is_applied`

// undefinedTable is Postgres' code for a table that does not exist.
const undefinedTable = "42P01"

// Check returns ErrOutdated unless the schema is what this binary needs, or newer: migrations
// only add, so that replicas of the last version go on while a new one is rolled out.
func Check(ctx context.Context, db Querier) error {
	var version int64
	err := db.QueryRow(ctx, checkSQL).Scan(&version)
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == undefinedTable {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("read the schema version: %w", err)
	}
	if version < Needed() {
		return fmt.Errorf("schema version is %d, needed is %d: %w", version, Needed(), ErrOutdated)
	}
	return nil
}
