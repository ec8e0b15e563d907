package postgres

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// Why transactions of this store cannot deadlock
//
// Every transaction takes what it needs in five stages, and within a stage in one order:
//
//  1. if some may be missing: accounts that it makes, by key and window (the unique
//     index makes it wait for another transaction that is making the same one)
//  2. incarnations, by id
//  3. accounts, by key and window
//  4. in the last batch: ids of new grants, folded tallies, participants, incarnations that
//     are new, each by its key
//  5. the journal's lock, if there are events
//
// A wait inside a stage is for one who is further in the same order, a wait across stages for
// one who is in a later stage, and the last stage waits for nobody else. The one lock that is
// held early and wanted late is an account made in stage 1 and wanted in stage 3. Nobody waits
// for it there: who went through stage 1 made it itself, or waited there until its maker had
// committed, and who left stage 1 out does not see it until then, and begins again with it.
// Rows of grants, folded tallies, limits and statements are only touched under their account's
// lock. Prune takes account locks only where nobody waits (SKIP LOCKED), and never waits while
// it holds one.
//
// A transaction on a line of waiting callers (line.go) takes that line's lock and no other: it
// makes the line if need be, waiting for whoever makes or removes the same one while it holds
// nothing, and touches tickets only under the line's lock.

// beginSQL names the level, so that a server's own default cannot change it.
const beginSQL = `-- name: begin
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE`

// idleTimeout is how long a transaction may wait for its client between two statements, which
// is the time that the rules take. A replica that hangs there holds locks that the others
// need: they get them before an agent's patience with them ends.
const idleTimeout = 1500 * time.Millisecond

// settingsSQL is SET LOCAL with arguments: nothing outlives the transaction, so that a pooler
// may hand the session on. A client that vanishes without closing its connection loses its
// locks after the idle limit.
//
// The rest makes one plan for every batch: loops over arrays with an index lookup inside.
// Planning each batch costs more than running it, and a plan that was made while a table was
// small would otherwise be kept while it grows. Compiling plans (jit) costs more than both.
const settingsSQL = `-- name: settings
SELECT set_config('lock_timeout', $1::text, true),
       set_config('statement_timeout', $2::text, true),
       set_config('idle_in_transaction_session_timeout', $3::text, true),
       set_config('plan_cache_mode', 'force_generic_plan', true),
       set_config('enable_seqscan', 'off', true),
       set_config('enable_hashjoin', 'off', true),
       set_config('enable_mergejoin', 'off', true),
       set_config('jit', 'off', true)`

// makeAccountsSQL inserts only what is missing: a conflict that could have been seen would
// burn an id each time. The arrays come in the order of the locks, and place keeps it.
const makeAccountsSQL = `-- name: make_accounts
INSERT INTO account (tenant, dimension, window_start, window_end)
SELECT w.tenant, w.dimension, w.window_start, w.window_end
FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::timestamptz[])
     WITH ORDINALITY AS w (tenant, dimension, window_start, window_end, place)
WHERE NOT EXISTS (
    SELECT 1 FROM account a
    WHERE a.tenant = w.tenant AND a.dimension = w.dimension
      AND a.window_start = w.window_start AND a.window_end = w.window_end)
ORDER BY w.place
ON CONFLICT (tenant, dimension, window_start, window_end) DO NOTHING`

const lockIncarnationsSQL = `-- name: lock_incarnations
SELECT i.id, i.name, i.region, i.started_at, i.last_seen, i.policy_version, i.echoed, i.tokens
FROM unnest($1::uuid[]) WITH ORDINALITY AS w (id, place)
JOIN incarnation i ON i.id = w.id
ORDER BY w.place
FOR UPDATE OF i`

// lockAccountsSQL takes the locks under which all else happens. Rows are locked above the
// sort, so in its order.
const lockAccountsSQL = `-- name: lock_accounts
SELECT a.id, a.tenant, a.dimension, a.window_start, a.window_end,
       a.policy_version, a.kind, a.class, a.unit_limit, a.budget, a.ttl, a.grace,
       a.granted, a.consumed_reported, a.spent, a.unleased, a.outstanding, a.held, a.uncertain,
       a.expired, a.revoked, a.returned, a.emergency, a.extended,
       a.generation, a.committed, a.largest_limit, a.overshoot, a.clock, a.waiting,
       a.rate_units, a.rate_per, a.max_hold, a.pot, a.final_after, a.bucket_spent, a.bucket_part, a.bucket_at,
       a.credit, a.released, a.opening_limit, a.opened_at, a.closed_at, a.final_at, a.revision, a.wanted_at
FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::timestamptz[])
     WITH ORDINALITY AS w (tenant, dimension, window_start, window_end, place)
JOIN account a ON a.tenant = w.tenant AND a.dimension = w.dimension
              AND a.window_start = w.window_start AND a.window_end = w.window_end
ORDER BY w.place
FOR UPDATE OF a`

// readClockSQL is a statement of its own: inside the one that waits for the locks, the clock
// would be read before the wait.
const readClockSQL = `-- name: read_clock
SELECT clock_timestamp(), version FROM policy_head`

