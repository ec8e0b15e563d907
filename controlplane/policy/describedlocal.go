package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quotalease/quotalease/ledger/quota"
	"github.com/quotalease/quotalease/ledger/quota/descriptor"
)

// A rule of descriptors may name a local limit instead of a dimension. What the limit counts by
// comes from the descriptor then: the rule says which entry has it.

const attributeOfTenant = "tenant"

// callerAttributes are what a local limit counts by, but for the tenant.
var callerAttributes = slices.DeleteFunc(slices.Clone(localAttributes), func(a string) bool { return a == attributeOfTenant })

// readCaller reads which entries have what the local limit counts by.
func (d *describing) readCaller(o object) {
	f, given := o.get("caller")
	if !given {
		return
	}
	if !d.Local {
		f.refuse("has no meaning without local", "only with local")
		return
	}
	before := len(d.at.b.faults)
	c, ok := f.object(callerAttributes...)
	d.unclear = len(d.at.b.faults) > before // nobody knows what is missing
	if !ok {
		return
	}
	d.caller = c
	for _, a := range callerAttributes {
		item, given := c.get(a)
		if !given {
			continue
		}
		if at, ok := d.place(item, "a key of match"); ok {
			d.Caller = append(d.Caller, descriptor.From{Attribute: a, At: at})
		}
	}
}

// checkLocal looks at the local limit that a rule names, and that the rule gives it all that it
// counts by, and nothing else.
func (d *describing) checkLocal(locals map[string]*Local) {
	l, ok := locals[d.Dimension]
	switch {
	case !ok:
		d.dimension.refuse(fmt.Sprintf("local limit %q is not defined%s", shorten(d.Dimension),
			didYouMean(near(d.Dimension, slices.Sorted(maps.Keys(locals))))), "a local limit of the policy")
		return
	case l.Algorithm == concurrency:
		d.dimension.refuse("local limit "+l.Name+" has slots: nobody could give them back", "a local limit of another algorithm")
		return
	}
	caller := d.caller
	if caller.node == nil {
		caller = object{value: d.at.child("caller", d.at.node)}
	}
	for _, a := range callerAttributes {
		f, given := caller.fields[a]
		switch counts := slices.Contains(l.Key, a); {
		case counts && !given && d.whole && !d.unclear:
			caller.child(a, caller.node).refuse("is missing: local limit "+l.Name+" counts by it", "a key of match")
		case given && !counts:
			f.refuse("local limit "+l.Name+" does not count by it", "only what is in the limit's key: "+listed(l.Key))
		}
	}
	switch counts := slices.Contains(l.Key, attributeOfTenant); {
	case d.tenant.node != nil && !counts:
		d.tenant.refuse("local limit "+l.Name+" does not count by it", "only what is in the limit's key: "+listed(l.Key))
	case d.tenant.node == nil && counts:
		d.defaultTenant()
	}
}

func (b *builder) localsByName() map[string]*Local {
	known := make(map[string]*Local, len(b.doc.Locals))
	for _, l := range b.doc.Locals {
		if l.Name != "" {
			known[l.Name] = l
		}
	}
	return known
}

// callerFact says which entries have what a rule's local limit counts by.
func callerFact(r *descriptor.Rule) string {
	from := make([]string, len(r.Caller))
	for i, f := range r.Caller {
		from[i] = f.Attribute + " of " + r.Match[f.At].Key
	}
	return orNone(strings.Join(from, ", "))
}

// countLocally says which local limit decides about a descriptor, and by what it counts. Where an
// address comes from is said, and not what it is.
func (s *Snapshot) countLocally(d *Described, entries []descriptor.Entry) {
	r := d.Rule
	d.Lines = append(append(d.Lines, ruleLine(r)), s.explainLocal([]string{r.Dimension})...)
	l := s.doc.Locals[slices.IndexFunc(s.doc.Locals, func(l *Local) bool { return l.Name == r.Dimension })]
	if slices.Contains(l.Key, attributeOfTenant) {
		if tenant, ok := d.tenant(entries); ok {
			d.Key.Tenant = tenant
		}
	}
	for _, f := range r.Caller {
		what := fmt.Sprintf("%s: the value of %s", f.Attribute, r.Match[f.At].Key)
		if f.Attribute == attributeOfIP || f.Attribute == "api_key" {
			what += ", kept as a keyed hash"
		}
		if _, ok := f.ValueOf(entries); !ok {
			what = fmt.Sprintf("%s: none, the value of %s can be none: refused as %s", f.Attribute, r.Match[f.At].Key, quota.UnknownTenant)
		}
		d.Lines = append(d.Lines, what)
	}
}
