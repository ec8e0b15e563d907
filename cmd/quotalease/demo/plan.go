package demo

import (
	"fmt"
	"time"

	"github.com/quotalease/quotalease/sim/trace"
)

// plan is what will be played.
type plan struct {
	policy []byte
	events []trace.Event
	speed  float64       // of trace.Pace; 0: as fast as possible
	length time.Duration // of the run, as far as it is known beforehand
	cut    string        // the dimension whose limit is cut; empty: what the run suggests
}

func prepare(o Options) (plan, error) {
	if len(o.Events) == 0 {
		return plan{
			policy: builtinPolicy, speed: 1, length: o.Length, cut: "batch_rows",
			events: builtinTrace(o.Seed, time.Now(), o.Length),
		}, nil
	}
	events := trace.Fold(o.Events, trace.MaxDimensions)
	derived, err := trace.Derive(events)
	if err != nil {
		return plan{}, fmt.Errorf("derive limits from the trace: %w", err)
	}
	policy, err := trace.PolicyYAML(derived)
	if err != nil {
		return plan{}, fmt.Errorf("derive a policy from the trace: %w", err)
	}
	if o.Policy != nil {
		o.Policy(policy)
	}
	p := plan{policy: policy, events: events, speed: o.Speed, length: o.Length}
	span := events[len(events)-1].At.Sub(events[0].At)
	switch {
	case o.Fast:
		p.speed = 0
	case o.Speed > 0:
		p.length = time.Duration(float64(span) / o.Speed)
	default:
		p.speed = max(span.Seconds()/o.Length.Seconds(), 1e-3)
	}
	return p, nil
}
