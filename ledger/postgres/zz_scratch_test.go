package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/postgres"
	"github.com/quotalease/quotalease/ledger/quota"
)

func TestScratch(t *testing.T) {
	f := newFixture(t)
	t2 := terms()
	t2.Limit, t2.Budget = quota.NoLimit, quota.NoLimit
	agent := newID(t)
	run := func(s *postgres.Store, n int) {
		for k := range n {
			var asks []ledger.Ask
			for i := range 256 {
				a := ask(t, endless(fmt.Sprint("t", (k*256+i)%10000)), 1)
				a.Agent = agent
				asks = append(asks, a)
			}
			_, err := lease(f.Context(), s, asks, t2)
			f.must(err)
		}
	}
	t0 := time.Now()
	run(f.store, 60)
	fmt.Println("per batch", time.Since(t0)/60)
	pool, store := f.open(func(cfg *pgxpool.Config, _ *postgres.Options) {
		cfg.MaxConns = 1
		cfg.ConnConfig.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { fmt.Println(n.Message) }
	})
	for _, s := range []string{"LOAD 'auto_explain'", "SET auto_explain.log_min_duration = 0", "SET auto_explain.log_analyze = on", "SET auto_explain.log_level = 'notice'", "SET client_min_messages = 'notice'"} {
		_, err := pool.Exec(f.Context(), s)
		f.must(err)
	}
	run(store, 1)
}
