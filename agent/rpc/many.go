package rpc

import (
	"context"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/door"
	"github.com/quotalease/quotalease/agent/identity"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// TakeMany decides many takes, each as Take does.
func (s *decisions) TakeMany(ctx context.Context, req *pb.TakeManyRequest) (*pb.TakeManyReply, error) {
	n := len(req.GetTakes())
	if err := door.ValidateMany(n); err != nil {
		return nil, ErrorStatus(quota.Key{}, err)
	}
	caller, known := ctx.Value(callerKey{}).(string)
	results, answers := make([]pb.TakeResult, n), make([]pb.TakeReply, n)
	door.TakeMany(ctx, s.agent, door.Many{
		Len: n,
		Read: func(i int, r *door.Request) (err error) {
			*r = requestOf(req.GetTakes()[i])
			if known {
				r.Tenant, err = identity.Own(caller, r.Tenant)
			}
			return err
		},
		Tell: func(i int, _ *door.Request, d agent.Decision, err error) {
			if err != nil {
				results[i].Fault = faultOf(err)
				return
			}
			writeReply(&answers[i], &d)
			results[i].Answer = &answers[i]
		},
	})
	reply := &pb.TakeManyReply{Results: make([]*pb.TakeResult, n)}
	for i := range results {
		reply.Results[i] = &results[i]
	}
	return reply, nil
}
