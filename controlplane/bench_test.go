package controlplane

import (
	"fmt"
	"testing"
	"time"

	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

const benchPolicy = `
dimensions:
  - {name: free, kind: period, limit: unlimited, period: {every: day}, class: best_effort}
  - {name: scarce, kind: period, limit: 1000000000000, period: {every: day}, class: bounded, overshoot: 100%}
`

// Each request of a transaction reports the lease before as used up, and asks for another unit.
// What an ask costs should not grow with the requests of its transaction, nor with the agents or
// the keys that there are.

// BenchmarkHotKey is agents asking for one key.
func BenchmarkHotKey(b *testing.B) {
	for _, s := range []struct{ requests, agents int }{{1, 1}, {64, 64}, {256, 256}, {1024, 1024}, {256, 10_000}} {
		b.Run(fmt.Sprintf("requests=%d/agents=%d", s.requests, s.agents), func(b *testing.B) {
			benchmark(b, s.requests, s.agents, 1, "free")
		})
	}
}

// BenchmarkScarceKey is the same where the headroom is what limits grants: it is shared.
func BenchmarkScarceKey(b *testing.B) { benchmark(b, 256, 256, 1, "scarce") }

// BenchmarkManyKeys is agents asking for 10,000 keys in turn.
func BenchmarkManyKeys(b *testing.B) {
	for _, requests := range []int{1, 64, 256, 1024} {
		b.Run(fmt.Sprintf("requests=%d", requests), func(b *testing.B) { benchmark(b, requests, 10_000, 10_000, "free") })
	}
}

// benchmark lets agents, each of its key, ask in turn.
func benchmark(b *testing.B, requests, agents, keys int, dimension string) {
	w := newWorld(b, benchPolicy)
	incarnations := make([]*agent, agents)
	held := make([]*pb.Decision, agents) // the lease before
	for i := range incarnations {
		incarnations[i] = w.agent()
	}
	next := 0
	turn := func() {
		batch := make([]*request, requests)
		for j := range batch {
			i := (next + j) % agents
			a, key := incarnations[i], &pb.Key{Tenant: fmt.Sprintf("tenant-%d", i%keys), Dimension: dimension}
			m := &pb.SyncRequest{Hello: a.hello(), Asks: []*pb.Ask{{GrantId: w.id().Bytes(), Key: key, Want: 1, Need: 1}}}
			if held[i] != nil {
				m.Reports = append(m.Reports, usedUp(held[i], key))
			}
			r, err := readSync(m, w.id())
			if err != nil {
				b.Fatal(err)
			}
			batch[j] = r
		}
		w.cp.desk.answer(b.Context(), batch)
		for j, r := range batch {
			i := (next + j) % agents
			if r.err != nil {
				b.Fatal(r.err)
			}
			incarnations[i].token, held[i] = r.sync.Token, r.sync.Decisions[0]
			if held[i].Amount != 1 {
				b.Fatal(held[i])
			}
		}
		next = (next + requests) % agents
		w.ledger.move(time.Millisecond)
	}
	for range (agents + requests - 1) / requests { // so that every agent holds a lease, and is known
		turn()
	}
	asks := 0
	for b.Loop() {
		turn()
		asks += requests
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(asks), "ns/ask")
	b.ReportMetric(float64(asks)/b.Elapsed().Seconds(), "asks/s")
}
