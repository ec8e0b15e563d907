package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/ledgertest"
	"github.com/quotalease/quotalease/ledger/postgres"
)

// The suite passes with prepared statements, and with none, as behind a pooler in transaction
// mode that knows nothing of them.
func TestConformance(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]pgx.QueryExecMode{
		"prepared": pgx.QueryExecModeCacheStatement, "unnamed": pgx.QueryExecModeExec,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ledgertest.Run(t, func(t *testing.T, retention time.Duration) ledgertest.Subject {
				return subject(t, retention, mode)
			})
		})
	}
}

func subject(t *testing.T, retention time.Duration, mode pgx.QueryExecMode) ledgertest.Subject {
	f := newFixture(t, func(cfg *pgxpool.Config, o *postgres.Options) {
		cfg.ConnConfig.DefaultQueryExecMode, o.Retention = mode, retention
		o.LockTimeout, o.Timeout = 20*time.Second, 30*time.Second
	})
	return ledgertest.Subject{
		Store:            f.store,
		SetPolicyVersion: func(v int64) { f.exec("UPDATE policy_head SET version = $1::bigint", v) },
		Tamper: func(id ledger.AccountID) {
			f.exec("UPDATE account SET held = held + 1 WHERE tenant = $1::text AND dimension = $2::text",
				id.Key.Tenant, id.Key.Dimension)
		},
	}
}
