package rls

import (
	"fmt"
	"slices"
	"strings"

	commonpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/local"
	"github.com/quotalease/quotalease/ledger/quota"
	"github.com/quotalease/quotalease/ledger/quota/descriptor"
)

// Caps on what a request may hold.
const (
	maxDescriptors = agent.MaxKeyTakes
	maxEntries     = 64
)

// item is one descriptor of a request: where it is counted, and then what became of it.
type item struct {
	rule     *descriptor.Rule // nil: it is not counted
	take     agent.KeyTake
	back     bool            // negative hits
	brought  *quota.Override // a limit that the request brought along, and that the rule accepts
	refused  quota.Reason    // why no key can be asked; nothing: one can
	decision agent.Decision
	known    bool // decision says something
	over     bool
}

// counted reports that the item belongs to a key.
func (it *item) counted() bool { return it.rule != nil && !it.rule.Unlimited() }

// enforced reports that it may deny.
func (it *item) enforced() bool { return it.counted() && !it.rule.Shadow }

// validate refuses a request that no rule could be found for. What a value may be is the
// rule's matter: to a proxy an error may mean to let the request pass.
func validate(req *rlspb.RateLimitRequest) *quota.FieldError {
	switch n := len(req.GetDescriptors()); {
	case req.GetDomain() == "":
		return &quota.FieldError{Field: "domain", Allowed: "1 byte or more"}
	case n < 1 || n > maxDescriptors:
		return &quota.FieldError{Field: "descriptors", Allowed: fmt.Sprintf("1 to %d", maxDescriptors)}
	}
	for i, d := range req.GetDescriptors() {
		if n := len(d.GetEntries()); n < 1 || n > maxEntries {
			return &quota.FieldError{Field: fmt.Sprintf("descriptors[%d].entries", i), Allowed: fmt.Sprintf("1 to %d", maxEntries)}
		}
		for j, e := range d.GetEntries() {
			if e.GetKey() == "" {
				return &quota.FieldError{Field: fmt.Sprintf("descriptors[%d].entries[%d].key", i, j), Allowed: "1 byte or more"}
			}
		}
	}
	return nil
}

// read finds out where the descriptors of a valid request are counted. The error names the
// part of a limit that makes no sense.
func read(rules *descriptor.Tree, req *rlspb.RateLimitRequest) ([]item, *quota.FieldError) {
	items := make([]item, len(req.GetDescriptors()))
	var replaced []string
	for i, d := range req.GetDescriptors() {
		entries := entriesOf(d)
		it := &items[i]
		it.rule = rules.Find(req.GetDomain(), entries)
		if it.rule == nil {
			continue
		}
		replaced = append(replaced, it.rule.Replaces...)
		if it.rule.Unlimited() {
			continue
		}
		it.count(req, d, entries)
		if d.GetLimit() == nil || !it.rule.Overrides {
			continue
		}
		o, bad := overrideOf(d.GetLimit())
		if bad != nil {
			return nil, &quota.FieldError{Field: fmt.Sprintf("descriptors[%d].limit.%s", i, bad.Field), Allowed: bad.Allowed}
		}
		it.take.Key.Dimension, it.brought = o.Of(it.take.Key.Dimension), &o
	}
	for i := range items {
		if r := items[i].rule; r != nil && r.Name != "" && slices.Contains(replaced, r.Name) {
			items[i] = item{}
		}
	}
	return items, nil
}

func entriesOf(d *commonpb.RateLimitDescriptor) []descriptor.Entry {
	entries := make([]descriptor.Entry, len(d.GetEntries()))
	for i, e := range d.GetEntries() {
		entries[i] = descriptor.Entry{Key: e.GetKey(), Value: e.GetValue()}
	}
	return entries
}

// count says what a matched descriptor costs whom. A descriptor's own hits come before the
// request's, and may be 0.
func (it *item) count(req *rlspb.RateLimitRequest, d *commonpb.RateLimitDescriptor, entries []descriptor.Entry) {
	hits := uint64(max(req.GetHitsAddend(), 1))
	if own := d.GetHitsAddend(); own != nil {
		hits = own.GetValue()
	}
	it.take.Cost, it.back = int64(min(hits, agent.MaxCost)), d.GetIsNegativeHits()
	it.take.Key.Dimension, it.take.Local = it.rule.Dimension, it.rule.Local
	var ok, all bool
	it.take.Caller, all = callerOf(it.rule, entries)
	switch it.take.Key.Tenant, ok = it.rule.TenantOf(entries); {
	case !ok || !all:
		it.refused = quota.UnknownTenant
	case hits > agent.MaxCost && !it.back:
		it.refused = quota.TooLarge
	}
}

// callerOf is whom a rule's local limit counts. It is false if a value can be nobody's.
func callerOf(r *descriptor.Rule, entries []descriptor.Entry) (c local.Caller, all bool) {
	all = true
	for _, f := range r.Caller {
		value, ok := f.ValueOf(entries)
		all = all && ok
		switch local.Attribute(f.Attribute) {
		case local.Route:
			c.Route = value
		case local.Actor:
			c.Actor = value
		case local.APIKey:
			c.APIKey = value
		case local.Address:
			c.Address = value
		}
	}
	return c, all
}

// overrideOf reads a limit that a request brings along.
func overrideOf(l *commonpb.RateLimitDescriptor_RateLimitOverride) (quota.Override, *quota.FieldError) {
	o := quota.Override{Units: quota.Units(l.GetRequestsPerUnit()), Times: 1}
	if l.GetUnit() != typepb.RateLimitUnit_UNKNOWN {
		o.Every = quota.Every(strings.ToLower(l.GetUnit().String()))
	}
	if m := l.GetUnitMultiplier(); m != nil {
		o.Times = int64(m.GetValue())
	}
	if err := o.Validate(); err != nil {
		return quota.Override{}, err
	}
	return o, nil
}
