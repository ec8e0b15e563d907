package pglog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger/quota"
)

// PolicyLog implements policy.Log. The pool is its caller's to close.
type PolicyLog struct {
	pool *pgxpool.Pool
}

var _ policy.Log = (*PolicyLog)(nil)

// New returns the log on a migrated database.
func New(pool *pgxpool.Pool) *PolicyLog { return &PolicyLog{pool: pool} }

const headSQL = `-- name: policy_head
SELECT v.version, v.text, v.sum, v.overrides::text, v.source, v.who, v.why, v.at
FROM policy_head h
JOIN policy_version v ON v.version = h.version`

// Head implements policy.Log.
func (l *PolicyLog) Head(ctx context.Context) (policy.Record, error) {
	r, err := scan(l.pool.QueryRow(ctx, headSQL))
	if errors.Is(err, pgx.ErrNoRows) {
		return policy.Record{}, policy.ErrNoPolicy
	}
	if err != nil {
		return policy.Record{}, fmt.Errorf("read the newest policy version: %w", err)
	}
	return r, nil
}

const getSQL = `-- name: policy_get
SELECT version, text, sum, overrides::text, source, who, why, at
FROM policy_version
WHERE version = $1::bigint`

// Get implements policy.Log.
func (l *PolicyLog) Get(ctx context.Context, version int64) (policy.Record, error) {
	r, err := scan(l.pool.QueryRow(ctx, getSQL, version))
	if errors.Is(err, pgx.ErrNoRows) {
		return policy.Record{}, policy.ErrNoVersion
	}
	if err != nil {
		return policy.Record{}, fmt.Errorf("read policy version %d: %w", version, err)
	}
	return r, nil
}

// historySQL leaves out the texts and overrides: they may be large, and a history is read for who and why.
const historySQL = `-- name: policy_history
SELECT version, '' AS text, sum, '[]' AS overrides, source, who, why, at
FROM policy_version
ORDER BY version DESC
LIMIT $1::integer`

// History implements policy.Log. The records come without their Text and Overrides.
func (l *PolicyLog) History(ctx context.Context, limit int) ([]policy.Record, error) {
	rows, err := l.pool.Query(ctx, historySQL, int32(min(max(limit, 0), 1<<30)))
	if err != nil {
		return nil, fmt.Errorf("read the policy history: %w", err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (policy.Record, error) { return scan(row) })
	if err != nil {
		return nil, fmt.Errorf("read the policy history: %w", err)
	}
	return all, nil
}

// lockHeadSQL makes writers take turns, so that each sees what the last one made of the head.
const lockHeadSQL = `-- name: policy_lock_head
SELECT version FROM policy_head FOR UPDATE`

const insertSQL = `-- name: policy_insert
INSERT INTO policy_version (version, at, text, sum, overrides, source, who, why)
VALUES ($1::bigint, clock_timestamp(), $2::text, $3::text, $4::text::jsonb, $5::text, $6::text, $7::text)`

const moveHeadSQL = `-- name: policy_move_head
UPDATE policy_head SET version = $1::bigint`

// Append implements policy.Log.
func (l *PolicyLog) Append(ctx context.Context, after int64, r policy.Record) (int64, error) {
	version := after + 1
	overrides, err := json.Marshal(append([]policy.CommandOverride{}, r.Overrides...)) // a list, if empty
	if err != nil {
		return 0, fmt.Errorf("write the overrides of policy version %d: %w", version, err)
	}
	err = pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
		var head int64
		if err := tx.QueryRow(ctx, lockHeadSQL).Scan(&head); err != nil {
			return err
		}
		if head != after {
			return policy.ErrConflict
		}
		if _, err := tx.Exec(ctx, insertSQL, version, r.Text, r.Sum, string(overrides), string(r.Source), r.Who, r.Why); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, moveHeadSQL, version)
		return err
	})
	if errors.Is(err, policy.ErrConflict) {
		return 0, policy.ErrConflict
	}
	if err != nil {
		return 0, fmt.Errorf("append policy version %d: %w", version, err)
	}
	return version, nil
}

func scan(row pgx.Row) (policy.Record, error) {
	var (
		r         policy.Record
		overrides string
		at        time.Time
	)
	if err := row.Scan(&r.Version, &r.Text, &r.Sum, &overrides, (*string)(&r.Source), &r.Who, &r.Why, &at); err != nil {
		return policy.Record{}, err
	}
	if err := json.Unmarshal([]byte(overrides), &r.Overrides); err != nil {
		return policy.Record{}, fmt.Errorf("read the overrides of policy version %d: %w", r.Version, err)
	}
	r.At = quota.At(at)
	return r, nil
}
