package rls

import (
	"context"
	"time"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/ledger/quota"
)

// Patience is how long a request may wait for a lease unless the service is told otherwise. A
// proxy gives a rate limit service 20 ms unless it is told otherwise, and takes no answer for a
// reason to let pass.
const Patience = 15 * time.Millisecond

const (
	travel        = 5 * time.Millisecond // what is left of the caller's time for the way back
	leastPatience = time.Millisecond     // so that a lease is at least asked for
)

// Agent decides. *agent.Agent is one.
type Agent interface {
	Descriptors() *core.Descriptors
	Take(ctx context.Context, tenant, dimension string, cost int64) (agent.Decision, error)
	TakeKeys(ctx context.Context, takes []agent.KeyTake) (int, agent.Decision, error)
	TakeShadow(ctx context.Context, take agent.KeyTake) (agent.Decision, error)
	Known(take agent.KeyTake) (agent.Decision, bool)
}

// Service answers ShouldRateLimit.
type Service struct {
	rlspb.UnimplementedRateLimitServiceServer
	agent    Agent
	patience time.Duration
}

// New returns the service before an agent.
func New(a Agent) *Service { return NewPatient(a, Patience) }

// NewPatient returns a service for proxies that wait for longer than they do as a rule.
func NewPatient(a Agent, patience time.Duration) *Service {
	return &Service{agent: a, patience: patience}
}

// Register adds the service to a server.
func (s *Service) Register(server grpc.ServiceRegistrar) {
	rlspb.RegisterRateLimitServiceServer(server, s)
}

// ShouldRateLimit decides one request. The error is INVALID_ARGUMENT for one that makes no
// sense, or that of a caller who has hung up: every other question has an answer.
func (s *Service) ShouldRateLimit(ctx context.Context, req *rlspb.RateLimitRequest) (*rlspb.RateLimitResponse, error) {
	if bad := validate(req); bad != nil {
		return nil, invalid(bad)
	}
	rules := s.agent.Descriptors()
	if rules == nil { // no policy yet, so nobody knows what is unlimited
		return unavailable(len(req.GetDescriptors())), nil
	}
	items, bad := read(rules.Tree, req)
	if bad != nil {
		return nil, invalid(bad)
	}
	short := newPatient(ctx, time.Now(), s.patience)
	defer short.stop()
	v, err := decide(short, s.agent, items)
	if err != nil {
		return nil, status.FromContextError(err).Err()
	}
	return respond(rules, items, v), nil
}

// invalid is the status of a request that makes no sense.
func invalid(bad *quota.FieldError) error {
	s, err := status.New(codes.InvalidArgument, bad.Error()).WithDetails(&errdetails.BadRequest{
		FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: bad.Field, Description: bad.Allowed}},
	})
	if err != nil { // only a message that cannot be marshalled
		return status.Error(codes.InvalidArgument, bad.Error())
	}
	return s.Err()
}
