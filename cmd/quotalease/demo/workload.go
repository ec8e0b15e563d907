package demo

import (
	_ "embed"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
	"github.com/quotalease/quotalease/sim/trace"
)

//go:embed policy.yaml
var builtinPolicy []byte

// stream is one tenant's steady use of one dimension.
type stream struct {
	key       quota.Key
	perSecond float64
	cost      func(*rand.Rand) quota.Units
}

func one(*rand.Rand) quota.Units { return 1 }

func between(low, high int64) func(*rand.Rand) quota.Units {
	return func(r *rand.Rand) quota.Units { return quota.Units(low + r.Int64N(high-low+1)) }
}

// builtinStreams drive some dimensions to their limit, and batch_rows to a use above the
// limit that it is cut to.
var builtinStreams = []stream{
	{quota.Key{Tenant: "acme", Dimension: "report_export"}, 220, one},
	{quota.Key{Tenant: "acme", Dimension: "batch_rows"}, 60, between(1, 12)},
	{quota.Key{Tenant: "acme", Dimension: "api_calls"}, 300, one},
	{quota.Key{Tenant: "globex", Dimension: "api_calls"}, 120, one},
	{quota.Key{Tenant: "acme", Dimension: "llm_tokens"}, 60, between(50, 6000)},
	{quota.Key{Tenant: "acme", Dimension: "payments"}, 20, one},
	{quota.Key{Tenant: "globex", Dimension: "status_reads"}, 80, one},
	{quota.Key{Tenant: "acme", Dimension: "logins"}, 60, one},
	{quota.Key{Tenant: "acme", Dimension: "batch_jobs"}, 12, one},
}

// builtinTrace is length of traffic from the streams: Poisson arrivals from one seed.
func builtinTrace(seed uint64, start time.Time, length time.Duration) []trace.Event {
	var events []trace.Event
	for i, s := range builtinStreams {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		for at := 0.0; ; {
			at += r.ExpFloat64() / s.perSecond
			offset := time.Duration(at * float64(time.Second))
			if offset >= length {
				break
			}
			events = append(events, trace.Event{
				At: start.Add(offset), Tenant: s.key.Tenant, Dimension: s.key.Dimension, Cost: s.cost(r),
			})
		}
	}
	slices.SortStableFunc(events, func(a, b trace.Event) int { return a.At.Compare(b.At) })
	return events
}