// newcomers guesses whether a transaction has accounts that are not made yet. Most have none, and to
// look costs each of them a statement; but to find out by failing costs an attempt, and where keys are
// many or a window is about to begin, new ones come in one transaction after the other.
type newcomers struct{ left atomic.Int32 }

// newcomersFor is how many transactions look for missing accounts after one that had some.
const newcomersFor = 16

func (n *newcomers) likely() bool { return n.left.Load() > 0 }

// note takes in whether a transaction that looked had any.
func (n *newcomers) note(had bool) {
	if had {
		n.left.Store(newcomersFor)
	} else {
		n.left.Add(-1)
	}
}

// lock is the first round trip: it takes the locks, reads the clock, and then what lies under
// them. Accounts are made first if create says so.
func (tx *transaction) lock(ctx context.Context, create bool) error {
	t, o := tx.target, tx.store.opt
	tenants, dimensions, starts, ends := accountKeyColumns(t.accounts)
	batch := &pgx.Batch{}
	batch.Queue(beginSQL)
	batch.Queue(settingsSQL, millis(o.LockTimeout), millis(o.Timeout), millis(min(o.Timeout, idleTimeout)))
	var known bool
	if tx.types, known = rowTypesOf(tx.conn); !known {
		batch.Queue(rowTypesSQL).QueryRow(func(row pgx.Row) (err error) {
			tx.types, err = learnRowTypes(tx.conn, row)
			return err
		})
	}
	if create && len(t.accounts) > 0 {
		batch.Queue(makeAccountsSQL, tenants, dimensions, starts, ends).Exec(func(made pgconn.CommandTag) error {
			tx.store.newcomers.note(made.RowsAffected() > 0)
			return nil
		})
	}
	if len(t.agents) > 0 {
		batch.Queue(lockIncarnationsSQL, uuidsOf(t.agents)).Query(tx.scanIncarnations)
	}
	if len(t.accounts) > 0 {
		batch.Queue(lockAccountsSQL, tenants, dimensions, starts, ends).Query(tx.scanAccounts)
	}
	var clock instant
	batch.Queue(readClockSQL).QueryRow(func(row pgx.Row) error {
		return row.Scan(&clock, &tx.loaded.PolicyVersion)
	})
	tx.queueLoad(batch)
	sent := o.Now()
	if err := tx.conn.SendBatch(ctx, batch).Close(); err != nil {
		return err
	}
	tx.loaded.Now = time.Time(clock)
	tx.loaded.ClockSuspect = suspect(tx.loaded.Now, sent, o.Now())
	tx.loaded.Retention = o.Retention
	if len(tx.rows) != len(t.accounts) {
		return errMissing
	}
	return tx.nameGrants(ctx)
}

// suspect compares the database's clock with the replica's, read before and after: the true
// moment of the reading is somewhere between.
func suspect(theirs, before, after time.Time) bool {
	return theirs.Before(before.Add(-ledger.MaxClockSkew)) || theirs.After(after.Add(ledger.MaxClockSkew))
}

func millis(d time.Duration) string {
	return strconv.FormatInt(max(d.Milliseconds(), 1), 10) + "ms"
}

func accountKeyColumns(ids []ledger.AccountID) (tenants, dimensions []string, starts, ends []pgtype.Timestamptz) {
	return column(ids, func(id *ledger.AccountID) string { return id.Key.Tenant }),
		column(ids, func(id *ledger.AccountID) string { return id.Key.Dimension }),
		column(ids, func(id *ledger.AccountID) pgtype.Timestamptz { return startOf(id.Window) }),
		column(ids, func(id *ledger.AccountID) pgtype.Timestamptz { return endOf(id.Window) })
}

func (tx *transaction) scanAccounts(rows pgx.Rows) error {
	tx.rows = make(map[ledger.AccountID]int64, len(tx.target.accounts))
	var (
		id int64
		a  ledger.Account
	)
	_, err := pgx.ForEachRow(rows, append([]any{&id}, accountFields(&a)...), func() error {
		tx.rows[a.ID] = id
		tx.loaded.Accounts = append(tx.loaded.Accounts, a)
		return nil
	})
	return err
}

func (tx *transaction) scanIncarnations(rows pgx.Rows) error {
	all, err := collect(rows, incarnationFields)
	tx.loaded.Incarnations = incarnationsOf(all)
	return err
}

// storedIncarnation is an incarnation as stored, its tokens in an array.
type storedIncarnation struct {
	ledger.Incarnation
	tokens []pgtype.UUID
}

func incarnationFields(i *storedIncarnation) []any {
	return []any{
		(*identity)(&i.ID), &i.Name, &i.Region, (*instant)(&i.StartedAt), (*instant)(&i.LastSeen),
		&i.PolicyVersion, (*identity)(&i.Echoed), &i.tokens,
	}
}

func incarnationsOf(rows []storedIncarnation) []ledger.Incarnation {
	var all []ledger.Incarnation
	for _, row := range rows {
		for _, token := range row.tokens {
			row.Issued = append(row.Issued, token.Bytes)
		}
		all = append(all, row.Incarnation)
	}
	return all
}

func keyColumns(keys []quota.Key) (tenants, dimensions []string) {
	return column(keys, func(k *quota.Key) string { return k.Tenant }),
		column(keys, func(k *quota.Key) string { return k.Dimension })
}
