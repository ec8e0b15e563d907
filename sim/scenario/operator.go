package scenario

import (
	"context"
	"encoding/binary"

	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// adjusted is an operator at the control plane, who gives a credit or frees held units.
func (m *leases) adjusted(e Event) {
	ctx, id := context.Background(), m.decision()
	key := &pb.Key{Tenant: e.Key.Tenant, Dimension: e.Key.Dimension}
	var err error
	if e.Action == Credit {
		_, err = m.cp.AdjustUsage(ctx, &pb.AdjustUsageRequest{Id: id, Key: key, Credit: e.Units, Who: "operator", Why: "scenario"})
	} else {
		_, err = m.cp.ReleaseHeld(ctx, &pb.ReleaseHeldRequest{Id: id, Key: key, Units: e.Units, Who: "operator", Why: "scenario"})
	}
	m.note("adjust "+e.Key.String(), err)
	m.after(m.Commit, m.tell)
}

// decision makes the id of an operator's decision: a UUIDv7 of the present, numbered.
func (m *leases) decision() []byte {
	m.decisions++
	id := make([]byte, 16)
	binary.BigEndian.PutUint64(id, uint64(m.clock().UnixMilli())<<16|0x7000)
	binary.BigEndian.PutUint64(id[8:], 1<<63|m.decisions)
	return id
}
