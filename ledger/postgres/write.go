package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/quotalease/quotalease/ledger"
)

// commitSQL ends the last batch. It is sent even if nothing changed: the locks gave the
// transaction a number, so that its COMMIT waits for the standby like any other, and an
// answer that repeats what another transaction wrote is never given before that is safe.
const commitSQL = `-- name: commit
COMMIT`

const updateAccountsSQL = `-- name: update_accounts
UPDATE account a
SET policy_version = w.policy_version, kind = w.kind, class = w.class, unit_limit = w.unit_limit,
    budget = w.budget, ttl = w.ttl, grace = w.grace,
    generation = w.generation, committed = w.committed, largest_limit = w.largest_limit,
    overshoot = w.overshoot, clock = w.clock, waiting = w.waiting,
    granted = w.granted, consumed_reported = w.consumed_reported, spent = w.spent,
    unleased = w.unleased, outstanding = w.outstanding, held = w.held, uncertain = w.uncertain,
    expired = w.expired, revoked = w.revoked, returned = w.returned,
    emergency = w.emergency, extended = w.extended,
    rate_units = w.rate_units, rate_per = w.rate_per, max_hold = w.max_hold, pot = w.pot,
    final_after = w.final_after, bucket_spent = w.bucket_spent, bucket_part = w.bucket_part,
    bucket_at = w.bucket_at, credit = w.credit, released = w.released,
    opening_limit = w.opening_limit, opened_at = w.opened_at, closed_at = w.closed_at,
    final_at = w.final_at, revision = w.revision, final_by = w.final_by, wanted_at = w.wanted_at
FROM unnest($1::account_change_1[]) AS w
WHERE a.id = w.id`

// upsertFoldedSQL adds the sums of grants that go.
const upsertFoldedSQL = `-- name: upsert_folded
INSERT INTO account_folded (account_id, granted, consumed_reported, spent, unleased, outstanding,
                            held, uncertain, expired, revoked, returned, emergency, extended)
SELECT w.account_id, w.granted, w.consumed_reported, w.spent, w.unleased, w.outstanding,
       w.held, w.uncertain, w.expired, w.revoked, w.returned, w.emergency, w.extended
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[],
            $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[],
            $12::bigint[], $13::bigint[])
     AS w (account_id, granted, consumed_reported, spent, unleased, outstanding,
           held, uncertain, expired, revoked, returned, emergency, extended)
ON CONFLICT (account_id) DO UPDATE
SET granted = account_folded.granted + EXCLUDED.granted,
    consumed_reported = account_folded.consumed_reported + EXCLUDED.consumed_reported,
    spent = account_folded.spent + EXCLUDED.spent,
    unleased = account_folded.unleased + EXCLUDED.unleased,
    outstanding = account_folded.outstanding + EXCLUDED.outstanding,
    held = account_folded.held + EXCLUDED.held,
    uncertain = account_folded.uncertain + EXCLUDED.uncertain,
    expired = account_folded.expired + EXCLUDED.expired,
    revoked = account_folded.revoked + EXCLUDED.revoked,
    returned = account_folded.returned + EXCLUDED.returned,
    emergency = account_folded.emergency + EXCLUDED.emergency,
    extended = account_folded.extended + EXCLUDED.extended`

// commit is the second round trip: all writes and COMMIT in one batch. The caller's context
// cannot end it; it has a time of its own.
func (tx *transaction) commit(ctx context.Context, batch *pgx.Batch) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tx.store.opt.CommitTimeout)
	defer cancel()
	batch.Queue(commitSQL)
	return uncancelled(tx.conn.PgConn(), func() error { return tx.send(ctx, batch) })
}

