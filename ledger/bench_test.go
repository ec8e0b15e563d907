package ledger_test

import (
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// An ask counts who else asks lately: what that takes of the rules and of a store in memory, when
// each of a thousand agents returns its lease for another.
func BenchmarkAskAmongAThousand(b *testing.B) {
	const agents = 1000
	d := open(b, quota.Hard, 1_000_000_000, 1_000_000_000)
	held := make([]ledger.Grant, agents)
	for i := range held {
		held[i] = d.lease(agent(uint64(i)), 1)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		d.now = d.now.Add(time.Millisecond)
		g := &held[i%agents]
		d.report(*g, 0, 0, g.Amount, true)
		*g = d.lease(g.Agent, 1)
	}
}
