package postgres

import (
	"context"
	"time"

	"github.com/quotalease/quotalease/ledger"
)

// walkGrantsSQL goes up the primary key, and looks at $3 rows whatever it finds: ids begin with
// their time, so what is old is at the low end, and needs no index of its own. The upper bound
// comes after the limit: inside, a planner without fresh statistics takes the range for small,
// then gathers and sorts all of it. Of rate keys a closed lease is settled whatever it holds.
const walkGrantsSQL = `-- name: walk_grants
SELECT w.id, w.account_id, w.foldable
FROM (SELECT g.id, g.account_id,
             g.state <> 1 AND g.kind <> 3 AND g.updated_at < $4::timestamptz
             AND (g.outstanding = 0 AND g.held = 0 AND g.uncertain = 0
                  OR EXISTS (SELECT 1 FROM account a WHERE a.id = g.account_id AND a.kind = 2))
             AND NOT (g.state = 2 AND g.kind IN (4, 5)) AS foldable
      FROM lease_grant g
      WHERE g.id > $1::uuid
      ORDER BY g.id
      LIMIT $3::integer) AS w
WHERE w.id < $2::uuid
ORDER BY w.id`

// nameAccountsSQL names accounts by their rows. It leaves out rows without an account: Verify is
// what finds those.
const nameAccountsSQL = `-- name: name_accounts
SELECT a.id, a.tenant, a.dimension, a.window_start, a.window_end
FROM account a
WHERE a.id = ANY ($1::bigint[])
ORDER BY a.tenant, a.dimension, a.window_start, a.window_end`

// namedRow is an account with its row.
type namedRow struct {
	row int64
	ledger.AccountID
}

func namedRowFields(n *namedRow) []any {
	return append([]any{&n.row}, accountIDFields(&n.AccountID)...)
}

// step is one grant of a walk.
type step struct {
	grant    ledger.ID
	account  int64
	foldable bool
}

// Foldable implements ledger.Keeper.
func (s *Store) Foldable(
	ctx context.Context, before time.Time, after ledger.ID, limit int,
) ([]ledger.AccountID, ledger.ID, error) {
	const what = "list accounts with old grants"
	walked, err := read(ctx, s, what, stepFields, walkGrantsSQL,
		uuidOf(after), uuidOf(ledger.LowestID(before)), limitOrDefault(limit), timeOf(before))
	if err != nil {
		return nil, ledger.ID{}, err
	}
	var (
		next ledger.ID
		rows []int64
		seen = map[int64]bool{}
	)
	if len(walked) == int(limitOrDefault(limit)) {
		next = walked[len(walked)-1].grant
	}
	for _, w := range walked {
		if w.foldable && !seen[w.account] {
			seen[w.account] = true
			rows = append(rows, w.account)
		}
	}
	if len(rows) == 0 {
		return nil, next, nil
	}
	named, err := read(ctx, s, what, namedRowFields, nameAccountsSQL, rows)
	if err != nil {
		return nil, ledger.ID{}, err
	}
	return column(named, func(n *namedRow) ledger.AccountID { return n.AccountID }), next, nil
}

func stepFields(w *step) []any {
	return []any{(*identity)(&w.grant), &w.account, &w.foldable}
}
