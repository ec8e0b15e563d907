package rpc

import (
	"context"

	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/agent/door"
	"github.com/quotalease/quotalease/agent/local"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

type decisions struct {
	pb.UnimplementedDecisionServiceServer
	agent door.Agent
}

// Take decides one request. A denied take is an error, so that a caller who looks at nothing
// else is stopped. A denied peek is OK with allowed false: it asked, and here is the answer.
func (s *decisions) Take(ctx context.Context, req *pb.TakeRequest) (*pb.TakeReply, error) {
	r := requestOf(req)
	d, err := door.Take(ctx, s.agent, &r)
	switch {
	case err != nil:
		return nil, ErrorStatus(r.Key(), err)
	case !d.Allowed && !r.Peek():
		return nil, DeniedStatus("take", r.Tenant, d)
	}
	return replyOf(d), nil
}

// asksForUnits is what take and acquire have in common.
type asksForUnits interface {
	GetTenant() string
	GetDimension() string
	GetId() string
	GetTakes() []*pb.TakeItem
	GetOperation() string
	GetCaller() *pb.Caller
}

func requestOf(req *pb.TakeRequest) door.Request {
	r := readRequest(req)
	r.Cost, r.Times, r.Ticket = req.Cost, req.Times, req.GetTicket()
	return r
}

func readRequest(req asksForUnits) door.Request {
	r := door.Request{Tenant: req.GetTenant(), Dimension: req.GetDimension(), Operation: req.GetOperation(), ID: given(req.GetId()),
		Caller: callerOf(req.GetCaller())}
	for _, t := range req.GetTakes() {
		item := core.DimensionCost{Dimension: t.GetDimension(), Cost: 1}
		if t.Cost != nil {
			item.Cost = t.GetCost()
		}
		r.Takes = append(r.Takes, item)
	}
	return r
}

func callerOf(c *pb.Caller) local.Caller {
	return local.Caller{Route: c.GetRoute(), Actor: c.GetActor(), APIKey: c.GetApiKey(), Address: c.GetAddress(), Bytes: c.GetBytes()}
}

// given is an id, or nil where there is none.
func given(id string) *string {
	if id == "" {
		return nil
	}
	return &id
}

// Leave gives up a place in line.
func (s *decisions) Leave(ctx context.Context, req *pb.LeaveRequest) (*pb.LeaveReply, error) {
	d := door.Departure{Tenant: req.GetTenant(), Operation: req.GetOperation(), Ticket: req.GetTicket()}
	if err := door.Leave(ctx, s.agent, d); err != nil {
		return nil, ErrorStatus(quota.Key{Tenant: d.Tenant, Dimension: d.Operation}, err)
	}
	return &pb.LeaveReply{Id: req.GetTicket()}, nil
}

// Reserve takes an estimate. A denial is that of a take.
func (s *decisions) Reserve(ctx context.Context, req *pb.ReserveRequest) (*pb.ReserveReply, error) {
	r := door.Reservation{ID: given(req.GetId()), Tenant: req.GetTenant(), Dimension: req.GetDimension(),
		Estimate: req.GetEstimate(), Maximum: req.GetMaximum(), Caller: callerOf(req.GetCaller())}
	made, err := door.Reserve(ctx, s.agent, &r)
	switch {
	case err != nil:
		return nil, ErrorStatus(quota.Key{Tenant: r.Tenant, Dimension: r.Dimension}, err)
	case !made.Allowed:
		return nil, DeniedStatus("reserve", r.Tenant, made.Decision)
	}
	return &pb.ReserveReply{Answer: replyOf(made.Decision), Id: made.ID, Estimate: r.Estimate}, nil
}

// Settle says what a reservation used.
func (s *decisions) Settle(ctx context.Context, req *pb.SettleRequest) (*pb.SettleReply, error) {
	settle := door.Settle
	if caller, known := ctx.Value(callerKey{}).(string); known {
		settle = func(a door.Agent, id string, actual *int64) error { return door.SettleOwn(a, caller, id, actual) }
	}
	if err := settle(s.agent, req.GetId(), req.Actual); err != nil {
		return nil, ErrorStatus(quota.Key{}, err)
	}
	return &pb.SettleReply{Id: req.GetId(), Actual: req.GetActual()}, nil
}

// Acquire starts work under concurrency limits. A denial is that of a take.
func (s *decisions) Acquire(ctx context.Context, req *pb.AcquireRequest) (*pb.AcquireReply, error) {
	r := door.Acquisition{Request: readRequest(req), HoldMs: req.GetHoldMs(), WaitMs: req.GetWaitMs()}
	r.Cost, r.Times = req.Cost, req.Times
	p, err := door.Acquire(ctx, s.agent, &r)
	switch {
	case err != nil:
		return nil, ErrorStatus(r.Key(), err)
	case !p.Allowed:
		return nil, DeniedStatus("acquire", r.Tenant, p.Decision)
	}
	return &pb.AcquireReply{Answer: replyOf(p.Decision), Id: p.ID, ExpiresMs: p.Expires.Milliseconds(), WaitedMs: p.Waited.Milliseconds()}, nil
}

// Renew says that a permit's work goes on.
func (s *decisions) Renew(_ context.Context, req *pb.RenewRequest) (*pb.RenewReply, error) {
	left, err := door.Renew(s.agent, req.GetTenant(), req.GetId())
	if err != nil {
		return nil, ErrorStatus(quota.Key{Tenant: req.GetTenant()}, err)
	}
	return &pb.RenewReply{Id: req.GetId(), ExpiresMs: left.Milliseconds()}, nil
}

// Release says that it has ended.
func (s *decisions) Release(_ context.Context, req *pb.ReleaseRequest) (*pb.ReleaseReply, error) {
	if err := door.Release(s.agent, req.GetTenant(), req.GetId()); err != nil {
		return nil, ErrorStatus(quota.Key{Tenant: req.GetTenant()}, err)
	}
	return &pb.ReleaseReply{Id: req.GetId()}, nil
}
