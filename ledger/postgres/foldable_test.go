package postgres_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/quotalease/quotalease/ledger"
)

// fillGrants records n settled spends, a second apart, on accounts in turn.
func (f *fixture) fillGrants(from time.Time, n, accounts int) {
	f.Helper()
	f.exec(`INSERT INTO account (tenant, dimension, window_start, window_end)
		SELECT 'tenant' || n, 'calls', '-infinity', 'infinity' FROM generate_series(1, $1::integer) AS n
		ON CONFLICT DO NOTHING`, accounts)
	f.exec(`INSERT INTO lease_grant (id, account_id, agent, asked, need, amount, generation, policy_version, issued_at,
			updated_at, ttl, taken, refunded, back, moved, granted, consumed_reported, spent, unleased, outstanding,
			held, uncertain, expired, revoked, returned, kind, state, class, region, reason)
		SELECT (lpad(to_hex($1::bigint + n * 1000), 12, '0') || '70008000000000000000')::uuid, a.id, gen_random_uuid(), 1, 1, 1, 0, 1,
			at, at, '0', 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 3, 3, '', ''
		FROM generate_series(1, $2::integer) AS n
		CROSS JOIN LATERAL (SELECT to_timestamp(($1::bigint + n * 1000) / 1000.0) AS at) AS t
		JOIN account a ON a.tenant = 'tenant' || (n % $3::integer + 1)`, from.UnixMilli(), n, accounts)
}

// plan is how the server runs a statement when it does not know the arguments.
func (f *fixture) plan(conn *pgx.Conn, constant, args string) string {
	f.Helper()
	_, err := conn.Exec(f.Context(), "PREPARE "+constant+" AS "+statements(f.T, ".")[constant])
	f.must(err)
	rows, err := conn.Query(f.Context(), fmt.Sprintf("EXPLAIN EXECUTE %s (%s)", constant, args))
	f.must(err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	f.must(err)
	_, err = conn.Exec(f.Context(), "DEALLOCATE "+constant)
	f.must(err)
	return strings.Join(lines, "\n")
}

// The walk is a range of the primary key that ends with its limit, whether the plan is made for
// the arguments or without them, and with statistics or before there are any.
func TestFoldableWalksThePrimaryKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	conn, err := pgx.Connect(f.Context(), f.dsn)
	f.must(err)
	defer conn.Close(f.Context())
	now := time.Now()
	args := fmt.Sprintf("'%s', '%s', 1000, '%s'", ledger.ID{}, ledger.LowestID(now), now.Format(time.RFC3339))
	check := func(when, mode string) {
		t.Helper()
		_, err := conn.Exec(f.Context(), "SELECT set_config('plan_cache_mode', $1, false)", mode)
		f.must(err)
		plan := f.plan(conn, "walkGrantsSQL", args)
		if !strings.Contains(plan, "Index Scan using lease_grant_pkey") || !strings.Contains(plan, "Index Cond: (id > ") ||
			strings.Contains(plan, "Sort") {
			t.Errorf("%s, %s:\n%s", when, mode, plan)
		}
	}
	check("empty", "force_generic_plan") // the others are made anew each time
	f.fillGrants(now.Add(-50_000*time.Second), 40_000, 1_000)
	for _, when := range []string{"without statistics", "with statistics"} {
		check(when, "force_generic_plan")
		check(when, "force_custom_plan")
		f.exec("ANALYZE lease_grant, account")
	}
	if plan := f.plan(conn, "nameAccountsSQL", "ARRAY[1, 2, 3]"); !strings.Contains(plan, "account_pkey") {
		t.Errorf("accounts are named by reading all:\n%s", plan)
	}
}

// Walks pass by grants that no account is known of.
func TestFoldablePassesOrphans(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	now := time.Now()
	f.fillGrants(now.Add(-time.Hour), 30, 3)
	f.exec("UPDATE lease_grant SET account_id = -1 WHERE id < (SELECT id FROM lease_grant ORDER BY id OFFSET 10 LIMIT 1)")
	accounts, next, err := f.store.Foldable(f.Context(), now, ledger.ID{}, 10)
	f.must(err)
	if len(accounts) != 0 || next.IsNil() {
		t.Fatalf("ten orphans: %v, go on after %s, want no account, and to go on", accounts, next)
	}
	accounts, next, err = f.store.Foldable(f.Context(), now, next, 100)
	f.must(err)
	if len(accounts) != 3 || !next.IsNil() {
		t.Errorf("the rest: %v, go on after %s, want three accounts, and no more", accounts, next)
	}
}
