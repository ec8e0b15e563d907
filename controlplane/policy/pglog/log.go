package pglog

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger/quota"
)

// Log is a policy.Log in Postgres. The pool is its caller's to close.
type Log struct{ pool *pgxpool.Pool }

var _ policy.Log = (*Log)(nil)

// New returns the log of a migrated database.
func New(pool *pgxpool.Pool) *Log { return &Log{pool: pool} }

// headSQL is the newest version.
const headSQL = `-- name: policy_head
SELECT v.version, v.text, v.sum, v.source, v.who, v.why, v.at
FROM policy_head h JOIN policy_version v ON v.version = h.version`

// Head implements policy.Log.
func (l *Log) Head(ctx context.Context) (policy.Record, error) {
	return l.one(ctx, policy.ErrNoPolicy, headSQL)
}

const versionSQL = `-- name: policy_version
SELECT version, text, sum, source, who, why, at FROM policy_version WHERE version = $1::bigint`

// Get implements policy.Log.
func (l *Log) Get(ctx context.Context, version int64) (policy.Record, error) {
	return l.one(ctx, policy.ErrNoVersion, versionSQL, version)
}

func (l *Log) one(ctx context.Context, none error, sql string, args ...any) (policy.Record, error) {
	rows, err := l.pool.Query(ctx, sql, args...)
	if err != nil {
		return policy.Record{}, fmt.Errorf("read policy: %w", err)
	}
	r, err := pgx.CollectExactlyOneRow(rows, scan)
	if errors.Is(err, pgx.ErrNoRows) {
		return policy.Record{}, none
	}
	if err != nil {
		return policy.Record{}, fmt.Errorf("read policy: %w", err)
	}
	return r, nil
}

func scan(row pgx.CollectableRow) (r policy.Record, err error) {
	err = row.Scan(&r.Version, &r.Text, &r.Sum, &r.Source, &r.Who, &r.Why, &r.At)
	r.At = quota.At(r.At)
	return r, err
}

// historySQL leaves the text out: a list of many versions would carry them all.
const historySQL = `-- name: policy_history
SELECT version, '' AS text, sum, source, who, why, at FROM policy_version ORDER BY version DESC LIMIT $1::bigint`

// History implements policy.Log.
func (l *Log) History(ctx context.Context, limit int) ([]policy.Record, error) {
	rows, err := l.pool.Query(ctx, historySQL, int64(limit))
	if err != nil {
		return nil, fmt.Errorf("read policy history: %w", err)
	}
	records, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("read policy history: %w", err)
	}
	return records, nil
}

// advanceSQL moves the head if it is where the writer saw it. The row's lock puts writers in
// order; a grant transaction reads the row without one and so never waits here.
const advanceSQL = `-- name: advance_policy_head
UPDATE policy_head SET version = version + 1 WHERE version = $1::bigint RETURNING version`

const appendSQL = `-- name: append_policy
INSERT INTO policy_version (version, at, sum, source, who, why, text)
VALUES ($1::bigint, clock_timestamp(), $2::text, $3::text, $4::text, $5::text, $6::text)`

// Append implements policy.Log.
func (l *Log) Append(ctx context.Context, after int64, r policy.Record) (version int64, err error) {
	err = pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, advanceSQL, after).Scan(&version)
		if errors.Is(err, pgx.ErrNoRows) {
			return policy.ErrConflict
		}
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, appendSQL, version, r.Sum, string(r.Source), r.Who, r.Why, r.Text)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("append policy: %w", err)
	}
	return version, nil
}
