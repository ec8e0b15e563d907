package core

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

func ruledCatalogue(version int64, rules ...*pb.Descriptor) *pb.Catalogue {
	limits := []*pb.LocalLimit{
		{Name: "clients", Algorithm: "fixed_window", Rate: &pb.Rate{Units: 5, PerUs: 1_000_000}, Key: []string{"tenant", "address"}, Ipv6Prefix: 64, IdleUs: 1_000_000, MaxKeys: 10},
		{Name: "workers", Algorithm: "concurrency", Capacity: 5, Key: []string{"address"}, Ipv6Prefix: 64, IdleUs: 1_000_000, MaxKeys: 10},
	}
	return &pb.Catalogue{PolicyVersion: version, Descriptors: rules, LocalLimits: limits, Dimensions: []*pb.Dimension{
		{Name: "exports", Kind: "period", Class: "hard", Limit: 1000, Period: &pb.Period{Every: "day", Timezone: "Asia/Seoul"}, TtlUs: 10_000_000},
		{Name: "calls", Kind: "rate", Class: "hard", Limit: 20, Rate: &pb.Rate{Units: 10, PerUs: 1_000_000}, TtlUs: 10_000_000},
	}}
}

func rule(dimension string, overrides bool) *pb.Descriptor {
	return &pb.Descriptor{Domain: "web", Match: []*pb.DescriptorEntry{{Key: dimension}}, Tenant: []int32{0}, Dimension: dimension, Overrides: overrides}
}

// byLocal is a rule of a local limit that counts by one entry, address.
func byLocal(limit, attribute string, at int32) *pb.Descriptor {
	return &pb.Descriptor{Domain: "web", Match: []*pb.DescriptorEntry{{Key: "address"}}, Dimension: limit, Local: true,
		Caller: []*pb.DescriptorCaller{{Attribute: attribute, At: at}}}
}

func TestADerivedDimensionIsItsOwnersWithAnotherLimit(t *testing.T) {
	t.Parallel()
	c := New(Config{Name: "a", Random: rand.Reader})
	c.adopt(0, ruledCatalogue(1, rule("exports", true), rule("calls", false)))
	base, _ := c.Dimension("exports")
	got, ok := c.Dimension("exports@7/MINUTE")
	if !ok || got.Limit != 7 || got.Class != base.Class || got.TTL != base.TTL || got.Calendar.Every() != quota.EveryMinute {
		t.Fatalf("%+v, %v", got, ok)
	}
	for _, name := range []string{"calls@7/MINUTE", "exports@7/minute", "exports@7/MINUTE@7/MINUTE", "nothing@7/MINUTE"} {
		if _, ok := c.Dimension(name); ok {
			t.Errorf("%s is a dimension", name)
		}
	}
	// A policy that accepts such limits no more ends what is held under them.
	k := c.admit(0, quota.Key{Tenant: "acme", Dimension: "exports@7/MINUTE"}, got)
	l := leaseOf(5, Instant(time.Minute))
	k.hold([]*Lease{l})
	c.adopt(1, ruledCatalogue(2, rule("exports", true)))
	if t1 := k.Take(2, 1); !t1.Allowed {
		t.Errorf("it is not spent any more: %+v", t1)
	}
	c.adopt(3, ruledCatalogue(3, rule("exports", false)))
	if t1 := k.Take(4, 1); t1.Allowed {
		t.Errorf("it is still spent: %+v", t1)
	}
}

func TestDescriptorsThatCannotBeReadLeaveThePolicyAsItIs(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string][]*pb.Descriptor{
		"a dimension that is not there":     {rule("slots", false)},
		"a tenant out of place":             {{Domain: "web", Match: []*pb.DescriptorEntry{{Key: "k"}}, Tenant: []int32{1}, Dimension: "exports"}},
		"two rules for one path":            {rule("exports", false), rule("exports", true)},
		"nothing to match":                  {{Domain: "web", Dimension: "exports"}},
		"a local limit that is not there":   {byLocal("exports", "address", 0)},
		"a local limit that counts nobody":  {{Domain: "web", Match: []*pb.DescriptorEntry{{Key: "k"}}, Dimension: "clients", Local: true}},
		"slots":                             {byLocal("workers", "address", 0)},
		"a caller that is not counted":      {byLocal("clients", "actor", 0)},
		"a caller who is the tenant":        {byLocal("clients", "tenant", 0)},
		"a caller out of place":             {byLocal("clients", "address", 1)},
		"a local limit for a dimension":     {rule("clients", false)},
		"a local limit that requests bring": {{Domain: "web", Match: []*pb.DescriptorEntry{{Key: "k"}}, Dimension: "clients", Local: true, Overrides: true}},
	} {
		c := New(Config{Name: "a", Random: rand.Reader})
		c.adopt(0, ruledCatalogue(1, rule("exports", false), byLocal("clients", "address", 0)))
		before := c.Descriptors()
		c.adopt(1, ruledCatalogue(2, bad...))
		if c.PolicyVersion() != 1 || c.Descriptors() != before || c.faults["catalogue"] != 1 {
			t.Errorf("%s: version %d, faults %v", name, c.PolicyVersion(), c.faults)
		}
	}
}
