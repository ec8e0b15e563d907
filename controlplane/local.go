package controlplane

import (
	"github.com/quotalease/quotalease/controlplane/policy"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// localMessages tells agents of the limits that each of them keeps for itself.
func localMessages(s *policy.Snapshot) []*pb.LocalLimit {
	var all []*pb.LocalLimit
	for _, l := range s.Locals() {
		m := &pb.LocalLimit{
			Name: l.Name, Algorithm: l.Algorithm, Capacity: int64(l.Capacity), CountDenied: l.CountDenied,
			QueueCount: int64(l.Queue.Count), QueueBytes: int64(l.Queue.Bytes), QueueAgeUs: l.Queue.Age.Microseconds(),
			Key: l.Key, Ipv6Prefix: int32(l.IPv6Prefix), CountCost: l.CountCost, StartFull: l.StartFull,
			IdleUs: l.Idle.Microseconds(), MaxKeys: int64(l.MaxKeys),
		}
		if l.Rate.Per > 0 {
			m.Rate = rateMessage(l.Rate)
		}
		all = append(all, m)
	}
	return all
}
