package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/quotalease/quotalease/ledger"
)

// How much one transaction of Prune deletes at most.
const (
	pruneRows     = 1000
	pruneAccounts = 64
	prunePage     = 1000 // accounts of endless windows that one statement looks at
)

// pruneEventsSQL looks at the oldest rows only: ids rise with time, so the first batch of
// which none is old enough is the last to look at.
const pruneEventsSQL = `-- name: prune_events
DELETE FROM event e
USING (SELECT id FROM event ORDER BY id LIMIT $2::integer) AS oldest
WHERE e.id = oldest.id AND e.at < $1::timestamptz`

const pruneIncarnationsSQL = `-- name: prune_incarnations
DELETE FROM incarnation i
USING (SELECT id FROM incarnation WHERE last_seen < $1::timestamptz
       ORDER BY id LIMIT $2::integer FOR UPDATE SKIP LOCKED) AS old
WHERE i.id = old.id`

const pruneParticipantsSQL = `-- name: prune_participants
DELETE FROM participant p
USING (SELECT tenant, dimension, agent FROM participant WHERE last_seen < $1::timestamptz
       ORDER BY tenant, dimension, agent LIMIT $2::integer FOR UPDATE SKIP LOCKED) AS old
WHERE p.tenant = old.tenant AND p.dimension = old.dimension AND p.agent = old.agent`

// Prune implements ledger.Keeper.
func (s *Store) Prune(ctx context.Context, recordsBefore, accountsBefore time.Time) (int64, error) {
	var total int64
	for _, sql := range []string{pruneEventsSQL, pruneIncarnationsSQL, pruneParticipantsSQL} {
		for {
			tag, err := s.pool.Exec(ctx, sql, timeOf(recordsBefore), int32(pruneRows))
			if err != nil {
				return total, outage(ctx, "prune records", err)
			}
			if tag.RowsAffected() == 0 {
				break
			}
			total += tag.RowsAffected()
		}
	}
	for {
		n, err := s.pruneAccounts(ctx, accountsBefore)
		total += n
		if err != nil {
			return total, outage(ctx, "prune accounts", err)
		}
		if n == 0 {
			break
		}
	}
	for after := int64(0); ; {
		n, next, err := s.pruneEndless(ctx, after, accountsBefore)
		total += n
		if err != nil {
			return total, outage(ctx, "prune accounts without an end", err)
		}
		if next == 0 {
			return total, nil
		}
		after = next
	}
}

// oldAccountsSQL leaves out accounts that somebody works on; they are old the next time too.
const oldAccountsSQL = `-- name: old_accounts
SELECT id FROM account
WHERE window_end < $1::timestamptz AND window_end < 'infinity'
ORDER BY window_end LIMIT $2::integer
FOR UPDATE SKIP LOCKED`

const dropGrantsSQL = `-- name: drop_grants
DELETE FROM lease_grant WHERE account_id = ANY ($1::bigint[])`

const dropFoldedSQL = `-- name: drop_folded
DELETE FROM account_folded WHERE account_id = ANY ($1::bigint[])`

const dropStatementsSQL = `-- name: drop_statements
DELETE FROM statement WHERE account_id = ANY ($1::bigint[])`

const dropLimitsSQL = `-- name: drop_limits
DELETE FROM account_limit WHERE account_id = ANY ($1::bigint[])`

const dropAccountsSQL = `-- name: drop_accounts
DELETE FROM account WHERE id = ANY ($1::bigint[])`

// pruneAccounts removes some accounts with all their records. Their grants are few: Fold has
// taken the settled ones long before.
func (s *Store) pruneAccounts(ctx context.Context, before time.Time) (int64, error) {
	var n int64
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, oldAccountsSQL, timeOf(before), int32(pruneAccounts))
		if err != nil {
			return err
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil || len(ids) == 0 {
			return err
		}
		n, err = dropAccounts(ctx, tx, ids)
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

func dropAccounts(ctx context.Context, tx pgx.Tx, ids []int64) (n int64, err error) {
	for _, sql := range []string{dropGrantsSQL, dropFoldedSQL, dropStatementsSQL, dropLimitsSQL, dropAccountsSQL} {
		tag, err := tx.Exec(ctx, sql, ids)
		if err != nil {
			return 0, err
		}
		if sql == dropGrantsSQL || sql == dropAccountsSQL {
			n += tag.RowsAffected()
		}
	}
	return n, nil
}

// endlessAccountsSQL goes up account_endless, and looks at $2 rows whatever it finds: an index on
// the clock would make every decision write to it. An account without a clock is of unknown age.
const endlessAccountsSQL = `-- name: endless_accounts
SELECT id, coalesce(clock < $3::timestamptz, false) AND outstanding = 0
FROM account
WHERE id > $1::bigint AND window_end = 'infinity'
ORDER BY id LIMIT $2::integer`

// forgettableSQL locks accounts for the rules to judge. One that somebody works on is no
// candidate any more.
const forgettableSQL = `-- name: forgettable
SELECT a.id, a.tenant, a.dimension, a.window_start, a.window_end,
       a.policy_version, a.kind, a.class, a.unit_limit, a.budget, a.ttl, a.grace,
       a.granted, a.consumed_reported, a.spent, a.unleased, a.outstanding, a.held, a.uncertain,
       a.expired, a.revoked, a.returned, a.emergency, a.extended,
       a.generation, a.committed, a.largest_limit, a.overshoot, a.clock, a.waiting,
       a.rate_units, a.rate_per, a.max_hold, a.pot, a.final_after, a.bucket_spent, a.bucket_part, a.bucket_at,
       a.credit, a.released, a.opening_limit, a.opened_at, a.closed_at, a.final_at, a.revision, a.wanted_at
FROM account a
WHERE a.id = ANY ($1::bigint[])
  AND NOT EXISTS (SELECT FROM lease_grant g WHERE g.account_id = a.id AND g.state = 1)
FOR UPDATE OF a SKIP LOCKED`

// pruneEndless removes what the rules let go of a page of accounts of endless windows. The next
// page begins after next; 0: there is none.
func (s *Store) pruneEndless(ctx context.Context, after int64, before time.Time) (n, next int64, err error) {
	rows, err := s.pool.Query(ctx, endlessAccountsSQL, after, int32(prunePage), timeOf(before))
	if err != nil {
		return 0, 0, err
	}
	var (
		idle   []int64
		id     int64
		quiet  bool
		looked int
	)
	if _, err := pgx.ForEachRow(rows, []any{&id, &quiet}, func() error {
		if looked++; quiet {
			idle = append(idle, id)
		}
		return nil
	}); err != nil {
		return 0, 0, err
	}
	if looked == prunePage {
		next = id
	}
	for some := range slices.Chunk(idle, pruneAccounts) {
		gone, err := s.forget(ctx, some, before)
		n += gone
		if err != nil {
			return n, next, err
		}
	}
	return n, next, nil
}

// forget removes those of some accounts that the rules let go.
func (s *Store) forget(ctx context.Context, ids []int64, before time.Time) (n int64, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, forgettableSQL, ids)
		if err != nil {
			return err
		}
		var (
			gone []int64
			id   int64
			a    ledger.Account
		)
		if _, err := pgx.ForEachRow(rows, append([]any{&id}, accountFields(&a)...), func() error {
			if a.Forgettable(before) {
				gone = append(gone, id)
			}
			return nil
		}); err != nil || len(gone) == 0 {
			return err
		}
		n, err = dropAccounts(ctx, tx, gone)
		return err
	})
	return n, err
}
