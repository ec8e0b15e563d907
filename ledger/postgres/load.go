package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// loadGrantsSQL reads what the scope names, oldest decision first: that is the order in which
// the rules move held units. The ids are gathered first and looked up by the primary key, so
// that a grant wanted for two reasons comes once. $2 are the locked accounts, $3 their clocks,
// $4 those whose held units may move, $12 those whose slots time ends, with their clocks, and $14
// says which of $2 are rate keys, where a closed lease is settled whatever it holds. The agents'
// own leases are looked up pair by pair or, if that is
// too many pairs ($11), picked from all live leases of the accounts.
const loadGrantsSQL = `-- name: load_grants
SELECT a.tenant, a.dimension, a.window_start, a.window_end,
       g.id, g.kind, g.state, g.class, g.agent, g.region, g.asked, g.need, g.amount, g.reason,
       g.generation, g.policy_version, g.issued_at, g.ttl, g.expires_at, g.closes_at, g.revoked_at, g.updated_at,
       g.taken, g.refunded, g.back, g.moved, g.starts_at, g.ends_at, g.delay, g.drip, g.seq, g.in_use
FROM lease_grant g
JOIN account a ON a.id = g.account_id
WHERE g.id = ANY (ARRAY(
    SELECT named.id FROM unnest($1::uuid[]) AS named (id)
    UNION
    SELECT due.id
    FROM unnest($2::bigint[], $3::timestamptz[]) AS w (account_id, clock)
    CROSS JOIN LATERAL (
        SELECT d.id FROM lease_grant d
        WHERE d.account_id = w.account_id AND d.state = 1 AND d.closes_at <= w.clock
        ORDER BY d.closes_at, d.id LIMIT $8::integer) AS due
    UNION
    SELECT ending.id
    FROM unnest($12::bigint[], $13::timestamptz[]) AS w (account_id, clock)
    CROSS JOIN LATERAL (
        SELECT e.id FROM lease_grant e
        WHERE e.account_id = w.account_id AND e.state = 2 AND e.kind = 5 AND e.ends_at <= w.clock
        ORDER BY e.ends_at LIMIT $8::integer) AS ending
    UNION
    SELECT held.id
    FROM unnest($4::bigint[]) AS w (account_id)
    CROSS JOIN LATERAL (
        SELECT h.id FROM lease_grant h
        WHERE h.account_id = w.account_id AND h.held > 0
        ORDER BY h.issued_at LIMIT $9::integer) AS held
    UNION
    SELECT own.id
    FROM unnest($2::bigint[]) AS w (account_id)
    CROSS JOIN unnest($5::uuid[]) AS one (agent)
    CROSS JOIN LATERAL (
        SELECT o.id FROM lease_grant o
        WHERE o.account_id = w.account_id AND o.state = 1 AND o.agent = one.agent OFFSET 0) AS own
    WHERE NOT $11::boolean
    UNION
    SELECT live.id
    FROM unnest($2::bigint[]) AS w (account_id)
    CROSS JOIN LATERAL (
        SELECT l.id FROM lease_grant l
        WHERE l.account_id = w.account_id AND l.state = 1
          AND ($6::boolean OR l.agent IN (SELECT asked.agent FROM unnest($5::uuid[]) AS asked (agent)))
        OFFSET 0) AS live
    WHERE $6::boolean OR $11::boolean
    UNION
    SELECT old.id
    FROM unnest($2::bigint[], $14::boolean[]) AS w (account_id, by_rate)
    CROSS JOIN LATERAL (
        SELECT f.id FROM lease_grant f
        WHERE f.account_id = w.account_id AND f.updated_at < $7::timestamptz AND f.state <> 1 AND f.kind <> 3
          AND (w.by_rate OR f.outstanding = 0 AND f.held = 0 AND f.uncertain = 0)
          AND NOT (f.state = 2 AND f.kind IN (4, 5))
        ORDER BY f.id LIMIT $10::integer) AS old
    WHERE $7::timestamptz IS NOT NULL))
ORDER BY g.issued_at, g.id`

// maxPairs is where reading all live leases of some accounts becomes cheaper than looking up
// each pair of account and agent.
const maxPairs = 4096

// loadParticipantsSQL reads the agents that count now or soon. Older rows wait for Prune.
const loadParticipantsSQL = `-- name: load_participants
SELECT p.tenant, p.dimension, p.agent, p.last_seen, p.region, p.demand
FROM unnest($1::text[], $2::text[]) AS k (tenant, dimension)
JOIN participant p ON p.tenant = k.tenant AND p.dimension = k.dimension
WHERE p.last_seen > $3::timestamptz`

// seenWithin is how far back participants are loaded, if no lease of the accounts lives longer.
const seenWithin = time.Hour

// load is the second round trip.
func (tx *transaction) load(ctx context.Context) error {
	t := tx.target
	batch := &pgx.Batch{}
	if len(t.grants) > 0 || len(t.accounts) > 0 {
		batch.Queue(loadGrantsSQL, tx.grantArgs()...).Query(func(rows pgx.Rows) (err error) {
			tx.loaded.Grants, err = collect(rows, grantFields)
			return err
		})
	}
	if len(t.accounts) > 0 {
		tenants, dimensions := keyColumns(t.keys)
		batch.Queue(loadParticipantsSQL, tenants, dimensions, timeOf(tx.participantsSince())).
			Query(func(rows pgx.Rows) (err error) {
				all, err := collect(rows, participantFields)
				tx.loaded.Participants = make(map[quota.Key][]ledger.Participant, len(t.keys))
				for _, p := range all {
					tx.loaded.Participants[p.Key] = append(tx.loaded.Participants[p.Key], p)
				}
				return err
			})
	}
	return tx.conn.SendBatch(ctx, batch).Close()
}

func (tx *transaction) grantArgs() []any {
	locked := tx.loaded.Accounts
	var movable, slots []ledger.Account
	for _, a := range locked {
		if a.Kind != quota.RateLimit && (a.Class == quota.Bounded || tx.target.held) {
			movable = append(movable, a)
		}
		if a.Kind == quota.Concurrency {
			slots = append(slots, a)
		}
	}
	held := int32(ledger.HeldBatch)
	if tx.target.held {
		held = ledger.ReleaseBatch
	}
	row := func(a *ledger.Account) int64 { return tx.rows[a.ID] }
	clock := func(a *ledger.Account) pgtype.Timestamptz {
		if a.Clock.After(tx.loaded.Now) {
			return timeOf(a.Clock) // what is due is due by the account's own, ratcheted clock
		}
		return timeOf(tx.loaded.Now)
	}
	return []any{
		uuidsOf(tx.target.grants), column(locked, row), column(locked, clock), column(movable, row),
		uuidsOf(tx.target.agents), tx.target.live, timeOrNull(tx.target.foldOld),
		int32(ledger.DueBatch), held, int32(ledger.FoldBatch),
		len(locked)*len(tx.target.agents) > maxPairs,
		column(slots, row), column(slots, clock),
		column(locked, func(a *ledger.Account) bool { return a.Kind == quota.RateLimit }),
	}
}

func (tx *transaction) participantsSince() time.Time {
	within := seenWithin
	for i := range tx.loaded.Accounts {
		a := &tx.loaded.Accounts[i]
		within = max(within, a.TTL+a.Grace)
	}
	return tx.loaded.Now.Add(-within)
}

func participantFields(p *ledger.Participant) []any {
	return []any{&p.Key.Tenant, &p.Key.Dimension, (*identity)(&p.Agent), (*instant)(&p.LastSeen), &p.Region, (*int64)(&p.Demand)}
}
