package policy

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
	"go.yaml.in/yaml/v3"
)

// MaxCommandOverrides bounds what a version keeps beside its files: it is copied into the
// next one.
const MaxCommandOverrides = 10_000

// CommandOverride is an override that was made by command, as it was given. A version keeps
// its own list of them beside the text of its files. The names of the fields are stored: they
// never change.
type CommandOverride struct {
	Dimension string    `json:"dimension"`
	Tenant    string    `json:"tenant"`
	Limit     string    `json:"limit"`           // as policy files write it
	Burst     string    `json:"burst,omitempty"` // kind rate; empty: as its limit says
	Owner     string    `json:"owner"`
	Reason    string    `json:"reason"`
	Expires   string    `json:"expires"`
	Who       string    `json:"who"`
	At        time.Time `json:"at"`
}

func (c CommandOverride) key() quota.Key {
	return quota.Key{Tenant: c.Tenant, Dimension: c.Dimension}
}

// name is what faults call it, in the place of a file.
func (c CommandOverride) name() string {
	return "override of " + segment(shorten(c.Tenant)) + " in " + segment(shorten(c.Dimension))
}

// commandReader reads overrides made by command against a checked document.
type commandReader struct {
	doc        *Document
	dimensions map[string]*Dimension
	listed     map[string]bool
}

func newCommandReader(d *Document) *commandReader {
	r := &commandReader{doc: d, dimensions: make(map[string]*Dimension, len(d.Dimensions)), listed: map[string]bool{}}
	for _, dim := range d.Dimensions {
		r.dimensions[dim.Name] = dim
	}
	if d.DenyUnlisted {
		for _, t := range d.Tenants {
			r.listed[t.Name] = true
		}
	}
	return r
}

// read is the reading of one override. One that has expired at now is a fault; a zero now
// accepts it.
func (r *commandReader) read(c CommandOverride, now time.Time) (over *Override, warnings, faults Faults) {
	c.At = quota.At(c.At)
	b := &builder{now: now, files: []File{{Name: c.name()}}}
	o := b.given(c)
	over = &Override{Command: &c}
	at, ok := o.need("tenant", "the tenant's name")
	if ok {
		if over.Tenant, ok = at.name(quota.ValidateTenant); ok && r.doc.DenyUnlisted && !r.listed[over.Tenant] {
			at.refuse("has no entry, and unlisted_tenants is deny", "a tenant of the tenants list")
		}
	}
	at, ok = o.need("dimension", "the name of a dimension")
	dim, known := r.dimensions[c.Dimension]
	switch {
	case known:
		d := &draft{object: o, Dimension: dim, kindOK: true, classOK: true, limitOK: true, budgetOK: true, periodOK: true}
		d.override(o, over)
	case ok:
		at.refuse(fmt.Sprintf("dimension %q is not defined%s", shorten(c.Dimension), didYouMean(near(c.Dimension, r.names()))),
			"a dimension of the policy")
	}
	return over, sorted(b.warnings), sorted(b.faults)
}

func (r *commandReader) names() []string {
	names := make([]string, len(r.doc.Dimensions))
	for i, d := range r.doc.Dimensions {
		names[i] = d.Name
	}
	return names
}

// given makes of words what the reading of a file makes of its text.
func (b *builder) given(c CommandOverride) object {
	o := object{value: value{b: b, node: &yaml.Node{Kind: yaml.MappingNode}}, fields: map[string]member{}}
	for _, f := range []struct {
		name, text string
		style      yaml.Style
	}{
		{"dimension", c.Dimension, yaml.DoubleQuotedStyle}, {"tenant", c.Tenant, yaml.DoubleQuotedStyle},
		{"limit", c.Limit, 0}, {"burst", c.Burst, 0}, {"owner", c.Owner, yaml.DoubleQuotedStyle},
		{"reason", c.Reason, yaml.DoubleQuotedStyle}, {"expires", c.Expires, 0},
	} {
		if f.text != "" {
			at := o.child(f.name, &yaml.Node{Kind: yaml.ScalarNode, Value: f.text, Style: f.style})
			o.fields[f.name] = member{value: at, key: at}
		}
	}
	return o
}

// with returns the document with overrides made by command in the place of those it has.
// Stored versions must stay readable, so it accepts those that have expired.
func (d *Document) with(overrides []CommandOverride) (*Document, error) {
	next := *d
	next.Commands = nil
	reader := newCommandReader(d)
	var faults Faults
	for _, c := range overrides {
		over, _, wrong := reader.read(c, time.Time{})
		next.Commands = append(next.Commands, over)
		faults = append(faults, wrong...)
	}
	if len(faults) > 0 {
		return nil, faults
	}
	next.sortCommands()
	return &next, nil
}

// Keeping returns the document with the overrides that were made by command on another one.
// Those that have expired at now are left out. So are those that do not fit here, as when
// their dimension is gone: a warning says which.
func (d *Document) Keeping(overrides []CommandOverride, now time.Time) *Document {
	next := *d
	next.Commands, next.Warnings = nil, slices.Clone(d.Warnings)
	reader := newCommandReader(d)
	for _, c := range overrides {
		over, _, faults := reader.read(c, time.Time{})
		switch {
		case len(faults) > 0:
			next.Warnings = append(next.Warnings, Fault{File: c.name(), Field: faults[0].Field,
				Problem: faults[0].Problem + ": the override, made by command, is dropped"})
		case now.IsZero() || now.Before(over.Expires):
			next.Commands = append(next.Commands, over)
		}
	}
	next.sortCommands()
	return &next
}

func (d *Document) sortCommands() {
	slices.SortFunc(d.Commands, func(x, y *Override) int {
		return cmp.Or(cmp.Compare(x.Command.Dimension, y.Command.Dimension), cmp.Compare(x.Tenant, y.Tenant))
	})
}

// CommandOverrides returns the overrides made by command as they were given.
func (d *Document) CommandOverrides() []CommandOverride {
	given := make([]CommandOverride, len(d.Commands))
	for i, o := range d.Commands {
		given[i] = *o.Command
	}
	return given
}

// without returns the overrides made by command except one key's, and that one if there is one.
func (d *Document) without(key quota.Key) (rest []CommandOverride, found bool) {
	for _, c := range d.CommandOverrides() {
		if c.key() == key {
			found = true
			continue
		}
		rest = append(rest, c)
	}
	return rest, found
}
