package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/quotalease/quotalease/ledger"
)

// insertLimitsSQL keeps the order in which limits changed: the lines of a row's account rise.
const insertLimitsSQL = `-- name: insert_limits
INSERT INTO account_limit (account_id, at, unit_limit, policy_version, note)
SELECT w.account_id, w.at, w.unit_limit, w.policy_version, w.note
FROM unnest($1::bigint[], $2::timestamptz[], $3::bigint[], $4::bigint[], $5::text[])
     WITH ORDINALITY AS w (account_id, at, unit_limit, policy_version, note, place)
ORDER BY w.place`

const insertStatementsSQL = `-- name: insert_statements
INSERT INTO statement (account_id, revision, at, billable, held, uncertain, outstanding, emergency,
                       overshoot, over_limit, unit_limit, credit, final, note)
SELECT w.account_id, w.revision, w.at, w.billable, w.held, w.uncertain, w.outstanding, w.emergency,
       w.overshoot, w.over_limit, w.unit_limit, w.credit, w.final, w.note
FROM unnest($1::bigint[], $2::bigint[], $3::timestamptz[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
            $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::boolean[], $14::text[])
     AS w (account_id, revision, at, billable, held, uncertain, outstanding,
           emergency, overshoot, over_limit, unit_limit, credit, final, note)`

// queueStatements writes rows that are only touched under their account's lock.
func (tx *transaction) queueStatements(batch *pgx.Batch) {
	if ls := tx.changes.Limits; len(ls) > 0 {
		batch.Queue(insertLimitsSQL,
			column(ls, func(l *ledger.LimitChange) int64 { return tx.rows[l.Account] }),
			column(ls, func(l *ledger.LimitChange) pgtype.Timestamptz { return timeOf(l.At) }),
			column(ls, func(l *ledger.LimitChange) pgtype.Int8 { return limitOf(l.Limit) }),
			column(ls, func(l *ledger.LimitChange) int64 { return l.PolicyVersion }),
			column(ls, func(l *ledger.LimitChange) string { return l.Note }))
	}
	ss := tx.changes.Statements
	if len(ss) == 0 {
		return
	}
	units := func(of func(*ledger.Statement) ledger.Units) []int64 {
		return column(ss, func(s *ledger.Statement) int64 { return int64(of(s)) })
	}
	batch.Queue(insertStatementsSQL,
		column(ss, func(s *ledger.Statement) int64 { return tx.rows[s.Account] }),
		column(ss, func(s *ledger.Statement) int64 { return s.Revision }),
		column(ss, func(s *ledger.Statement) pgtype.Timestamptz { return timeOf(s.At) }),
		units(func(s *ledger.Statement) ledger.Units { return s.Billable }),
		units(func(s *ledger.Statement) ledger.Units { return s.Held }),
		units(func(s *ledger.Statement) ledger.Units { return s.Uncertain }),
		units(func(s *ledger.Statement) ledger.Units { return s.Outstanding }),
		units(func(s *ledger.Statement) ledger.Units { return s.Emergency }),
		units(func(s *ledger.Statement) ledger.Units { return s.Overshoot }),
		units(func(s *ledger.Statement) ledger.Units { return s.OverLimit }),
		column(ss, func(s *ledger.Statement) pgtype.Int8 { return limitOf(s.Limit) }),
		units(func(s *ledger.Statement) ledger.Units { return s.Credit }),
		column(ss, (*ledger.Statement).Final),
		column(ss, func(s *ledger.Statement) string { return s.Note }))
}

// unstatedSQL reads the ends of two indexes. clock_timestamp() would be asked anew for each row,
// so that no index could begin or end with it; this statement waits for no lock, and begins now.
const unstatedSQL = `-- name: unstated
(SELECT tenant, dimension, window_start, window_end FROM account
 WHERE closed_at IS NULL AND kind <> 0 AND window_end < 'infinity'
   AND window_end <= statement_timestamp() AND window_end + grace <= statement_timestamp()
 ORDER BY window_end LIMIT $1::integer)
UNION ALL
(SELECT tenant, dimension, window_start, window_end FROM account
 WHERE final_by IS NOT NULL AND final_by <= statement_timestamp()
 ORDER BY final_by LIMIT $1::integer)
LIMIT $1::integer`

