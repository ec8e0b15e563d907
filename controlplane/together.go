package controlplane

import (
	"context"

	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// Call is one Sync or one Spend of several that share a transaction, and its answer.
type Call struct {
	Sync  *pb.SyncRequest
	Spend *pb.SpendRequest

	SyncReply  *pb.SyncReply
	SpendReply *pb.SpendReply
	Err        error
}

// Together answers the first calls in one transaction, as many as one holds, and returns how
// many: it is one turn of the group commit for a simulation, which keeps the queue itself.
func (c *ControlPlane) Together(ctx context.Context, calls []*Call) int {
	var requests []*request
	of := map[*request]*Call{}
	items, taken := 0, 0
	for _, call := range calls {
		r, err := c.desk.read(call)
		if err != nil {
			call.Err = err
			taken++
			continue
		}
		if len(requests) > 0 && items+r.size() > c.cfg.BatchItems {
			break
		}
		items += r.size()
		requests, of[r] = append(requests, r), call
		taken++
	}
	if len(requests) > 0 {
		c.desk.answer(ctx, requests)
	}
	for r, call := range of {
		call.SyncReply, call.SpendReply, call.Err = r.sync, r.spend, r.err
	}
	return taken
}

func (d *Desk) read(call *Call) (*request, error) {
	if call.Sync != nil {
		return d.readSync(call.Sync)
	}
	return readSpend(call.Spend)
}
