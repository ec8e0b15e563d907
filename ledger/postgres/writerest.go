package postgres

import (
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/quotalease/quotalease/ledger"
)

// insertIncarnationsSQL inserts plainly: of two transactions that meet an agent for the first
// time, one must run again and see the tokens that the other issued.
const insertIncarnationsSQL = `-- name: insert_incarnations
INSERT INTO incarnation (id, name, region, started_at, last_seen, policy_version, echoed, tokens)
SELECT w.id, w.name, w.region, w.started_at, w.last_seen, w.policy_version, w.echoed, w.tokens
FROM unnest($1::incarnation_row_1[]) AS w`

const updateIncarnationsSQL = `-- name: update_incarnations
UPDATE incarnation i
SET name = w.name, region = w.region, started_at = w.started_at, last_seen = w.last_seen,
    policy_version = w.policy_version, echoed = w.echoed, tokens = w.tokens
FROM unnest($1::incarnation_row_1[]) AS w
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
		batch.Queue(insertIncarnationsSQL, rowsOf(tx.types.incarnation, met, incarnationRow))
	}
	if len(changed) > 0 {
		batch.Queue(updateIncarnationsSQL, rowsOf(tx.types.incarnation, changed, incarnationRow))
	}
}

// incarnationRow writes the fields of an incarnation_row_1 in their order.
func incarnationRow(w *rowWriter, i *ledger.Incarnation) {
	w.uuid(i.ID)
	w.text(i.Name)
	w.text(i.Region)
	w.time(i.StartedAt)
	w.time(i.LastSeen)
	w.bigint(i.PolicyVersion)
	w.uuidOrNull(i.Echoed)
	w.uuids(i.Issued)
}

// upsertParticipantsSQL keeps the later time: two windows of one key are locked apart.
const upsertParticipantsSQL = `-- name: upsert_participants
INSERT INTO participant (tenant, dimension, agent, last_seen, region, demand)
SELECT w.tenant, w.dimension, w.agent, w.last_seen, w.region, w.demand
FROM unnest($1::participant_row_1[]) AS w
ON CONFLICT (tenant, dimension, agent) DO UPDATE
SET last_seen = greatest(participant.last_seen, EXCLUDED.last_seen),
    region = EXCLUDED.region, demand = EXCLUDED.demand`

// participantRow writes the fields of a participant_row_1 in their order.
func participantRow(w *rowWriter, p *ledger.Participant) {
	w.text(p.Key.Tenant)
	w.text(p.Key.Dimension)
	w.uuid(p.Agent)
	w.time(p.LastSeen)
	w.text(p.Region)
	w.units(p.Demand)
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
