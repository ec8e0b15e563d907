package controlplane

import (
	"context"
	"fmt"
	"math"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// ListWaiting lists the callers who wait their turn, by tenant and operation, the first in line
// first. It moves nobody.
func (c *ControlPlane) ListWaiting(ctx context.Context, m *pb.ListWaitingRequest) (*pb.ListWaitingReply, error) {
	limit, err := limitOf(m.GetLimit(), adminPage)
	if err != nil {
		return nil, err
	}
	if m.GetTenant() != "" {
		if err := quota.ValidateTenant(m.GetTenant()); err != nil {
			return nil, err
		}
	}
	if m.GetOperation() != "" && quota.ValidateDimension(m.GetOperation()) != nil {
		return nil, invalid("operation", "an operation's name, or none for all")
	}
	if c.cfg.Lines == nil {
		return nil, fmt.Errorf("%w: no lines are kept here", ErrUnavailable)
	}
	s, err := c.policyInUse(ctx)
	if err != nil {
		return nil, err
	}
	found, err := c.cfg.Lines.Waiting(ctx, ledger.WaitingQuery{Tenant: m.GetTenant(), Operation: m.GetOperation(), At: c.desk.Now(), Limit: limit})
	if err != nil {
		return nil, outage("list who waits", err)
	}
	reply := &pb.ListWaitingReply{}
	for _, w := range found {
		to := &pb.Waiting{
			TicketId: w.ID.Bytes(), Tenant: w.Line.Tenant, Operation: w.Line.Operation, Place: int64(w.Place), Times: w.Times,
			SinceUs: micros(w.JoinedAt), AskedAtUs: micros(w.AskedAt), AskAgainUs: micros(w.AskAt(int(w.Place))), AskByUs: micros(w.AskBy),
			ExpiresAtUs: micros(w.EndsAt),
		}
		if op, known := s.Operation(w.Line.Operation); known {
			for _, t := range op.Takes {
				to.Takes = append(to.Takes, &pb.Take{Dimension: t.Dimension, Cost: manyTimes(int64(t.Cost), w.Times)})
			}
		}
		reply.Waiting = append(reply.Waiting, to)
	}
	return reply, nil
}

// manyTimes is a cost several times over; a policy that is newer than the ticket may make it more
// than can be counted.
func manyTimes(cost, times int64) int64 {
	if cost > 0 && times > math.MaxInt64/cost {
		return math.MaxInt64
	}
	return cost * times
}
