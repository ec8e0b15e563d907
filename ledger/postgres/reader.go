package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// defaultLimit is how many rows a query returns that names no limit.
const defaultLimit = 1000

func limitOrDefault(n int) int32 {
	if n <= 0 {
		n = defaultLimit
	}
	return int32(min(n, 1<<30))
}

// read runs one query within the time that a read may take. fields are where the columns of a
// row go.
func read[T any](
	ctx context.Context, s *Store, what string, fields func(*T) []any, sql string, args ...any,
) ([]T, error) {
	within, cancel := context.WithTimeout(ctx, s.opt.Timeout)
	defer cancel()
	rows, err := s.pool.Query(within, sql, args...)
	if err != nil {
		return nil, outage(ctx, what, err)
	}
	all, err := collect(rows, fields)
	if err != nil {
		return nil, outage(ctx, what, err)
	}
	return all, nil
}

// collect reads every row.
func collect[T any](rows pgx.Rows, fields func(*T) []any) ([]T, error) {
	var (
		all []T
		one T
	)
	_, err := pgx.ForEachRow(rows, fields(&one), func() error {
		all = append(all, one)
		return nil
	})
	return all, err
}

// dueSQL goes by each account's soonest lease to close or slots to end. The inner limits bound
// the work while many of few accounts are due: what they cut off comes with the next call.
const dueSQL = `-- name: due
SELECT a.tenant, a.dimension, a.window_start, a.window_end
FROM (
    SELECT d.account_id, min(d.due_at) AS due_at
    FROM (
        (SELECT account_id, closes_at AS due_at FROM lease_grant
         WHERE state = 1 AND amount > 0 AND closes_at <= statement_timestamp()
         ORDER BY closes_at LIMIT $1::integer * 64)
        UNION ALL
        (SELECT account_id, ends_at FROM lease_grant
         WHERE state = 2 AND kind = 5 AND ends_at <= statement_timestamp()
         ORDER BY ends_at LIMIT $1::integer * 64)) AS d
    GROUP BY d.account_id) AS soonest
JOIN account a ON a.id = soonest.account_id
ORDER BY soonest.due_at, a.id
LIMIT $1::integer`

// maxDue keeps the inner limit of dueSQL within its type.
const maxDue = 1 << 20

// Due implements ledger.Store.
func (s *Store) Due(ctx context.Context, limit int) ([]ledger.AccountID, error) {
	return read(ctx, s, "list due accounts", accountIDFields, dueSQL, int32(min(max(limit, 0), maxDue)))
}

// listAccountsSQL: a NULL argument selects all.
const listAccountsSQL = `-- name: list_accounts
SELECT a.tenant, a.dimension, a.window_start, a.window_end,
       a.policy_version, a.kind, a.class, a.unit_limit, a.budget, a.ttl, a.grace,
       a.granted, a.consumed_reported, a.spent, a.unleased, a.outstanding, a.held, a.uncertain,
       a.expired, a.revoked, a.returned, a.emergency, a.extended,
       a.generation, a.committed, a.largest_limit, a.overshoot, a.clock, a.waiting,
       a.rate_units, a.rate_per, a.max_hold, a.pot, a.final_after, a.bucket_spent, a.bucket_part, a.bucket_at,
       a.credit, a.released, a.opening_limit, a.opened_at, a.closed_at, a.final_at, a.revision, a.wanted_at
FROM account a
WHERE ($1::text IS NULL OR a.tenant = $1::text)
  AND ($2::text IS NULL OR a.dimension = $2::text)
  AND ($3::timestamptz IS NULL OR (a.window_start <= $3::timestamptz AND a.window_end > $3::timestamptz))
  AND ($4::bigint IS NULL OR a.policy_version < $4::bigint)
  AND ($5::timestamptz IS NULL OR (a.window_end <= $5::timestamptz AND a.window_end < 'infinity'))
  AND ($6::text IS NULL OR (a.tenant, a.dimension, a.window_start, a.window_end)
                         > ($6::text, $7::text, $8::timestamptz, $9::timestamptz))
ORDER BY a.tenant, a.dimension, a.window_start, a.window_end
LIMIT $10::integer`

// Accounts implements ledger.Reader.
func (s *Store) Accounts(ctx context.Context, q ledger.AccountQuery) ([]ledger.Account, error) {
	after := q.After
	first := after == ledger.AccountID{}
	return read(ctx, s, "list accounts", accountFields, listAccountsSQL,
		textOrNull(q.Tenant), textOrNull(q.Dimension), timeOrNull(q.At),
		pgtype.Int8{Int64: q.PolicyBefore, Valid: q.PolicyBefore != 0}, timeOrNull(q.WindowEndedBy),
		pgtype.Text{String: after.Key.Tenant, Valid: !first}, after.Key.Dimension,
		startOf(after.Window), endOf(after.Window), limitOrDefault(q.Limit))
}

