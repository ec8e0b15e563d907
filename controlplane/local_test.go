package controlplane

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	agentlocal "github.com/quotalease/quotalease/agent/local"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// Agents are told all that a local limit is, and understand it, up to the largest of everything.
func TestTheCatalogueTellsAgentsTheirLocalLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `
local:
- {name: a, algorithm: leaky_bucket, limit: 1000/50ms, queue: 400000, counts: cost, start: full, idle: 24h, max_keys: 10000000}
- {name: b, algorithm: sliding_log, limit: 10000/s, count_denied: true, key: [address, tenant], ipv6_prefix: 128, max_keys: 1000}
- {name: c, algorithm: concurrency, limit: 1000000, queue: {count: 1000000, bytes: 9007199254740991, age: 1h}}
- {name: d, algorithm: token_bucket, limit: 4611686018427387904/366h, burst: 4611686018427387904, idle: 1s}
- {name: e, algorithm: fixed_window, limit: 0/1ms}
- {name: f, algorithm: sliding_counter, limit: 4611686018427387904/1ms, max_keys: 1}
- {name: g, algorithm: leaky_bucket, limit: 0/s, queue: 5}
dimensions:
- {name: api_calls, kind: rate, limit: 50/s, class: hard, local: [a, b]}
- {name: jobs, kind: concurrency, limit: 5, max_hold: 1h, class: hard}
operations:
- {name: start, takes: [{dimension: jobs}], local: [c, f]}
`)
	c := catalogue(w.cp.policies.snapshot())
	if _, err := agentlocal.Read(c); err != nil {
		t.Fatalf("an agent does not understand it: %v", err)
	}
	us := func(d time.Duration) int64 { return d.Microseconds() }
	for i, want := range []*pb.LocalLimit{
		{Name: "a", Algorithm: "leaky_bucket", Rate: &pb.Rate{Units: 1000, PerUs: 50_000}, Capacity: 400_000, CountCost: true, StartFull: true,
			Ipv6Prefix: 64, IdleUs: us(24 * time.Hour), MaxKeys: 10_000_000},
		{Name: "b", Algorithm: "sliding_log", Rate: &pb.Rate{Units: 10_000, PerUs: 1_000_000}, CountDenied: true, Key: []string{"tenant", "address"},
			Ipv6Prefix: 128, IdleUs: us(10 * time.Minute), MaxKeys: 1000},
		{Name: "c", Algorithm: "concurrency", Capacity: 1_000_000, QueueCount: 1_000_000, QueueBytes: 9007199254740991, QueueAgeUs: us(time.Hour),
			Ipv6Prefix: 64, IdleUs: us(10 * time.Minute), MaxKeys: 100_000},
	} {
		if got := c.GetLocalLimits()[i]; !proto.Equal(got, want) {
			t.Errorf("%v\nwant %v", got, want)
		}
	}
	if got := c.GetDimensions()[0].GetLocal(); len(got) != 2 || got[0] != "a" || got[1] != "b" {
		t.Errorf("api_calls is under %v", got)
	}
	if got := c.GetOperations()[0].GetLocal(); len(got) != 2 || got[0] != "c" || got[1] != "f" {
		t.Errorf("start is under %v", got)
	}
}
