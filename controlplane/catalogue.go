package controlplane

import (
	"github.com/quotalease/quotalease/controlplane/policy"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// percentScale turns a policy's percent (millionths of a percent) into millionths of the whole.
const percentScale = 100

// catalogue is what an agent needs to know of every dimension.
func catalogue(s *policy.Snapshot) *pb.Catalogue {
	c := &pb.Catalogue{PolicyVersion: s.Version}
	for _, d := range s.Dimensions() {
		c.Dimensions = append(c.Dimensions, &pb.Dimension{
			Name: d.Name, Kind: d.Kind.String(), Class: d.Class.String(), Unit: d.Unit,
			Period: &pb.Period{Every: string(d.Period.Every()), Timezone: d.Period.Timezone(),
				AnchorDay: int32(d.Period.AnchorDay()), AnchorTime: d.Period.AnchorTime()},
			TtlUs:           d.Lease.TTL.Microseconds(),
			LowWatermarkPpm: int64(d.Lease.LowWatermark) / percentScale,
			LeaseMax:        int64(d.Lease.Max),
			Outage:          &pb.Outage{Mode: d.Outage.Mode(), AfterUs: d.Outage.After.Microseconds(), ForUs: d.Outage.For.Microseconds()},
			Cold:            &pb.Cold{WaitUs: d.Cold.Wait.Microseconds(), Then: d.Cold.Then(), Units: int64(d.Cold.Units)},
			Limit:           limitNumber(d.Limit),
		})
	}
	return c
}
