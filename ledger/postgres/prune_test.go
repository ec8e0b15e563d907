package postgres_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// The walk over accounts without an end is a range of its own index, which no decision writes to.
func TestTheWalkOverEndlessAccountsIsARange(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	conn, err := pgx.Connect(f.Context(), f.dsn)
	f.must(err)
	defer conn.Close(f.Context())
	f.exec(`INSERT INTO account (tenant, dimension, window_start, window_end, kind, class, grace)
		SELECT 'tenant' || n, 'calls', now() - interval '1 hour', now() + interval '1 hour', 1, 2, '5 s' FROM generate_series(1, 20000) AS n`)
	f.exec(`INSERT INTO account (tenant, dimension, window_start, window_end, kind, class, grace, clock)
		SELECT 'tenant' || n, 'calls', '-infinity', 'infinity', 2, 3, '5 s', now() - interval '1 hour' FROM generate_series(1, 2500) AS n`)
	f.exec(`INSERT INTO account (tenant, dimension, window_start, window_end, kind, class, grace)
		SELECT 'of no known age', 'calls', '-infinity', 'infinity', 2, 3, '5 s'`)
	f.exec("ANALYZE account")
	plan := f.plan(conn, "endlessAccountsSQL", fmt.Sprintf("0, 1000, '%s'", time.Now().Format(time.RFC3339)))
	if !strings.Contains(plan, "Index Scan using account_endless") || strings.Contains(plan, "Sort") {
		t.Error(plan)
	}
	now := time.Now()
	n, err := f.store.Prune(f.Context(), now, now.Add(-time.Minute))
	f.must(err)
	if left := f.number("SELECT count(*) FROM account WHERE window_end = 'infinity'"); n != 2500 || left != 1 {
		t.Errorf("%d went and %d are left, want 2,500, and the one of no known age", n, left)
	}
}
