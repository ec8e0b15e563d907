package controlplane

import (
	"testing"

	"github.com/quotalease/quotalease/ledger"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

const benchPolicy = `
dimensions:
  - {name: free, kind: period, limit: unlimited, period: {every: day}, class: best_effort}
`

// BenchmarkHotKey is 85 agents asking for one key in one transaction, again and again.
func BenchmarkHotKey(b *testing.B) { benchmark(b, 85, func(int) string { return "acme" }) }

// BenchmarkManyKeys is the same with a key for each agent.
func BenchmarkManyKeys(b *testing.B) {
	benchmark(b, 85, func(i int) string { return "tenant-" + string(rune('a'+i%26)) + string(rune('a'+i/26)) })
}

func benchmark(b *testing.B, agents int, tenant func(int) string) {
	w := newWorld(b, benchPolicy)
	incarnations := make([]*agent, agents)
	held := make([]*pb.Decision, agents) // the lease before, reported as used up
	for i := range incarnations {
		incarnations[i] = w.agent()
	}
	for b.Loop() {
		batch := make([]*request, agents)
		for i, a := range incarnations {
			key := &pb.Key{Tenant: tenant(i), Dimension: "free"}
			m := &pb.SyncRequest{Hello: a.hello(), Asks: []*pb.Ask{{GrantId: w.id().Bytes(), Key: key, Want: 1, Need: 1}}}
			if held[i] != nil {
				m.Reports = append(m.Reports, usedUp(held[i], key))
			}
			r, err := readSync(m, ledger.ID{1})
			if err != nil {
				b.Fatal(err)
			}
			batch[i] = r
		}
		w.cp.desk.answer(b.Context(), batch)
		for i, r := range batch {
			if r.err != nil {
				b.Fatal(r.err)
			}
			incarnations[i].token, held[i] = r.sync.Token, r.sync.Decisions[0]
			if held[i].Amount != 1 {
				b.Fatal(held[i])
			}
		}
	}
	b.ReportMetric(float64(agents*b.N)/b.Elapsed().Seconds(), "asks/s")
}
