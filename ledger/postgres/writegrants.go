package postgres

import (
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/quotalease/quotalease/ledger"
)

// insertGrantsSQL inserts plainly: an id that another transaction recorded meanwhile, under
// other locks, must fail this one, which then finds the record when it runs again.
const insertGrantsSQL = `-- name: insert_grants
INSERT INTO lease_grant (id, account_id, agent, region, kind, state, class, asked, need, amount, reason,
                         generation, policy_version, issued_at, ttl, expires_at, closes_at,
                         revoked_at, updated_at, taken, refunded, back, moved,
                         starts_at, ends_at, delay, drip, seq, in_use,
                         granted, consumed_reported, spent, unleased, outstanding, held,
                         uncertain, expired, revoked, returned, emergency, extended)
SELECT w.id, w.account_id, w.agent, w.region, w.kind, w.state, w.class, w.asked, w.need, w.amount, w.reason,
       w.generation, w.policy_version, w.issued_at, w.ttl, w.expires_at, w.closes_at,
       w.revoked_at, w.updated_at, w.taken, w.refunded, w.back, w.moved,
       w.starts_at, w.ends_at, w.delay, w.drip, w.seq, w.in_use,
       w.granted, w.consumed_reported, w.spent, w.unleased, w.outstanding, w.held,
       w.uncertain, w.expired, w.revoked, w.returned, w.emergency, w.extended
FROM unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::text[], $5::smallint[], $6::smallint[], $7::smallint[],
            $8::bigint[], $9::bigint[], $10::bigint[], $11::text[],
            $12::bigint[], $13::bigint[], $14::timestamptz[], $15::interval[], $16::timestamptz[], $17::timestamptz[],
            $18::timestamptz[], $19::timestamptz[], $20::bigint[], $21::bigint[], $22::bigint[], $23::bigint[],
            $24::timestamptz[], $25::timestamptz[], $26::interval[], $27::interval[], $28::bigint[], $29::bigint[],
            $30::bigint[], $31::bigint[], $32::bigint[], $33::bigint[], $34::bigint[], $35::bigint[],
            $36::bigint[], $37::bigint[], $38::bigint[], $39::bigint[], $40::bigint[], $41::bigint[])
     AS w (id, account_id, agent, region, kind, state, class,
           asked, need, amount, reason,
           generation, policy_version, issued_at, ttl, expires_at, closes_at,
           revoked_at, updated_at, taken, refunded, back, moved,
           starts_at, ends_at, delay, drip, seq, in_use,
           granted, consumed_reported, spent, unleased, outstanding, held,
           uncertain, expired, revoked, returned, emergency, extended)`

func (tx *transaction) newGrantArgs(grants []ledger.Grant) []any {
	return append([]any{
		column(grants, func(g *ledger.Grant) pgtype.UUID { return uuidOf(g.ID) }),
		column(grants, func(g *ledger.Grant) int64 { return tx.rows[g.Account] }),
		column(grants, func(g *ledger.Grant) pgtype.UUID { return uuidOf(g.Agent) }),
		column(grants, func(g *ledger.Grant) string { return g.Region }),
		column(grants, func(g *ledger.Grant) int16 { return int16(g.Kind) }),
		column(grants, func(g *ledger.Grant) int16 { return int16(g.State) }),
		column(grants, func(g *ledger.Grant) int16 { return int16(g.Class) }),
		column(grants, func(g *ledger.Grant) int64 { return int64(g.Asked) }),
		column(grants, func(g *ledger.Grant) int64 { return int64(g.Need) }),
		column(grants, func(g *ledger.Grant) int64 { return int64(g.Amount) }),
		column(grants, func(g *ledger.Grant) string { return string(g.Reason) }),
		column(grants, func(g *ledger.Grant) int64 { return g.Generation }),
		column(grants, func(g *ledger.Grant) int64 { return g.PolicyVersion }),
		column(grants, func(g *ledger.Grant) pgtype.Timestamptz { return timeOf(g.IssuedAt) }),
		column(grants, func(g *ledger.Grant) pgtype.Interval { return intervalOf(g.TTL) }),
		column(grants, func(g *ledger.Grant) pgtype.Timestamptz { return timeOrNull(g.ExpiresAt) }),
		column(grants, func(g *ledger.Grant) pgtype.Timestamptz { return timeOrNull(g.ClosesAt) }),
		column(grants, func(g *ledger.Grant) pgtype.Timestamptz { return timeOrNull(g.RevokedAt) }),
		column(grants, func(g *ledger.Grant) pgtype.Timestamptz { return timeOf(g.UpdatedAt) }),
		column(grants, func(g *ledger.Grant) int64 { return int64(g.Taken) }),
		column(grants, func(g *ledger.Grant) int64 { return int64(g.Refunded) }),
		column(grants, func(g *ledger.Grant) int64 { return int64(g.Back) }),
		column(grants, func(g *ledger.Grant) int64 { return int64(g.Uncertain) }),
		column(grants, func(g *ledger.Grant) pgtype.Timestamptz { return timeOrNull(g.StartsAt) }),
		column(grants, func(g *ledger.Grant) pgtype.Timestamptz { return timeOrNull(g.EndsAt) }),
		column(grants, func(g *ledger.Grant) pgtype.Interval { return intervalOf(g.Delay) }),
		column(grants, func(g *ledger.Grant) pgtype.Interval { return intervalOf(g.Drip) }),
		column(grants, func(g *ledger.Grant) int64 { return g.Seq }),
		column(grants, func(g *ledger.Grant) int64 { return int64(g.InUse) }),
	}, tallyColumns(grants, func(g *ledger.Grant) ledger.Tally { return g.Tally() })...)
}

