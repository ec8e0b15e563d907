package controlplane

import (
	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger/quota"
	"github.com/quotalease/quotalease/ledger/quota/descriptor"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// percentScale turns a policy's percent (millionths of a percent) into millionths of the whole.
const percentScale = 100

// catalogue is what an agent needs to know of every dimension and operation.
func catalogue(s *policy.Snapshot) *pb.Catalogue {
	c := &pb.Catalogue{PolicyVersion: s.Version}
	for _, d := range s.Dimensions() {
		c.Dimensions = append(c.Dimensions, dimensionMessage(d))
	}
	c.LocalLimits = localMessages(s)
	for _, o := range s.Operations() {
		op := &pb.Operation{Name: o.Name, Local: o.Local}
		for _, t := range o.Takes {
			op.Takes = append(op.Takes, &pb.Take{Dimension: t.Dimension, Cost: int64(t.Cost)})
		}
		if o.Outage != nil {
			op.Outage = outageMessage(*o.Outage)
		}
		if o.Defer != nil {
			op.Defer = &pb.Deferral{MaxAgeUs: o.Defer.MaxAge.Microseconds(), MaxTickets: int64(o.Defer.MaxTickets)}
		}
		c.Operations = append(c.Operations, op)
	}
	for _, r := range s.Descriptors() {
		c.Descriptors = append(c.Descriptors, descriptorMessage(r))
	}
	return c
}

func descriptorMessage(r *descriptor.Rule) *pb.Descriptor {
	m := &pb.Descriptor{Domain: r.Domain, Dimension: r.Dimension, Shadow: r.Shadow, Name: r.Name, Replaces: r.Replaces, Overrides: r.Overrides, Local: r.Local}
	for _, p := range r.Match {
		m.Match = append(m.Match, &pb.DescriptorEntry{Key: p.Key, Value: p.Value})
	}
	for _, at := range r.Tenant {
		m.Tenant = append(m.Tenant, int32(at))
	}
	for _, f := range r.Caller {
		m.Caller = append(m.Caller, &pb.DescriptorCaller{Attribute: f.Attribute, At: int32(f.At)})
	}
	return m
}

func dimensionMessage(d *policy.Dimension) *pb.Dimension {
	m := &pb.Dimension{
		Name: d.Name, Kind: d.Kind.String(), Class: d.Class.String(), Unit: d.Unit,
		TtlUs: d.Lease.TTL.Microseconds(), GraceUs: d.Lease.Grace.Microseconds(),
		LowWatermarkPpm: int64(d.Lease.LowWatermark) / percentScale,
		LeaseMax:        int64(d.Lease.Max),
		Outage:          outageMessage(d.Outage),
		Cold:            &pb.Cold{WaitUs: d.Cold.Wait.Microseconds(), Then: d.Cold.Then(), Units: int64(d.Cold.Units)},
		Limit:           limitNumber(d.Limit),
		Local:           d.Local,
	}
	switch d.Kind {
	case quota.Period:
		m.Period = &pb.Period{Every: string(d.Period.Every()), Timezone: d.Period.Timezone(),
			AnchorDay: int32(d.Period.AnchorDay()), AnchorTime: d.Period.AnchorTime()}
	case quota.RateLimit:
		m.Rate = rateMessage(d.Rate)
	case quota.Concurrency:
		m.MaxHoldUs = d.MaxHold.Microseconds()
	}
	return m
}

// outageMessage tells of a mode what that mode needs.
func outageMessage(o policy.Outage) *pb.Outage {
	m := &pb.Outage{Mode: o.Mode(), AfterUs: o.After.Microseconds()}
	switch {
	case o.Open:
		m.ForUs = o.For.Microseconds()
	case o.Extend:
		m.Rate, m.Budget = rateMessage(o.Rate), int64(o.Budget)
	}
	return m
}

func rateMessage(r quota.Rate) *pb.Rate {
	return &pb.Rate{Units: int64(r.Units), PerUs: r.Per.Microseconds()}
}
