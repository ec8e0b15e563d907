package main

import (
	"context"
	"time"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// zones are the calendars of the current policy's dimensions. A tenant's day begins in its
// dimension's zone, so tables show its windows there; JSON is always UTC.
type zones map[string]quota.Calendar

// zonesFor reads the calendars when a table needs them. Without a policy that can be read,
// times stay in UTC: they are the same instants.
func (sh *shell) zonesFor(ctx context.Context) zones {
	if sh.format == formatJSON {
		return nil
	}
	reply, err := ask(ctx, sh, "read the policy's time zones", pb.AdminServiceClient.GetPolicy, &pb.GetPolicyRequest{})
	if err != nil {
		return nil
	}
	doc, err := policy.ParseText(reply.GetText())
	if err != nil {
		return nil
	}
	z := zones{}
	for _, dim := range doc.Dimensions {
		z[dim.Name] = dim.Period
	}
	return z
}

// local writes an instant for people; nil is one that does not come.
func (z zones) local(dimension string, t *time.Time) string {
	if t == nil {
		return ""
	}
	if calendar, ok := z[dimension]; ok {
		return calendar.Local(*t).Format(time.RFC3339)
	}
	return utc(t)
}

func utc(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
