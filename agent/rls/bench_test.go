package rls_test

import (
	"context"
	"testing"
	"time"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/agent/rls"
	"github.com/quotalease/quotalease/ledger/quota"
)

// plenty is an agent that has units of everything in hand.
type plenty struct {
	rls.Agent
	rules *core.Descriptors
}

func (a plenty) Descriptors() *core.Descriptors { return a.rules }

func (plenty) Take(_ context.Context, _, dimension string, _ int64) (agent.Decision, error) {
	return agent.Decision{Allowed: true, Dimension: dimension, Limit: quota.LimitOf(50_000), Remaining: 49_999, Reset: time.Hour, Window: 24 * time.Hour, PolicyVersion: 3}, nil
}

// BenchmarkShouldRateLimit is what the service costs without a network: reading the message,
// finding the rule, asking, and writing the answer.
func BenchmarkShouldRateLimit(b *testing.B) {
	s := rls.New(plenty{rules: rules(b)})
	text, err := proto.Marshal(request("web", "org=acme"))
	if err != nil {
		b.Fatal(err)
	}
	for name, part := range map[string]func() error{
		"message": func() error { return proto.Unmarshal(text, &rlspb.RateLimitRequest{}) },
		"all": func() error {
			req := &rlspb.RateLimitRequest{}
			if err := proto.Unmarshal(text, req); err != nil {
				return err
			}
			answer, err := s.ShouldRateLimit(b.Context(), req)
			if err != nil {
				return err
			}
			_, err = proto.Marshal(answer)
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := part(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
