package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// What time makes due is at the ends of two indexes, however many windows were closed long ago
// and however many are still open.
func TestWindowsToCloseAreTheEndsOfTwoIndexes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	conn, err := pgx.Connect(f.Context(), f.dsn)
	f.must(err)
	defer conn.Close(f.Context())
	f.exec(`INSERT INTO account (tenant, dimension, window_start, window_end, kind, class, grace, final_after, closed_at, final_at, final_by)
		SELECT 'tenant' || n % 50, 'calls', at, at + interval '1 minute', 1, 2, '5 s', '3 days', at,
			CASE WHEN n % 100 <> 0 THEN at END, CASE WHEN n % 100 = 0 THEN at + interval '3 days' END
		FROM generate_series(1, 20000) AS n
		CROSS JOIN LATERAL (SELECT now() - n * interval '1 minute' - interval '1 hour' AS at) AS t`)
	f.exec(`INSERT INTO account (tenant, dimension, window_start, window_end, kind, class, grace)
		SELECT 'tenant' || n, 'calls', now() - interval '1 hour', now() + interval '1 hour', 1, 2, '5 s' FROM generate_series(100, 5000) AS n`)
	f.exec(`INSERT INTO account (tenant, dimension, window_start, window_end, kind, class, grace)
		SELECT 'due' || n, 'calls', now() - interval '1 hour', now() - interval '1 minute', 1, 2, '5 s' FROM generate_series(1, 3) AS n`)
	for _, when := range []string{"without statistics", "with statistics"} {
		plan := f.plan(conn, "unstatedSQL", "32")
		for _, want := range []string{
			"account_unstated", "Index Cond: (window_end <= statement_timestamp())",
			"account_unfinal", "Index Cond: (final_by <= statement_timestamp())",
		} {
			if !strings.Contains(plan, want) {
				t.Errorf("%s, the plan has no %s:\n%s", when, want, plan)
			}
		}
		if strings.Contains(plan, "Seq Scan") {
			t.Errorf("%s:\n%s", when, plan)
		}
		f.exec("ANALYZE account")
	}
	// 20,000 minutes are 13.9 days: each hundredth window waits, and those older than 3 days are due.
	due, err := f.store.Unstated(f.Context(), 1000)
	f.must(err)
	opened := 0
	for _, id := range due {
		if strings.HasPrefix(id.Key.Tenant, "due") {
			opened++
		}
	}
	if want := f.number("SELECT count(*) FROM account WHERE final_by <= now()"); opened != 3 || int64(len(due)) != want+3 || want < 100 {
		t.Errorf("%d due, %d of them to close: want %d and 3", len(due), opened, want+3)
	}
	if due, err := f.store.Unstated(f.Context(), 2); err != nil || len(due) != 2 {
		t.Errorf("two of them: %v, %v", due, err)
	}
}

// Statements and limits live as long as their account, and no longer.
func TestPruneTakesStatementsAndLimits(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	now := time.Now()
	for i, tenant := range []string{"old", "young"} {
		end := now.Add(-time.Duration(2-i) * time.Hour)
		id := ledger.AccountID{Key: quota.Key{Tenant: tenant, Dimension: "calls"}, Window: quota.NewWindow(end.Add(-time.Hour), end)}
		f.must(f.store.Update(f.Context(), ledger.Scope{Accounts: []ledger.AccountID{id}}, func(b *ledger.Book) error {
			if _, err := b.Open(id, terms()); err != nil {
				return err
			}
			if _, err := b.Credit(ledger.Adjustment{ID: newID(t), Account: id, Units: 5, Who: "mina", Why: "test"}); err != nil {
				return err
			}
			_, err := b.CloseWindow(id)
			return err
		}))
	}
	_, err := f.store.Prune(f.Context(), now.Add(-time.Hour), now.Add(-90*time.Minute))
	f.must(err)
	list, err := f.store.Statements(f.Context(), ledger.StatementQuery{})
	f.must(err)
	if len(list) != 1 || list[0].Account.Key.Tenant != "young" {
		t.Errorf("statements left: %+v", list)
	}
	if s, l := f.number("SELECT count(*) FROM statement"), f.number("SELECT count(*) FROM account_limit"); s != 1 || l != 1 {
		t.Errorf("%d statements and %d limits left, want 1 and 1", s, l)
	}
}

// An account that an older version opened has no opening limit on record: it opened with what
// it had.
func TestAccountsOfAnOlderVersionAreStatedToo(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`INSERT INTO account (tenant, dimension, window_start, window_end, kind, class, unit_limit, largest_limit, spent, grace)
		VALUES ('acme', 'calls', now() - interval '2 hours', now() - interval '1 hour', 1, 1, 700, 700, 30, '5 s')`)
	due, err := f.store.Unstated(f.Context(), 10)
	f.must(err)
	if len(due) != 1 {
		t.Fatalf("due: %v, want one", due)
	}
	f.must(f.store.Update(f.Context(), ledger.Scope{Accounts: due}, func(b *ledger.Book) error {
		_, err := b.CloseWindow(due[0])
		return err
	}))
	list, err := f.store.Statements(f.Context(), ledger.StatementQuery{})
	f.must(err)
	if len(list) != 1 || list[0].Billable != 30 || list[0].Opening != quota.LimitOf(700) || !list[0].OpenedAt.Equal(due[0].Window.Start) || !list[0].Final() {
		t.Errorf("statement %+v", list)
	}
}
