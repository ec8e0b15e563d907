package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Change is one difference between two documents. Old is empty for what was added, New for
// what was removed.
type Change struct {
	Path string `json:"path"`
	Old  string `json:"old,omitempty"`
	New  string `json:"new,omitempty"`
}

func (c Change) String() string {
	switch {
	case c.Old == "":
		return c.Path + ": added (" + c.New + ")"
	case c.New == "":
		return c.Path + ": removed (" + c.Old + ")"
	}
	return c.Path + ": " + c.Old + " -> " + c.New
}

// fact is one field of the document's meaning, defaults included.
type fact struct{ name, value string }

// part is something that exists or does not: a dimension, a plan's limit, a tenant.
type part struct {
	path  string
	facts []fact
}

// name is the path, or a word for the document itself.
func (p part) name() string {
	if p.path == "" {
		return "policy"
	}
	return p.path
}

func (p part) summary() string {
	words := make([]string, len(p.facts))
	for i, f := range p.facts {
		words[i] = f.name + " " + f.value
	}
	return strings.Join(words, ", ")
}

// Sum identifies the document's meaning: texts that differ in comments, order, files or
// written-out defaults have one sum.
func (d *Document) Sum() string {
	h := sha256.New()
	for _, p := range parts(d) {
		fmt.Fprintf(h, "%q\n", p.path)
		for _, f := range p.facts {
			fmt.Fprintf(h, " %q %q\n", f.name, f.value)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Diff returns what changed in meaning from one document to another, by path. A nil
// document is one that does not exist.
func Diff(from, to *Document) []Change {
	before := map[string]part{}
	for _, p := range parts(from) {
		before[p.path] = p
	}
	var changes []Change
	for _, p := range parts(to) {
		was, existed := before[p.path]
		delete(before, p.path)
		if !existed {
			changes = append(changes, Change{Path: p.name(), New: p.summary()})
			continue
		}
		for i, f := range p.facts { // a part has the same facts in every document
			if old := was.facts[i].value; old != f.value {
				changes = append(changes, Change{Path: join(p.path, f.name), Old: old, New: f.value})
			}
		}
	}
	for _, p := range before {
		changes = append(changes, Change{Path: p.name(), Old: p.summary()})
	}
	slices.SortStableFunc(changes, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return changes
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// parts lists everything that a document means.
func parts(d *Document) []part {
	if d == nil {
		return nil
	}
	unlisted := "allow"
	if d.DenyUnlisted {
		unlisted = "deny"
	}
	all := []part{{facts: []fact{{"unlisted_tenants", unlisted}, {"default_plan", orNone(d.DefaultPlan)}}}}
	for _, t := range d.Tenants {
		all = append(all, part{"tenants." + segment(t.Name), []fact{{"plan", orNone(t.Plan)}}})
	}
	for _, dim := range d.Dimensions {
		path := "dimensions." + segment(dim.Name)
		all = append(all, part{path, dim.facts()})
		for _, p := range dim.Plans {
			all = append(all, part{path + ".plans." + segment(p.Name), []fact{
				{"limit", formatLimit(p.Limit)}, {"overshoot", dim.overshootOf(p).String()}}})
		}
		for _, o := range dim.Overrides {
			all = append(all, part{path + ".overrides." + segment(o.Tenant), []fact{
				{"limit", formatLimit(o.Limit)}, {"owner", strconv.Quote(o.Owner)},
				{"reason", strconv.Quote(o.Reason)}, {"expires", o.Expires.Format(time.RFC3339Nano)}}})
		}
	}
	return all
}

func (d *Dimension) facts() []fact {
	leaseMax := wordAuto
	if d.Lease.Max > 0 {
		leaseMax = formatUnits(d.Lease.Max)
	}
	return []fact{
		{"limit", formatLimit(d.Limit)},
		{"class", d.Class.String()},
		{"overshoot", d.Overshoot.String()},
		{"kind", d.Kind.String()},
		{"period.every", string(d.Period.Every())},
		{"period.timezone", d.Period.Timezone()},
		{"period.anchor.day", strconv.Itoa(d.Period.AnchorDay())},
		{"period.anchor.time", orNone(d.Period.AnchorTime())},
		{"lease.ttl", short(d.Lease.TTL)},
		{"lease.grace", short(d.Lease.Grace)},
		{"lease.max", leaseMax},
		{"lease.low_watermark", d.Lease.LowWatermark.String()},
		{"outage.mode", d.Outage.Mode()},
		{"outage.after", short(d.Outage.After)},
		{"outage.for", short(d.Outage.For)},
		{"cold.wait", short(d.Cold.Wait)},
		{"cold.then", d.Cold.Then()},
		{"cold.units", formatUnits(d.Cold.Units)},
		{"unit", strconv.Quote(d.Unit)},
		{"description", strconv.Quote(d.Description)},
	}
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