// Unstated implements ledger.Billing.
func (s *Store) Unstated(ctx context.Context, limit int) ([]ledger.AccountID, error) {
	return read(ctx, s, "list windows to close", accountIDFields, unstatedSQL, limitOrDefault(limit))
}

// listStatementsSQL picks a page of accounts, then their revisions. A NULL argument selects all.
const listStatementsSQL = `-- name: list_statements
SELECT a.tenant, a.dimension, a.window_start, a.window_end,
       s.revision, s.at, s.billable, s.held, s.uncertain, s.outstanding, s.emergency, s.overshoot, s.over_limit,
       s.unit_limit, s.credit, s.note, a.opening_limit, a.opened_at, a.closed_at,
       CASE WHEN s.final THEN a.final_at END
FROM (
    SELECT id, tenant, dimension, window_start, window_end, opening_limit, opened_at, closed_at, final_at, revision
    FROM account
    WHERE closed_at IS NOT NULL
      AND ($1::text IS NULL OR tenant = $1::text)
      AND ($2::text IS NULL OR dimension = $2::text)
      AND ($3::timestamptz IS NULL OR window_start >= $3::timestamptz)
      AND ($4::timestamptz IS NULL OR window_start < $4::timestamptz)
      AND (NOT $5::boolean OR final_at IS NOT NULL)
      AND ($7::text IS NULL OR (tenant, dimension, window_start, window_end)
                             > ($7::text, $8::text, $9::timestamptz, $10::timestamptz))
    ORDER BY tenant, dimension, window_start, window_end
    LIMIT $11::integer) AS a
JOIN statement s ON s.account_id = a.id AND ($6::boolean OR s.revision = a.revision)
ORDER BY a.tenant, a.dimension, a.window_start, a.window_end, s.revision`

// Statements implements ledger.Billing.
func (s *Store) Statements(ctx context.Context, q ledger.StatementQuery) ([]ledger.Statement, error) {
	after := q.After
	first := after == ledger.AccountID{}
	return read(ctx, s, "list statements", statementFields, listStatementsSQL,
		textOrNull(q.Tenant), textOrNull(q.Dimension), timeOrNull(q.From), timeOrNull(q.To), q.FinalOnly, q.Revisions,
		pgtype.Text{String: after.Key.Tenant, Valid: !first}, after.Key.Dimension,
		startOf(after.Window), endOf(after.Window), limitOrDefault(q.Limit))
}

func statementFields(s *ledger.Statement) []any {
	return append(accountIDFields(&s.Account),
		&s.Revision, (*instant)(&s.At), (*int64)(&s.Billable), (*int64)(&s.Held), (*int64)(&s.Uncertain),
		(*int64)(&s.Outstanding), (*int64)(&s.Emergency), (*int64)(&s.Overshoot), (*int64)(&s.OverLimit),
		(*limit)(&s.Limit), (*int64)(&s.Credit), &s.Note, (*limit)(&s.Opening), (*instant)(&s.OpenedAt),
		(*instant)(&s.ClosedAt), (*instant)(&s.FinalAt))
}

const limitHistorySQL = `-- name: limit_history
SELECT a.tenant, a.dimension, a.window_start, a.window_end, l.at, l.unit_limit, l.policy_version, l.note
FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::timestamptz[])
     AS w (tenant, dimension, window_start, window_end)
JOIN account a ON a.tenant = w.tenant AND a.dimension = w.dimension
              AND a.window_start = w.window_start AND a.window_end = w.window_end
JOIN account_limit l ON l.account_id = a.id
ORDER BY a.tenant, a.dimension, a.window_start, a.window_end, l.line`

// LimitHistory implements ledger.Billing.
func (s *Store) LimitHistory(ctx context.Context, accounts []ledger.AccountID) ([]ledger.LimitChange, error) {
	once := slices.Compact(slices.SortedFunc(slices.Values(accounts), ledger.CompareAccounts))
	tenants, dimensions, starts, ends := accountKeyColumns(once)
	return read(ctx, s, "list limits", func(l *ledger.LimitChange) []any {
		return append(accountIDFields(&l.Account), (*instant)(&l.At), (*limit)(&l.Limit), &l.PolicyVersion, &l.Note)
	}, limitHistorySQL, tenants, dimensions, starts, ends)
}
