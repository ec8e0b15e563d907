package migrations_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/quotalease/quotalease/ledger/ledgertest"
	"github.com/quotalease/quotalease/migrations"
)

func TestMain(m *testing.M) { ledgertest.Main(m) }

func TestUpTwice(t *testing.T) {
	t.Parallel()
	dsn := ledgertest.Empty(t)
	first, err := migrations.Up(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(first)) != migrations.Needed() {
		t.Errorf("Up applied %d steps, want all %d", len(first), migrations.Needed())
	}
	second, err := migrations.Up(t.Context(), dsn)
	if err != nil || len(second) != 0 {
		t.Errorf("the second Up applied %v and returned %v, want nothing", second, err)
	}
	steps, err := migrations.Status(t.Context(), dsn)
	if err != nil || len(steps) != len(first) {
		t.Fatalf("Status = %v, %v, want %d steps", steps, err, len(first))
	}
	if newest := steps[len(steps)-1].Version; newest != migrations.Needed() {
		t.Errorf("the newest step is %d, want %d", newest, migrations.Needed())
	}
	for _, s := range steps {
		if !s.Applied || s.AppliedAt.IsZero() {
			t.Errorf("step %s is not applied", s.Name)
		}
	}
}

func TestUpConcurrently(t *testing.T) {
	t.Parallel()
	dsn := ledgertest.Empty(t)
	const replicas = 4
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex // guards applied
		applied int64
	)
	for range replicas {
		wg.Go(func() {
			steps, err := migrations.Up(t.Context(), dsn)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			applied += int64(len(steps))
		})
	}
	wg.Wait()
	if applied != migrations.Needed() {
		t.Errorf("%d replicas applied %d steps together, want each of %d once", replicas, applied, migrations.Needed())
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	dsn := ledgertest.Empty(t)
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := migrations.Check(t.Context(), conn); !errors.Is(err, migrations.ErrOutdated) {
		t.Errorf("Check of an empty database = %v, want ErrOutdated", err)
	}
	if _, err := migrations.Up(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	if err := migrations.Check(t.Context(), conn); err != nil {
		t.Errorf("Check of a migrated database = %v", err)
	}
	if _, err := conn.Exec(t.Context(), "DELETE FROM goose_db_version WHERE version_id = $1", migrations.Needed()); err != nil {
		t.Fatal(err)
	}
	if err := migrations.Check(t.Context(), conn); !errors.Is(err, migrations.ErrOutdated) {
		t.Errorf("Check of a schema one step behind = %v, want ErrOutdated", err)
	}
	if _, err := conn.Exec(t.Context(), "INSERT INTO goose_db_version (version_id, is_applied) VALUES ($1, true)", migrations.Needed()+1); err != nil {
		t.Fatal(err)
	}
	if err := migrations.Check(t.Context(), conn); err != nil {
		t.Errorf("Check of a newer schema = %v, want none: an older replica goes on", err)
	}
}
