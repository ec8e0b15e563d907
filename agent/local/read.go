package local

import (
	"fmt"
	"slices"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// Read returns the local limits of a catalogue, or an error if this agent does not understand
// one of them, or one is named that is not there: half a policy is none.
func Read(c *pb.Catalogue) ([]*Limit, error) {
	var limits []*Limit
	known := map[string]bool{}
	for _, m := range c.GetLocalLimits() {
		l := limitOf(m)
		if err := l.Validate(); err != nil {
			return nil, fmt.Errorf("read local limit %q of policy %d: %w", m.GetName(), c.GetPolicyVersion(), err)
		}
		if known[l.Name] {
			return nil, fmt.Errorf("read local limit %q of policy %d: it is there twice", l.Name, c.GetPolicyVersion())
		}
		known[l.Name] = true
		limits = append(limits, l)
	}
	check := func(what, name string, names []string) error {
		for _, n := range names {
			if !known[n] {
				return fmt.Errorf("read %s %q of policy %d: it names the local limit %q, which is not there", what, name, c.GetPolicyVersion(), n)
			}
		}
		return nil
	}
	for _, d := range c.GetDimensions() {
		if err := check("dimension", d.GetName(), d.GetLocal()); err != nil {
			return nil, err
		}
	}
	for _, o := range c.GetOperations() {
		if err := check("operation", o.GetName(), o.GetLocal()); err != nil {
			return nil, err
		}
	}
	return limits, nil
}

func limitOf(m *pb.LocalLimit) *Limit {
	us := func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
	l := &Limit{
		Name: m.GetName(), Algorithm: Algorithm(m.GetAlgorithm()),
		Rate:     quota.Rate{Units: quota.Units(m.GetRate().GetUnits()), Per: us(m.GetRate().GetPerUs())},
		Capacity: quota.Units(m.GetCapacity()), CountDenied: m.GetCountDenied(),
		Queue:      Queue{Count: m.GetQueueCount(), Bytes: m.GetQueueBytes(), Age: us(m.GetQueueAgeUs())},
		IPv6Prefix: int(m.GetIpv6Prefix()), CountCost: m.GetCountCost(), StartFull: m.GetStartFull(),
		Idle: us(m.GetIdleUs()), MaxKeys: m.GetMaxKeys(),
	}
	for _, a := range m.GetKey() {
		l.Key = append(l.Key, Attribute(a))
	}
	slices.SortFunc(l.Key, func(x, y Attribute) int {
		return slices.Index(Attributes, x) - slices.Index(Attributes, y)
	})
	return l
}
