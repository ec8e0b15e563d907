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
  - {name: scarce, kind: period, limit: 250000, period: {every: day}, class: bounded, overshoot: 100%, lease: {max: 1}}
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

// BenchmarkScarceKey is the same where all want more than there is: it is shared.
func BenchmarkScarceKey(b *testing.B) { benchmark(b, 256, 256, 1, "scarce") }

// BenchmarkManyKeys is agents asking for 10,000 keys in turn.
func BenchmarkManyKeys(b *testing.B) {
	for _, requests := range []int{1, 64, 256, 1024} {
		b.Run(fmt.Sprintf("requests=%d", requests), func(b *testing.B) { benchmark(b, requests, 10_000, 10_000, "free") })
	}
}

// forgets is after how many asks the ledger in memory, which keeps every record, is begun anew.
const forgets = 100_000

// benchmark lets agents, each of its key, ask in turn.
func benchmark(b *testing.B, requests, agents, keys int, dimension string) {
	var c *crowd
	asks := 0
	for b.Loop() {
		if asks%forgets < requests {
			b.StopTimer()
			c = newCrowd(b, agents, keys, dimension)
			for range (agents + requests - 1) / requests { // so that every agent holds a lease, and is known
				c.turn(requests)
			}
			b.StartTimer()
		}
		c.turn(requests)
		asks += requests
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(asks), "ns/ask")
	b.ReportMetric(float64(asks)/b.Elapsed().Seconds(), "asks/s")
}

// crowd is agents that ask in turn.
type crowd struct {
	*world
	agents []*agent
	keys   []*pb.Key
	held   []*pb.Decision // the lease before
	next   int
}

func newCrowd(b testing.TB, agents, keys int, dimension string) *crowd {
	c := &crowd{world: newWorld(b, benchPolicy), held: make([]*pb.Decision, agents)}
	for i := range agents {
		c.agents = append(c.agents, c.agent())
		c.keys = append(c.keys, &pb.Key{Tenant: fmt.Sprintf("tenant-%d", i%keys), Dimension: dimension})
	}
	return c
}

// turn lets the next agents ask in one transaction.
func (c *crowd) turn(requests int) {
	batch, want := make([]*request, requests), int64(1)
	if c.keys[0].Dimension == "scarce" {
		want = 100_000
	}
	for j := range batch {
		i := (c.next + j) % len(c.agents)
		key := c.keys[i]
		m := &pb.SyncRequest{Hello: c.agents[i].hello(), Asks: []*pb.Ask{{GrantId: c.id().Bytes(), Key: key, Want: want, Need: 1}}}
		if c.held[i] != nil {
			m.Reports = []*pb.Report{usedUp(c.held[i], key)}
		}
		r, err := readSync(m, c.id())
		if err != nil {
			c.t.Fatal(err)
		}
		batch[j] = r
	}
	c.cp.desk.answer(c.t.Context(), batch)
	for j, r := range batch {
		i := (c.next + j) % len(c.agents)
		if r.err != nil {
			c.t.Fatal(r.err)
		}
		c.agents[i].token, c.held[i] = r.sync.Token, r.sync.Decisions[0]
		if c.held[i].Amount != 1 {
			c.t.Fatal(c.held[i])
		}
	}
	c.next = (c.next + requests) % len(c.agents)
	c.ledger.move(time.Millisecond)
}