// send tells three ends apart: committed, certainly not committed, and unknown.
func (tx *transaction) send(ctx context.Context, batch *pgx.Batch) error {
	results := tx.conn.SendBatch(ctx, batch)
	var (
		tag pgconn.CommandTag
		err error
	)
	for range batch.Len() {
		if tag, err = results.Exec(); err != nil {
			break
		}
	}
	if err == nil && tag.String() == "COMMIT" {
		_ = results.Close() // the answer is in; what happens to the connection is no matter
		return nil
	}
	_ = results.Close()
	if err == nil {
		return fmt.Errorf("commit: answered %s: %w", tag, errAgain)
	}
	var refused *pgconn.PgError
	if errors.As(err, &refused) && !isFatal(refused) {
		return tx.explain(fmt.Errorf("write: %w", err), refused)
	}
	return fmt.Errorf("commit: %w: %w", errUnsettled, err)
}

// explain turns a conflict on an id that the scope did not name into a plain error: another
// attempt would not load it either.
func (tx *transaction) explain(err error, refused *pgconn.PgError) error {
	if refused.Code != codeUnique {
		return err
	}
	for i := range tx.changes.NewGrants {
		id := tx.changes.NewGrants[i].ID
		if _, named := slices.BinarySearchFunc(tx.target.grants, id, ledger.CompareIDs); !named {
			return fmt.Errorf("insert grant %s: the id exists and was not in the scope (%s)", id, refused.Message)
		}
	}
	return err
}

// writes queues the changes in the order of the stages; see lock.go.
func (tx *transaction) writes() *pgx.Batch {
	c, batch := &tx.changes, &pgx.Batch{}
	if len(c.NewGrants) > 0 {
		batch.Queue(insertGrantsSQL, rowsOf(tx.types.grant, c.NewGrants, tx.newGrant))
	}
	if len(c.Grants) > 0 {
		batch.Queue(updateGrantsSQL, rowsOf(tx.types.change, c.Grants, changedGrant))
	}
	if len(c.Accounts) > 0 {
		batch.Queue(updateAccountsSQL, rowsOf(tx.types.account, c.Accounts, tx.changedAccount))
	}
	if len(c.Folded) > 0 {
		batch.Queue(deleteGrantsSQL, uuidsOf(c.Folded))
		batch.Queue(upsertFoldedSQL, tx.foldedArgs(c.FoldedTally)...)
	}
	if len(c.Participants) > 0 {
		batch.Queue(upsertParticipantsSQL, rowsOf(tx.types.participant, c.Participants, participantRow))
	}
	tx.queueIncarnations(batch)
	tx.queueStatements(batch)
	tx.queueEvents(batch)
	return batch
}

// changedAccount writes the fields of an account_change_1 in their order.
func (tx *transaction) changedAccount(w *rowWriter, a *ledger.Account) {
	w.bigint(tx.rows[a.ID])
	w.bigint(a.PolicyVersion)
	w.smallint(int16(a.Kind))
	w.smallint(int16(a.Class))
	w.limit(a.Limit)
	w.limit(a.Budget)
	w.interval(a.TTL)
	w.interval(a.Grace)
	w.bigint(a.Generation)
	w.units(a.Committed)
	w.limit(a.Largest)
	w.units(a.Overshoot)
	w.timeOrNull(a.Clock)
	w.boolean(a.Waiting)
	w.units(a.Rate.Units)
	w.interval(a.Rate.Per)
	w.interval(a.MaxHold)
	w.units(a.Pot)
	w.interval(a.FinalAfter)
	w.units(a.Bucket.Spent)
	w.bigint(int64(a.Bucket.Part))
	w.timeOrNull(a.Bucket.At)
	w.units(a.Credit)
	w.units(a.Released)
	w.limit(a.Opening)
	w.timeOrNull(a.OpenedAt)
	w.timeOrNull(a.ClosedAt)
	w.timeOrNull(a.FinalAt)
	w.bigint(a.Revision)
	w.timeOrNull(a.FinalBy())
	w.timeOrNull(a.WantedAt)
	w.tally(a.Tally)
}

func (tx *transaction) foldedArgs(folded map[ledger.AccountID]ledger.Tally) []any {
	ids := slices.SortedFunc(maps.Keys(folded), ledger.CompareAccounts)
	return append([]any{
		column(ids, func(id *ledger.AccountID) int64 { return tx.rows[*id] }),
	}, tallyColumns(ids, func(id *ledger.AccountID) ledger.Tally { return folded[*id] })...)
}