func textOrNull(s string) pgtype.Text { return pgtype.Text{String: s, Valid: s != ""} }

// listGrantsSQL: a NULL argument selects all.
const listGrantsSQL = `-- name: list_grants
SELECT a.tenant, a.dimension, a.window_start, a.window_end,
       g.id, g.kind, g.state, g.class, g.agent, g.region, g.asked, g.need, g.amount, g.reason,
       g.generation, g.policy_version, g.issued_at, g.ttl, g.expires_at, g.closes_at, g.revoked_at, g.updated_at,
       g.taken, g.refunded, g.back, g.moved, g.starts_at, g.ends_at, g.delay, g.drip, g.seq, g.in_use
FROM lease_grant g
JOIN account a ON a.id = g.account_id
WHERE ($1::uuid IS NULL OR g.id = $1::uuid)
  AND ($2::text IS NULL OR a.tenant = $2::text)
  AND ($3::text IS NULL OR a.dimension = $3::text)
  AND ($4::uuid IS NULL OR g.agent = $4::uuid)
  AND (cardinality($5::smallint[]) = 0 OR g.state = ANY ($5::smallint[]))
  AND ($6::uuid IS NULL OR g.id < $6::uuid)
ORDER BY g.id DESC
LIMIT $7::integer`

// Grants implements ledger.Reader.
func (s *Store) Grants(ctx context.Context, q ledger.GrantQuery) ([]ledger.Grant, error) {
	tenant, dimension := q.Tenant, q.Dimension
	if q.Key != (quota.Key{}) {
		if tenant != "" && tenant != q.Key.Tenant || dimension != "" && dimension != q.Key.Dimension {
			return nil, nil // both conditions cannot hold
		}
		tenant, dimension = q.Key.Tenant, q.Key.Dimension
	}
	states := column(q.States, func(s *ledger.State) int16 { return int16(*s) })
	return read(ctx, s, "list grants", grantFields, listGrantsSQL,
		uuidOrNull(q.ID), textOrNull(tenant), textOrNull(dimension), uuidOrNull(q.Agent),
		states, uuidOrNull(q.Before), limitOrDefault(q.Limit))
}

const listIncarnationsSQL = `-- name: list_incarnations
SELECT id, name, region, started_at, last_seen, policy_version, echoed, tokens
FROM incarnation
WHERE last_seen >= $1::timestamptz
ORDER BY id`

// Incarnations implements ledger.Reader.
func (s *Store) Incarnations(ctx context.Context, seenSince time.Time) ([]ledger.Incarnation, error) {
	rows, err := read(ctx, s, "list incarnations", incarnationFields, listIncarnationsSQL,
		startOf(quota.Window{Start: seenSince}))
	return incarnationsOf(rows), err
}

const listEventsSQL = `-- name: list_events
SELECT tenant, dimension, window_start, window_end, id, at, kind, grant_id, agent, units, generation, note
FROM event
WHERE id > $1::bigint
ORDER BY id
LIMIT $2::integer`

// holdingsSQL reads the live leases of all accounts, which are few beside all grants.
const holdingsSQL = `-- name: holdings
SELECT agent, count(*), least(sum(outstanding), 9223372036854775807)::bigint
FROM lease_grant
WHERE state = 1 AND amount > 0
GROUP BY agent
ORDER BY agent`

// Holdings implements ledger.Reader.
func (s *Store) Holdings(ctx context.Context) ([]ledger.Holding, error) {
	return read(ctx, s, "sum up live leases", func(h *ledger.Holding) []any {
		return []any{(*identity)(&h.Agent), &h.Leases, (*int64)(&h.Outstanding)}
	}, holdingsSQL)
}

// Events implements ledger.Reader.
func (s *Store) Events(ctx context.Context, after int64, limit int) ([]ledger.Event, error) {
	return read(ctx, s, "list events", eventFields, listEventsSQL, after, limitOrDefault(limit))
}

func eventFields(e *ledger.Event) []any {
	return append(accountIDFields(&e.Account),
		&e.ID, (*instant)(&e.At), (*string)(&e.Kind), (*identity)(&e.Grant), (*identity)(&e.Agent),
		(*int64)(&e.Units), &e.Generation, &e.Note)
}
