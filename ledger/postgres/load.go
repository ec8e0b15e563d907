package postgres

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// loadGrantsSQL reads what the scope names, oldest decision first: that is the order in which
// the rules move held units. The ids are gathered first and looked up by the primary key, so
// that a grant wanted for two reasons comes once. It comes in one round trip with the locks,
// so it asks the locked rows themselves for what they are: kind 2 are rate keys, kind 3 slots,
// class 3 is bounded. What is due is due by the account's own, ratcheted clock; reading it a
// moment after read_clock loads too much, never too little. Of $10, the agents whose own leases
// are wanted, each account has a part, from first to last.
const loadGrantsSQL = `-- name: load_grants
WITH locked AS MATERIALIZED (
    SELECT a.id, a.kind, a.class, greatest(a.clock, clock_timestamp()) AS clock, w.first, w.last
    FROM unnest($2::text[], $3::text[], $4::timestamptz[], $5::timestamptz[], $6::integer[], $7::integer[])
         AS w (tenant, dimension, window_start, window_end, first, last)
    JOIN account a ON a.tenant = w.tenant AND a.dimension = w.dimension
                  AND a.window_start = w.window_start AND a.window_end = w.window_end)
SELECT g.account_id, g.id, g.kind, g.state, g.class, g.agent, g.region, g.asked, g.need, g.amount, g.reason,
       g.generation, g.policy_version, g.issued_at, g.ttl, g.expires_at, g.closes_at, g.revoked_at, g.updated_at,
       g.taken, g.refunded, g.back, g.moved, g.starts_at, g.ends_at, g.delay, g.drip, g.seq, g.in_use
FROM lease_grant g
WHERE g.id = ANY (ARRAY(
    SELECT named.id FROM unnest($1::uuid[]) AS named (id)
    UNION ALL
    SELECT due.id
    FROM locked w
    CROSS JOIN LATERAL (
        SELECT d.id FROM lease_grant d
        WHERE d.account_id = w.id AND d.state = 1 AND d.closes_at <= w.clock
        ORDER BY d.closes_at, d.id LIMIT $8::integer) AS due
    UNION ALL
    SELECT ending.id
    FROM locked w
    CROSS JOIN LATERAL (
        SELECT e.id FROM lease_grant e
        WHERE e.account_id = w.id AND e.state = 2 AND e.kind = 5 AND e.ends_at <= w.clock
        ORDER BY e.ends_at LIMIT $8::integer) AS ending
    WHERE w.kind = 3
    UNION ALL
    SELECT held.id
    FROM locked w
    CROSS JOIN LATERAL (
        SELECT h.id FROM lease_grant h
        WHERE h.account_id = w.id AND h.held > 0
        ORDER BY h.issued_at LIMIT $9::integer) AS held
    WHERE w.kind <> 2 AND (w.class = 3 OR $11::boolean)
    UNION ALL
    SELECT own.id
    FROM locked w
    CROSS JOIN LATERAL unnest(($10::uuid[])[w.first:w.last]) AS one (agent)
    CROSS JOIN LATERAL (
        SELECT o.id FROM lease_grant o
        WHERE o.account_id = w.id AND o.state = 1 AND o.agent = one.agent OFFSET 0) AS own
    UNION ALL
    SELECT live.id
    FROM locked w
    CROSS JOIN LATERAL (
        SELECT l.id FROM lease_grant l WHERE l.account_id = w.id AND l.state = 1 OFFSET 0) AS live
    WHERE $12::boolean
    UNION ALL
    SELECT old.id
    FROM locked w
    CROSS JOIN LATERAL (
        SELECT f.id FROM lease_grant f
        WHERE f.account_id = w.id AND f.updated_at < $13::timestamptz AND f.state <> 1 AND f.kind <> 3
          AND (w.kind = 2 OR f.outstanding = 0 AND f.held = 0 AND f.uncertain = 0)
          AND NOT (f.state = 2 AND f.kind IN (4, 5))
        ORDER BY f.id LIMIT $14::integer) AS old
    WHERE $13::timestamptz IS NOT NULL))
ORDER BY g.issued_at, g.id`