// updateGrantsSQL writes what can change after the decision, which itself stands. The terms
// change with the renewals of slots alone; writing the same value again leaves an update HOT.
const updateGrantsSQL = `-- name: update_grants
UPDATE lease_grant g
SET state = w.state, revoked_at = w.revoked_at, updated_at = w.updated_at,
    taken = w.taken, refunded = w.refunded, back = w.back, moved = w.moved,
    policy_version = w.policy_version, ttl = w.ttl, expires_at = w.expires_at, closes_at = w.closes_at,
    ends_at = w.ends_at, seq = w.seq, in_use = w.in_use,
    granted = w.granted, consumed_reported = w.consumed_reported, spent = w.spent,
    unleased = w.unleased, outstanding = w.outstanding, held = w.held, uncertain = w.uncertain,
    expired = w.expired, revoked = w.revoked, returned = w.returned,
    emergency = w.emergency, extended = w.extended
FROM unnest($1::uuid[], $2::smallint[], $3::timestamptz[], $4::timestamptz[],
            $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
            $9::bigint[], $10::interval[], $11::timestamptz[], $12::timestamptz[], $13::timestamptz[],
            $14::bigint[], $15::bigint[],
            $16::bigint[], $17::bigint[], $18::bigint[], $19::bigint[], $20::bigint[], $21::bigint[],
            $22::bigint[], $23::bigint[], $24::bigint[], $25::bigint[], $26::bigint[], $27::bigint[])
     AS w (id, state, revoked_at, updated_at, taken, refunded, back, moved,
           policy_version, ttl, expires_at, closes_at, ends_at, seq, in_use,
           granted, consumed_reported, spent, unleased, outstanding, held,
           uncertain, expired, revoked, returned, emergency, extended)
WHERE g.id = w.id`

func changedGrantArgs(grants []ledger.Grant) []any {
	return append([]any{
		column(grants, func(g *ledger.Grant) pgtype.UUID { return uuidOf(g.ID) }),
		column(grants, func(g *ledger.Grant) int16 { return int16(g.State) }),
		column(grants, func(g *ledger.Grant) pgtype.Timestamptz { return timeOrNull(g.RevokedAt) }),
		column(grants, func(g *ledger.Grant) pgtype.Timestamptz { return timeOf(g.UpdatedAt) }),
		column(grants, func(g *ledger.Grant) int64 { return int64(g.Taken) }),
		column(grants, func(g *ledger.Grant) int64 { return int64(g.Refunded) }),
		column(grants, func(g *ledger.Grant) int64 { return int64(g.Back) }),
		column(grants, func(g *ledger.Grant) int64 { return int64(g.Uncertain) }),
		column(grants, func(g *ledger.Grant) int64 { return g.PolicyVersion }),
		column(grants, func(g *ledger.Grant) pgtype.Interval { return intervalOf(g.TTL) }),
		column(grants, func(g *ledger.Grant) pgtype.Timestamptz { return timeOrNull(g.ExpiresAt) }),
		column(grants, func(g *ledger.Grant) pgtype.Timestamptz { return timeOrNull(g.ClosesAt) }),
		column(grants, func(g *ledger.Grant) pgtype.Timestamptz { return timeOrNull(g.EndsAt) }),
		column(grants, func(g *ledger.Grant) int64 { return g.Seq }),
		column(grants, func(g *ledger.Grant) int64 { return int64(g.InUse) }),
	}, tallyColumns(grants, func(g *ledger.Grant) ledger.Tally { return g.Tally() })...)
}

// deleteGrantsSQL removes grants whose tallies were folded.
const deleteGrantsSQL = `-- name: delete_grants
DELETE FROM lease_grant WHERE id = ANY ($1::uuid[])`
