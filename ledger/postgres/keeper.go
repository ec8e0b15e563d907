package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/quotalease/quotalease/ledger"
)

// verifyPage is how many accounts Verify holds in memory; their grants are streamed.
const verifyPage = 500

// pageAccountsSQL goes by surrogate id, the order of lease_grant_of_account.
const pageAccountsSQL = `-- name: page_accounts
SELECT a.id, a.tenant, a.dimension, a.window_start, a.window_end,
       a.policy_version, a.kind, a.class, a.unit_limit, a.budget, a.ttl, a.grace,
       a.granted, a.consumed_reported, a.spent, a.unleased, a.outstanding, a.held, a.uncertain,
       a.expired, a.revoked, a.returned, a.emergency, a.extended,
       a.generation, a.committed, a.largest_limit, a.overshoot, a.clock, a.waiting,
       a.rate_units, a.rate_per, a.max_hold, a.pot, a.final_after, a.bucket_spent, a.bucket_part, a.bucket_at,
       a.credit, a.released, a.opening_limit, a.opened_at, a.closed_at, a.final_at, a.revision, a.wanted_at,
       coalesce(f.granted, 0), coalesce(f.consumed_reported, 0), coalesce(f.spent, 0),
       coalesce(f.unleased, 0), coalesce(f.outstanding, 0), coalesce(f.held, 0),
       coalesce(f.uncertain, 0), coalesce(f.expired, 0), coalesce(f.revoked, 0), coalesce(f.returned, 0),
       coalesce(f.emergency, 0), coalesce(f.extended, 0)
FROM account a
LEFT JOIN account_folded f ON f.account_id = a.id
WHERE a.id > $1::bigint
ORDER BY a.id
LIMIT $2::integer`

const streamGrantsSQL = `-- name: stream_grants
SELECT a.tenant, a.dimension, a.window_start, a.window_end,
       g.id, g.kind, g.state, g.class, g.agent, g.region, g.asked, g.need, g.amount, g.reason,
       g.generation, g.policy_version, g.issued_at, g.ttl, g.expires_at, g.closes_at, g.revoked_at, g.updated_at,
       g.taken, g.refunded, g.back, g.moved, g.starts_at, g.ends_at, g.delay, g.drip, g.seq, g.in_use,
       g.granted, g.consumed_reported, g.spent, g.unleased, g.outstanding, g.held,
       g.uncertain, g.expired, g.revoked, g.returned, g.emergency, g.extended
FROM lease_grant g
JOIN account a ON a.id = g.account_id
WHERE g.account_id BETWEEN $1::bigint AND $2::bigint
ORDER BY g.account_id, g.id`

const countGrantsSQL = `-- name: count_grants
SELECT count(*) FROM lease_grant`

// Verify implements ledger.Keeper. It reads in one snapshot, a page of accounts at a time and
// their grants row by row, so that memory does not grow with the ledger. Writers go on.
func (s *Store) Verify(
	ctx context.Context, found func(ledger.Difference), progress func(accounts, grants int),
) (ledger.Verified, error) {
	var v ledger.Verified
	snapshot := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, s.pool, snapshot, func(tx pgx.Tx) error {
		for after := int64(0); ; {
			page, err := pageAccounts(ctx, tx, after)
			if err != nil {
				return err
			}
			if len(page) == 0 {
				return countAll(ctx, tx, &v, found)
			}
			if err := page.audit(ctx, tx, &v); err != nil {
				return err
			}
			for _, entry := range page {
				for _, d := range entry.audit.Done() {
					v.Differences++
					found(d)
				}
			}
			v.Accounts += len(page)
			progress(v.Accounts, v.Grants)
			after = page[len(page)-1].row
		}
	})
	return v, outage(ctx, "verify the ledger", err)
}

// countAll finds grants that belong to no account: none of the pages had them.
func countAll(ctx context.Context, tx pgx.Tx, v *ledger.Verified, found func(ledger.Difference)) error {
	var all int64
	if err := tx.QueryRow(ctx, countGrantsSQL).Scan(&all); err != nil {
		return err
	}
	if all != int64(v.Grants) {
		v.Differences++
		found(ledger.Difference{
			Counter: "grants, those without an account included", Recorded: ledger.Units(all), Recomputed: ledger.Units(v.Grants),
		})
	}
	return nil
}

// auditPage is some accounts by rising surrogate id.
type auditPage []auditEntry

type auditEntry struct {
	row   int64
	id    ledger.AccountID
	audit *ledger.Audit
}

func pageAccounts(ctx context.Context, tx pgx.Tx, after int64) (auditPage, error) {
	rows, err := tx.Query(ctx, pageAccountsSQL, after, int32(verifyPage))
	if err != nil {
		return nil, err
	}
	var (
		page   auditPage
		row    int64
		a      ledger.Account
		folded ledger.Tally
	)
	fields := append(append([]any{&row}, accountFields(&a)...), tallyFields(&folded)...)
	_, err = pgx.ForEachRow(rows, fields, func() error {
		page = append(page, auditEntry{row, a.ID, ledger.NewAudit(a, folded)})
		return nil
	})
	return page, err
}

// audit merges the page's grants into it: both come in the order of the accounts.
func (page auditPage) audit(ctx context.Context, tx pgx.Tx, v *ledger.Verified) error {
	rows, err := tx.Query(ctx, streamGrantsSQL, page[0].row, page[len(page)-1].row)
	if err != nil {
		return err
	}
	var (
		at       int
		g        ledger.Grant
		recorded ledger.Tally
	)
	_, err = pgx.ForEachRow(rows, append(grantFields(&g), tallyFields(&recorded)...), func() error {
		for page[at].id != g.Account {
			at++
		}
		page[at].audit.Add(g, recorded)
		v.Grants++
		return nil
	})
	return err
}