// loadParticipantsSQL reads the agents that count now or soon. Older rows wait for Prune.
const loadParticipantsSQL = `-- name: load_participants
SELECT p.tenant, p.dimension, p.agent, p.last_seen, p.region, p.demand
FROM unnest($1::text[], $2::text[]) AS k (tenant, dimension)
JOIN participant p ON p.tenant = k.tenant AND p.dimension = k.dimension
WHERE p.last_seen > now() - $3::interval`

// seenWithin is how far back participants are loaded, if the scope asks for no more.
const seenWithin = time.Hour

// queueLoad adds what is read under the locks to the batch that takes them.
func (tx *transaction) queueLoad(batch *pgx.Batch) {
	t := tx.target
	if len(t.grants) > 0 || len(t.accounts) > 0 {
		batch.Queue(loadGrantsSQL, t.grantArgs()...).Query(func(rows pgx.Rows) (err error) {
			tx.grants, err = collect(rows, grantRowFields)
			return err
		})
	}
	if len(t.accounts) > 0 {
		tenants, dimensions := keyColumns(t.keys)
		batch.Queue(loadParticipantsSQL, tenants, dimensions, intervalOf(max(seenWithin, t.seen))).
			Query(func(rows pgx.Rows) error {
				all, err := collect(rows, participantFields)
				tx.loaded.Participants = make(map[quota.Key][]ledger.Participant, len(t.keys))
				for _, p := range all {
					tx.loaded.Participants[p.Key] = append(tx.loaded.Participants[p.Key], p)
				}
				return err
			})
	}
}

// grantRow is a grant as stored, with its account's row.
type grantRow struct {
	account int64
	ledger.Grant
}

func grantRowFields(g *grantRow) []any { return append([]any{&g.account}, recordFields(&g.Grant)...) }

// nameGrants gives the loaded grants their accounts. Those that the transaction did not lock are
// asked for, which is seldom: of reports on windows that are over.
func (tx *transaction) nameGrants(ctx context.Context) error {
	names := make(map[int64]ledger.AccountID, len(tx.rows))
	for id, row := range tx.rows {
		names[row] = id
	}
	others := map[int64]bool{}
	for i := range tx.grants {
		if _, known := names[tx.grants[i].account]; !known {
			others[tx.grants[i].account] = true
		}
	}
	if len(others) > 0 {
		rows, err := tx.conn.Query(ctx, nameAccountsSQL, slices.Sorted(maps.Keys(others)))
		if err != nil {
			return err
		}
		named, err := collect(rows, namedRowFields)
		if err != nil {
			return err
		}
		for _, n := range named {
			names[n.row] = n.AccountID
		}
	}
	tx.loaded.Grants = make([]ledger.Grant, 0, len(tx.grants))
	for i := range tx.grants {
		if id, known := names[tx.grants[i].account]; known {
			g := tx.grants[i].Grant
			g.Account = id
			tx.loaded.Grants = append(tx.loaded.Grants, g)
		}
	}
	return nil
}

func (t *target) grantArgs() []any {
	tenants, dimensions, starts, ends := accountKeyColumns(t.accounts)
	held := int32(ledger.HeldBatch)
	if t.held {
		held = ledger.ReleaseBatch
	}
	return []any{
		uuidsOf(t.grants), tenants, dimensions, starts, ends, t.first, t.last,
		int32(ledger.DueBatch), held, uuidsOf(t.holders), t.held, t.live, timeOrNull(t.foldOld), int32(ledger.FoldBatch),
	}
}

func participantFields(p *ledger.Participant) []any {
	return []any{&p.Key.Tenant, &p.Key.Dimension, (*identity)(&p.Agent), (*instant)(&p.LastSeen), &p.Region, (*int64)(&p.Demand)}
}
