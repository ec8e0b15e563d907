package core

import (
	"errors"
	"fmt"
	"slices"

	"github.com/quotalease/quotalease/agent/local"
	"github.com/quotalease/quotalease/ledger/quota"
	"github.com/quotalease/quotalease/ledger/quota/descriptor"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// Descriptors is what the catalogue in force says of the requests of a rate limit service. It
// never changes.
type Descriptors struct {
	*descriptor.Tree

	dimensions map[string]*Dimension
}

// Dimension returns a dimension of the same catalogue, or one derived from it.
func (d *Descriptors) Dimension(name string) (*Dimension, bool) {
	dim := dimensionOf(d.dimensions, name)
	return dim, dim != nil
}

// Descriptors returns the rules in force, or nil while no catalogue is known. Any goroutine
// may call it.
func (c *Core) Descriptors() *Descriptors { return c.descriptors.Load() }

// readDescriptors reads the rules of a catalogue, and marks the dimensions whose limit a
// request may bring along.
func readDescriptors(c *pb.Catalogue, dims map[string]*Dimension) (*Descriptors, error) {
	rules := make([]*descriptor.Rule, 0, len(c.GetDescriptors()))
	for _, d := range c.GetDescriptors() {
		r := &descriptor.Rule{Domain: d.GetDomain(), Dimension: d.GetDimension(), Local: d.GetLocal(), Shadow: d.GetShadow(), Name: d.GetName(),
			Replaces: d.GetReplaces(), Overrides: d.GetOverrides()}
		for _, e := range d.GetMatch() {
			r.Match = append(r.Match, descriptor.Pattern{Key: e.GetKey(), Value: e.GetValue()})
		}
		for _, at := range d.GetTenant() {
			if at < 0 || int(at) >= len(r.Match) {
				return nil, fmt.Errorf("read descriptor %s of policy %d: tenant %d is no place in match", r, c.GetPolicyVersion(), at)
			}
			r.Tenant = append(r.Tenant, int(at))
		}
		if r.Local {
			if err := readLocal(c, r, d); err != nil {
				return nil, fmt.Errorf("read descriptor %s of policy %d: %w", r, c.GetPolicyVersion(), err)
			}
			rules = append(rules, r)
			continue
		}
		dim := dims[r.Dimension]
		if !r.Unlimited() && (dim == nil || len(r.Match) == 0) {
			return nil, fmt.Errorf("read descriptor %s of policy %d: %w", r, c.GetPolicyVersion(), errNoDimension)
		}
		if r.Overrides && dim != nil {
			dim.overridable = true
		}
		rules = append(rules, r)
	}
	tree, err := descriptor.Compile(rules)
	if err != nil {
		return nil, fmt.Errorf("read descriptors of policy %d: %w", c.GetPolicyVersion(), err)
	}
	return &Descriptors{tree, dims}, nil
}

// readLocal reads what the local limit of a rule counts by. Each attribute comes from one entry:
// a rule that leaves one out would let everybody share one count.
func readLocal(c *pb.Catalogue, r *descriptor.Rule, d *pb.Descriptor) error {
	at := slices.IndexFunc(c.GetLocalLimits(), func(l *pb.LocalLimit) bool { return l.GetName() == r.Dimension })
	if at < 0 || len(r.Match) == 0 || r.Overrides {
		return errNoLocal
	}
	l := c.GetLocalLimits()[at]
	if l.GetAlgorithm() == string(local.Concurrency) {
		return errNoLocal
	}
	missing := map[string]bool{}
	for _, a := range l.GetKey() {
		missing[a] = a != string(local.Tenant)
	}
	for _, f := range d.GetCaller() {
		if f.GetAt() < 0 || int(f.GetAt()) >= len(r.Match) || !missing[f.GetAttribute()] {
			return errNoCaller
		}
		missing[f.GetAttribute()] = false
		r.Caller = append(r.Caller, descriptor.From{Attribute: f.GetAttribute(), At: int(f.GetAt())})
	}
	for _, is := range missing {
		if is {
			return errNoCaller
		}
	}
	return nil
}

var (
	errNoLocal  = errors.New("it matches nothing, or the local limit is not in the catalogue, or one that counts no requests")
	errNoCaller = errors.New("it does not say by which entries the local limit counts")
)

var errNoDimension = errors.New("it matches nothing, or the dimension is not in the catalogue")

// dimension returns a dimension of the catalogue in force, or one derived from it; nil if there
// is none.
func (c *Core) dimension(name string) *Dimension { return dimensionOf(c.dims, name) }

func dimensionOf(dims map[string]*Dimension, name string) *Dimension {
	if dim, ok := dims[name]; ok {
		return dim
	}
	base, o, derived := quota.Derived(name)
	dim := dims[base]
	if !derived || dim == nil || !dim.overridable {
		return nil
	}
	d := *dim
	d.Name, d.Limit = name, int64(o.Units)
	if d.Kind == quota.Period {
		d.Calendar = o.Calendar(d.Calendar)
	}
	d.plain = plainTerms(&d)
	return &d
}
