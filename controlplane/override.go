package controlplane

import (
	"context"
	"errors"
	"time"

	"github.com/quotalease/quotalease/controlplane/policy"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// AddOverride makes an override by command, as a new version of the policy.
func (c *ControlPlane) AddOverride(ctx context.Context, m *pb.AddOverrideRequest) (*pb.ApplyPolicyReply, error) {
	key, err := keyOf(m.GetOverride().GetKey())
	if err != nil {
		return nil, err
	}
	o := commandOf(m.GetOverride())
	o.Tenant, o.Dimension = key.Tenant, key.Dimension
	applied, err := policy.AddOverride(ctx, c.cfg.Policies, o, c.desk.Now())
	var faults policy.Faults
	if errors.As(err, &faults) {
		return nil, faults
	}
	return c.overridden(ctx, "add override", applied, err)
}

// RemoveOverride takes back an override that was made by command.
func (c *ControlPlane) RemoveOverride(ctx context.Context, m *pb.RemoveOverrideRequest) (*pb.ApplyPolicyReply, error) {
	key, err := keyOf(m.GetKey())
	if err != nil {
		return nil, err
	}
	applied, err := policy.RemoveOverride(ctx, c.cfg.Policies, key, c.desk.Now(), m.GetWho(), m.GetWhy())
	return c.overridden(ctx, "remove override", applied, err)
}

func (c *ControlPlane) overridden(ctx context.Context, doing string, applied policy.Applied, err error) (*pb.ApplyPolicyReply, error) {
	if err != nil {
		return nil, policyError(doing, err)
	}
	reply := &pb.ApplyPolicyReply{Version: applied.Version, Changed: applied.Changed}
	for _, change := range applied.Changes {
		reply.Changes = append(reply.Changes, change.String())
	}
	for _, w := range applied.Warnings {
		reply.Warnings = append(reply.Warnings, w.Error())
	}
	c.adopt(ctx, reply.Version)
	return reply, nil
}

func commandMessage(o policy.CommandOverride) *pb.CommandOverride {
	return &pb.CommandOverride{
		Key: &pb.Key{Tenant: o.Tenant, Dimension: o.Dimension}, Limit: o.Limit, Burst: o.Burst, Owner: o.Owner,
		Reason: o.Reason, Expires: o.Expires, Who: o.Who, AtUs: micros(o.At),
	}
}

func commandOf(m *pb.CommandOverride) policy.CommandOverride {
	return policy.CommandOverride{
		Tenant: m.GetKey().GetTenant(), Dimension: m.GetKey().GetDimension(), Limit: m.GetLimit(), Burst: m.GetBurst(),
		Owner: m.GetOwner(), Reason: m.GetReason(), Expires: m.GetExpires(), Who: m.GetWho(), At: time.UnixMicro(m.GetAtUs()),
	}
}
