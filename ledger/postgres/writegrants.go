package postgres

import "github.com/quotalease/quotalease/ledger"

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
FROM unnest($1::grant_row_1[]) AS w`

// newGrant writes the fields of a grant_row_1 in their order.
func (tx *transaction) newGrant(w *rowWriter, g *ledger.Grant) {
	w.uuid(g.ID)
	w.bigint(tx.rows[g.Account])
	w.uuid(g.Agent)
	w.text(g.Region)
	w.smallint(int16(g.Kind))
	w.smallint(int16(g.State))
	w.smallint(int16(g.Class))
	w.units(g.Asked)
	w.units(g.Need)
	w.units(g.Amount)
	w.text(string(g.Reason))
	w.bigint(g.Generation)
	w.bigint(g.PolicyVersion)
	w.time(g.IssuedAt)
	w.interval(g.TTL)
	w.timeOrNull(g.ExpiresAt)
	w.timeOrNull(g.ClosesAt)
	w.timeOrNull(g.RevokedAt)
	w.time(g.UpdatedAt)
	w.units(g.Taken)
	w.units(g.Refunded)
	w.units(g.Back)
	w.units(g.Uncertain)
	w.timeOrNull(g.StartsAt)
	w.timeOrNull(g.EndsAt)
	w.interval(g.Delay)
	w.interval(g.Drip)
	w.bigint(g.Seq)
	w.units(g.InUse)
	w.tally(g.Tally())
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
FROM unnest($1::grant_change_1[]) AS w
WHERE g.id = w.id`

// changedGrant writes the fields of a grant_change_1 in their order.
func changedGrant(w *rowWriter, g *ledger.Grant) {
	w.uuid(g.ID)
	w.smallint(int16(g.State))
	w.timeOrNull(g.RevokedAt)
	w.time(g.UpdatedAt)
	w.units(g.Taken)
	w.units(g.Refunded)
	w.units(g.Back)
	w.units(g.Uncertain)
	w.bigint(g.PolicyVersion)
	w.interval(g.TTL)
	w.timeOrNull(g.ExpiresAt)
	w.timeOrNull(g.ClosesAt)
	w.timeOrNull(g.EndsAt)
	w.bigint(g.Seq)
	w.units(g.InUse)
	w.tally(g.Tally())
}

// deleteGrantsSQL removes grants whose tallies were folded.
const deleteGrantsSQL = `-- name: delete_grants
DELETE FROM lease_grant WHERE id = ANY ($1::uuid[])`
