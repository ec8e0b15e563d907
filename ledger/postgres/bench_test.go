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
				n := 0
				for b.Loop() {
					asks := make([]ledger.Ask, batch)
					for i := range asks {
						asks[i] = ask(b, endless(fmt.Sprint("t", n%accounts)), 1)
						n++
					}
					if _, err := lease(b.Context(), store, asks, t); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "grants/s")
			})
		}
	}
}
