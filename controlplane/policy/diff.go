package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
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
type fact struct {
	name, value string
	unsaid      bool // left out of sums and summaries, see optional
}

func factOf(name, value string) fact { return fact{name: name, value: value} }

// optional is a fact that says nothing at its usual value. Sums leave it out then: those of
// versions stored before the field existed stay true.
func optional(name, value, usual string) fact { return fact{name, value, value == usual} }

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
	words := make([]string, 0, len(p.facts))
	for _, f := range p.facts {
		if !f.unsaid {
			words = append(words, f.name+" "+f.value)
		}
	}
	return strings.Join(words, ", ")
}

// Sum identifies what the files mean: texts that differ in comments, order, files or
// written-out defaults have one sum. Overrides made by command are not in it.
func (d *Document) Sum() string {
	h := sha256.New()
	for _, p := range parts(d) {
		fmt.Fprintf(h, "%q\n", p.path)
		for _, f := range p.facts {
			if !f.unsaid {
				fmt.Fprintf(h, " %q %q\n", f.name, f.value)
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Diff returns what changed in meaning from one document to another, by path. A nil
// document is one that does not exist.
func Diff(from, to *Document) []Change {
	before := map[string]part{}
	for _, p := range allParts(from) {
		before[p.path] = p
	}
	var changes []Change
	for _, p := range allParts(to) {
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

// parts lists everything that the files of a document mean.
func parts(d *Document) []part {
	if d == nil {
		return nil
	}
	unlisted := "allow"
	if d.DenyUnlisted {
		unlisted = "deny"
	}
	all := []part{{facts: []fact{factOf("unlisted_tenants", unlisted), factOf("default_plan", orNone(d.DefaultPlan))}}}
	for _, t := range d.Tenants {
		all = append(all, part{"tenants." + segment(t.Name), []fact{factOf("plan", orNone(t.Plan))}})
	}
	for _, l := range d.Locals {
		all = append(all, l.parts("local."+segment(l.Name)))
	}
	for _, dim := range d.Dimensions {
		all = append(all, dim.parts("dimensions."+segment(dim.Name))...)
	}
	for _, op := range d.Operations {
		all = append(all, op.parts("operations."+segment(op.Name))...)
	}
	for _, r := range d.Descriptors {
		all = append(all, descriptorPart(r))
	}
	return all
}

// allParts are the parts of the files and the overrides that were made by command.
func allParts(d *Document) []part {
	all := parts(d)
	if d == nil || len(d.Commands) == 0 {
		return all
	}
	dimensions := newCommandReader(d).dimensions
	for _, o := range d.Commands {
		path := "overrides." + segment(o.Command.Dimension) + "." + segment(o.Tenant)
		all = append(all, part{path, dimensions[o.Command.Dimension].overrideFacts(o)})
	}
	return all
}

func (d *Dimension) parts(path string) []part {
	all := []part{{path, d.facts()}}
	for _, r := range d.Lease.Regions {
		all = append(all, part{path + ".lease.regions." + segment(r.Name), []fact{
			factOf("floor", r.Floor.String()), factOf("ceiling", r.Ceiling.String())}})
	}
	for _, s := range d.Lease.Schedule {
		all = append(all, part{path + ".lease.schedule." + segment(s.String()), []fact{
			factOf("max", orWord(s.Max, none)), factOf("ttl", lasting(s.TTL)), factOf("grace", lasting(s.Grace))}})
	}
	for _, p := range d.Plans {
		all = append(all, part{path + ".plans." + segment(p.Name), append(d.limitFacts(p.Limit, p.Rate),
			factOf("overshoot", d.overshootOf(p).String()), optional("lease.max", orWord(p.LeaseMax, none), none))})
	}
	for _, o := range d.Overrides {
		all = append(all, part{path + ".overrides." + segment(o.Tenant), d.overrideFacts(o)})
	}
	return all
}

func (d *Dimension) overrideFacts(o *Override) []fact {
	return append(d.limitFacts(o.Limit, o.Rate), factOf("owner", strconv.Quote(o.Owner)),
		factOf("reason", strconv.Quote(o.Reason)), factOf("expires", o.Expires.Format(time.RFC3339Nano)))
}

func (o *Operation) parts(path string) []part {
	u := Outage{}
	mode := "as its dimensions"
	if o.Outage != nil {
		u, mode = *o.Outage, o.Outage.Mode()
	}
	facts := []fact{factOf("outage.mode", mode), optional("outage.after", lasting(u.After), none), optional("outage.for", lasting(u.For), none), optional("local", listed(o.Local), none)}
	all := []part{{path, append(facts, o.Defer.facts()...)}}
	for _, t := range o.Takes {
		all = append(all, part{path + ".takes." + segment(t.Dimension), []fact{factOf("cost", formatUnits(t.Cost))}})
	}
	return all
}

// limitFacts are a limit as it is written for the dimension's kind.
func (d *Dimension) limitFacts(limit quota.Limit, rate quota.Rate) []fact {
	if d.Kind != quota.RateLimit || limit.Unlimited {
		return []fact{factOf("limit", formatLimit(limit)), optional("burst", none, none)}
	}
	return []fact{factOf("limit", formatRate(rate)), factOf("burst", formatUnits(limit.Units))}
}

func (d *Dimension) facts() []fact {
	usualFinal := none
	if d.Kind == quota.Period {
		usualFinal = short(defaultFinalAfter)
	}
	emergency := none
	if d.Outage.Extend {
		emergency = formatRate(d.Outage.Rate)
	}
	return append(d.limitFacts(d.Limit, d.Rate), []fact{
		factOf("class", d.Class.String()),
		factOf("overshoot", d.Overshoot.String()),
		factOf("kind", d.Kind.String()),
		factOf("period.every", orNone(string(d.Period.Every()))),
		factOf("period.timezone", orNone(d.Period.Timezone())),
		factOf("period.anchor.day", strconv.Itoa(d.Period.AnchorDay())),
		factOf("period.anchor.time", orNone(d.Period.AnchorTime())),
		optional("max_hold", lasting(d.MaxHold), none),
		factOf("lease.ttl", short(d.Lease.TTL)),
		factOf("lease.grace", short(d.Lease.Grace)),
		factOf("lease.max", orWord(d.Lease.Max, wordAuto)),
		factOf("lease.low_watermark", d.Lease.LowWatermark.String()),
		factOf("outage.mode", d.Outage.Mode()),
		factOf("outage.after", short(d.Outage.After)),
		factOf("outage.for", short(d.Outage.For)),
		optional("outage.rate", emergency, none),
		optional("outage.budget", orWord(d.Outage.Budget, none), none),
		factOf("cold.wait", short(d.Cold.Wait)),
		factOf("cold.then", d.Cold.Then()),
		factOf("cold.units", formatUnits(d.Cold.Units)),
		optional("statement.final_after", lasting(d.FinalAfter), usualFinal),
		factOf("unit", strconv.Quote(d.Unit)),
		factOf("description", strconv.Quote(d.Description)),
		optional("local", listed(d.Local), none),
	}...)
}

const none = "none"

// orWord writes an amount whose 0 stands for a word.
func orWord(n quota.Units, word string) string {
	if n == 0 {
		return word
	}
	return formatUnits(n)
}

// lasting writes a duration whose 0 stands for none.
func lasting(d time.Duration) string {
	if d == 0 {
		return none
	}
	return short(d)
}

func orNone(s string) string {
	if s == "" {
		return none
	}
	return s
}
