package postgres_test

import (
	"testing"

	"github.com/quotalease/quotalease/ledger"
)

// A transaction that idles beside the load keeps every version of the hot rows alive, and each
// decision walks over them. Rows are so narrow that this costs a page for some thirty decisions
// made meanwhile, and it is over when the transaction is. Pages are counted, not time.
func TestP5IdleTransactionBesideTheLoad(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := endless("hot")
	agent := newID(t)
	decide := func(times int) {
		for range times {
			a := ask(t, id, 1)
			a.Agent = agent
			_, err := lease(f.Context(), f.store, []ledger.Ask{a}, terms())
			f.must(err)
		}
	}
	pages := func() float64 {
		const lookUp = `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)
			SELECT * FROM account WHERE tenant = 'hot' AND dimension = 'calls' FOR UPDATE`
		var plans []struct {
			Plan map[string]any
		}
		f.must(f.pool.QueryRow(f.Context(), lookUp).Scan(&plans))
		read, _ := plans[0].Plan["Shared Read Blocks"].(float64)
		return plans[0].Plan["Shared Hit Blocks"].(float64) + read
	}
	decide(1)
	idler, err := f.pool.Begin(f.Context())
	f.must(err)
	_, err = idler.Exec(f.Context(), "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
	f.must(err)
	_, err = idler.Exec(f.Context(), "SELECT count(*) FROM account") // from here on it has a snapshot
	f.must(err)

	const decisions, aPage, besides = 300, 25, 8
	decide(decisions)
	got := pages()
	if got > decisions/aPage+besides {
		t.Errorf("after %d decisions beside a transaction that idles, one reads %v pages of its account, want at most %d",
			decisions, got, decisions/aPage+besides)
	}
	if got <= besides {
		t.Errorf("one reads %v pages: the transaction that idles keeps nothing alive", got)
	}
	f.must(idler.Rollback(f.Context()))
	f.eventually("a decision reads few pages again", func() bool {
		decide(10)
		return pages() <= besides
	})
}
