package postgres_test

import (
	"fmt"
	"testing"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/ledgertest"
	"github.com/quotalease/quotalease/ledger/postgres"
	"github.com/quotalease/quotalease/ledger/quota"
)

// BenchmarkUpdate grants leases in batches, on one account or on many. The server does not
// sync, so this is the price of everything but the disk.
func BenchmarkUpdate(b *testing.B) {
	for _, batch := range []int{1, 64, 256} {
		for _, accounts := range []int{1, 10_000} {
			b.Run(fmt.Sprintf("batch=%d/accounts=%d", batch, accounts), func(b *testing.B) {
				pool := ledgertest.Pool(b)
				if _, err := pool.Exec(b.Context(), "UPDATE policy_head SET version = 1"); err != nil {
					b.Fatal(err)
				}
				store := postgres.New(pool, postgres.Options{})
				t := terms()
				t.Limit, t.Budget = quota.NoLimit, quota.NoLimit
				agents := make([]ledger.ID, 32)
				for i := range agents {
					agents[i] = newID(b)
				}
				n := 0
				for b.Loop() {
					asks := make([]ledger.Ask, batch)
					for i := range asks {
						asks[i] = ask(b, endless(fmt.Sprint("t", n%accounts)), 1)
						asks[i].Agent = agents[n%len(agents)]
						n++
					}
					if err := decide(b, store, asks, t); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "grants/s")
			})
		}
	}
}

// decide grants without loading what the agents hold: nothing is given back here, so that
// would grow from batch to batch.
func decide(b *testing.B, s *postgres.Store, asks []ledger.Ask, t ledger.Terms) error {
	var scope ledger.Scope
	for _, ask := range asks {
		scope.Accounts = append(scope.Accounts, ask.Account)
		scope.Grants = append(scope.Grants, ask.ID)
	}
	return s.Update(b.Context(), scope, func(book *ledger.Book) error {
		for _, ask := range asks {
			if _, err := book.Ask(ask, t, most); err != nil {
				return err
			}
		}
		return nil
	})
}
