package postgres

import (
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/quotalease/quotalease/ledger"
)

// insertIncarnationsSQL inserts plainly: of two transactions that meet an agent for the first
// time, one must run again and see the tokens that the other issued. The tokens of all rows
// come in one array, each row's from first to last.
const insertIncarnationsSQL = `-- name: insert_incarnations
INSERT INTO incarnation (id, name, region, started_at, last_seen, policy_version, echoed, tokens)
SELECT w.id, w.name, w.region, w.started_at, w.last_seen, w.policy_version, w.echoed,
       ($10::uuid[])[w.first:w.last]
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::timestamptz[], $5::timestamptz[], $6::bigint[], $7::uuid[],
            $8::integer[], $9::integer[])
     AS w (id, name, region, started_at, last_seen, policy_version, echoed, first, last)`

const updateIncarnationsSQL = `-- name: update_incarnations
UPDATE incarnation i
SET name = w.name, region = w.region, started_at = w.started_at, last_seen = w.last_seen,
    policy_version = w.policy_version, echoed = w.echoed, tokens = ($10::uuid[])[w.first:w.last]
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::timestamptz[], $5::timestamptz[], $6::bigint[], $7::uuid[],
            $8::integer[], $9::integer[])
     AS w (id, name, region, started_at, last_seen, policy_version, echoed, first, last)
WHERE i.id = w.id`

func (tx *transaction) queueIncarnations(batch *pgx.Batch) {
	known := make(map[ledger.ID]bool, len(tx.loaded.Incarnations))
	for _, i := range tx.loaded.Incarnations {
		known[i.ID] = true
	}
	var met, changed []ledger.Incarnation
	for _, i := range tx.changes.Incarnations {
		if known[i.ID] {
			changed = append(changed, i)
		} else {
			met = append(met, i)
		}
	}
	if len(met) > 0 {
		batch.Queue(insertIncarnationsSQL, incarnationArgs(met)...)
	}
	if len(changed) > 0 {
		batch.Queue(updateIncarnationsSQL, incarnationArgs(changed)...)
	}
}

func incarnationArgs(is []ledger.Incarnation) []any {
	first, last := make([]int32, len(is)), make([]int32, len(is))
	tokens := []pgtype.UUID{}
	for n := range is {
		first[n] = int32(len(tokens) + 1)
		for _, token := range is[n].Issued {
			tokens = append(tokens, uuidOf(token))
		}
		last[n] = int32(len(tokens))
	}
	return []any{
		column(is, func(i *ledger.Incarnation) pgtype.UUID { return uuidOf(i.ID) }),
		column(is, func(i *ledger.Incarnation) string { return i.Name }),
		column(is, func(i *ledger.Incarnation) string { return i.Region }),
		column(is, func(i *ledger.Incarnation) pgtype.Timestamptz { return timeOf(i.StartedAt) }),
		column(is, func(i *ledger.Incarnation) pgtype.Timestamptz { return timeOf(i.LastSeen) }),
		column(is, func(i *ledger.Incarnation) int64 { return i.PolicyVersion }),
		column(is, func(i *ledger.Incarnation) pgtype.UUID { return uuidOrNull(i.Echoed) }),
		first, last, tokens,
	}
}

// lockJournalSQL makes those who write events commit one after another, so that ids rise in
// the order in which rows become visible and a reader that goes on after the last one it saw
// misses none. It is the last lock of all and is held for one insert and the commit.
const lockJournalSQL = `-- name: lock_journal
SELECT pg_advisory_xact_lock(7600, 1)`

const insertEventsSQL = `-- name: insert_events
INSERT INTO event (at, kind, tenant, dimension, window_start, window_end, grant_id, agent, units, generation, note)
SELECT w.at, w.kind, w.tenant, w.dimension, w.window_start, w.window_end, w.grant_id, w.agent,
       w.units, w.generation, w.note
FROM unnest($1::timestamptz[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::timestamptz[],
            $7::uuid[], $8::uuid[], $9::bigint[], $10::bigint[], $11::text[])
     WITH ORDINALITY
     AS w (at, kind, tenant, dimension, window_start, window_end,
           grant_id, agent, units, generation, note, line)
ORDER BY w.line`

func (tx *transaction) queueEvents(batch *pgx.Batch) {
	es := tx.changes.Events
	if len(es) == 0 {
		return
	}
	batch.Queue(lockJournalSQL)
	batch.Queue(insertEventsSQL,
		column(es, func(e *ledger.Event) pgtype.Timestamptz { return timeOf(e.At) }),
		column(es, func(e *ledger.Event) string { return string(e.Kind) }),
		column(es, func(e *ledger.Event) string { return e.Account.Key.Tenant }),
		column(es, func(e *ledger.Event) string { return e.Account.Key.Dimension }),
		column(es, func(e *ledger.Event) pgtype.Timestamptz { return startOf(e.Account.Window) }),
		column(es, func(e *ledger.Event) pgtype.Timestamptz { return endOf(e.Account.Window) }),
		column(es, func(e *ledger.Event) pgtype.UUID { return uuidOrNull(e.Grant) }),
		column(es, func(e *ledger.Event) pgtype.UUID { return uuidOrNull(e.Agent) }),
		column(es, func(e *ledger.Event) int64 { return int64(e.Units) }),
		column(es, func(e *ledger.Event) int64 { return e.Generation }),
		column(es, func(e *ledger.Event) string { return e.Note }))
}
