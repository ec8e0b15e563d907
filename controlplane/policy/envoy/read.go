package envoy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quotalease/quotalease/controlplane/policy"
)

// Caps on what is read. They bound memory and time, aliases included, and are far above what
// people write.
const (
	MaxRules  = 10_000  // descriptors of all files together
	MaxLevels = 16      // of nested descriptors
	maxVisits = 500_000 // values, each as often as an alias repeats it
	maxDepth  = 100     // of YAML

	maxNameBytes  = 256 // of domains and keys
	maxAliasBytes = 240 // of names of limits, which may get a number behind them
	maxValueBytes = 1024
	maxReplaces   = 64
)

// What a file, a descriptor and a limit may hold.
var (
	rootFields  = []string{"domain", "descriptors"}
	ruleFields  = []string{"key", "value", "rate_limit", "descriptors", "shadow_mode", "quota_mode", "share_threshold", "detailed_metric", "value_to_metric", "metadata"}
	limitFields = []string{"unit", "requests_per_unit", "unlimited", "name", "replaces", "unit_multiplier"}
)

// reader gathers the rules of all files and everything that is wrong with them.
type reader struct {
	files     []policy.File
	merge     bool
	faults    []placed
	notes     []placed
	visits    int
	rules     int
	overgrown bool // said once; the rest is not read
	domains   []*domain
}

// placed is a fault or a note with the place of its file, so that they sort as people read.
type placed struct {
	policy.Fault
	file int
}

// domain is a name space of rules.
type domain struct {
	at   node
	name string
	root branch
}

// branch is a descriptor of a rule file, and those below it.
type branch struct {
	at         node
	key, value string
	limit      *limit
	shadow     bool // decides, but always lets pass
	share      bool // all values of its wildcard together have one counter
	below      []*branch
	composite  map[string]*branch // those below, as the original tells them apart
}

// limit is a rate_limit block.
type limit struct {
	at        node
	unlimited bool
	requests  int64
	unit      string // in lower case
	times     int64  // units in a window
	name      string
	alias     string // name, made unique in its domain
	replaces  []string
}

// sorted puts faults or notes into the order of files and lines.
func sorted(found []placed) policy.Faults {
	slices.SortStableFunc(found, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	faults := make(policy.Faults, len(found))
	for i, p := range found {
		faults[i] = p.Fault
	}
	return faults
}

func (r *reader) readFile(i int) {
	roots, err := r.files[i].Documents()
	var fault policy.Fault
	if errors.As(err, &fault) {
		r.faults = append(r.faults, placed{file: i, Fault: fault})
		return
	}
	if len(roots) == 0 {
		r.faults = append(r.faults, placed{file: i, Fault: policy.Fault{File: r.files[i].Name, Line: 1, Column: 1,
			Field: "domain", Problem: "is missing", Allowed: "the domain's name"}})
		return
	}
	top := node{r: r, file: i}
	if len(roots) > 1 {
		top.yaml = roots[1]
		top.note("not carried over: of several YAML documents in a file the original reads only the first")
	}
	top.yaml = roots[0]
	o, ok := top.object(rootFields...)
	if !ok {
		return
	}
	name, ok := o.label("domain", maxNameBytes)
	if !ok {
		return
	}
	if name == "" {
		at, _ := o.fields["domain"]
		if at.yaml == nil {
			at = top
			at.path = "domain"
		}
		at.refuse("is missing", "the domain's name")
		return
	}
	d := r.domain(o.fields["domain"], name)
	o.field("descriptors", func(f node) { d.root.descriptors(f, d.name, 1) })
}

// domain returns the domain that a file adds to.
func (r *reader) domain(at node, name string) *domain {
	for _, d := range r.domains {
		if d.name != name {
			continue
		}
		if !r.merge {
			at.refuse(fmt.Sprintf("domain %q is given twice; first at %s", shorten(name), d.at.place()),
				"one file for a domain, unless domains are merged")
			break // its rules are read for their own faults
		}
		return d
	}
	d := &domain{at: at, name: name}
	r.domains = append(r.domains, d)
	return d
}

// descriptors reads a list of descriptors below b.
func (b *branch) descriptors(n node, path string, level int) {
	if level > MaxLevels {
		n.refuse("descriptors are nested too deep", fmt.Sprintf("at most %d levels", MaxLevels))
		return
	}
	n.list("descriptors", func(item node) {
		if n.r.rules++; n.r.rules > MaxRules {
			if n.r.rules == MaxRules+1 {
				item.refuse("too many descriptors", fmt.Sprintf("at most %d in all files", MaxRules))
			}
			return
		}
		b.descriptor(item, path, level)
	})
}

func (b *branch) descriptor(n node, path string, level int) {
	o, ok := n.object(ruleFields...)
	if !ok {
		return
	}
	c := &branch{at: n}
	var keyOK, valueOK bool
	c.key, keyOK = o.label("key", maxNameBytes)
	c.value, valueOK = o.label("value", maxValueBytes)
	if keyOK && c.key == "" {
		n.refuse("has no key", "a key that is not empty")
		keyOK = false
	}
	composite := c.key
	if c.value != "" {
		composite += "_" + c.value
	}
	if keyOK && valueOK {
		if first, twice := b.composite[composite]; twice {
			n.refuse(fmt.Sprintf("%s.%s is given twice; first at %s", shorten(path), shorten(composite), first.at.place()),
				"each key and value once among its neighbours, where key_value is one name")
		} else {
			if b.composite == nil {
				b.composite = map[string]*branch{}
			}
			b.composite[composite] = c
			b.below = append(b.below, c)
		}
	}
	o.field("rate_limit", func(f node) {
		if !f.empty() {
			c.limit = f.limit()
		}
	})
	c.modes(o, keyOK && valueOK && !strings.Contains(composite, "*"))
	o.field("descriptors", func(f node) { c.descriptors(f, path+"."+composite, level+1) })
}

// modes reads what changes how a descriptor counts and what is said of it.
func (b *branch) modes(o object, exact bool) {
	b.shadow = o.flag("shadow_mode")
	quota := o.flag("quota_mode")
	for mode, set := range map[string]bool{"shadow_mode": b.shadow, "quota_mode": quota} {
		if set && b.limit == nil {
			o.fields[mode].note("has no effect: it is of this descriptor's own rate_limit, and there is none; those below have their own")
		}
	}
	if quota && b.limit != nil {
		o.fields["quota_mode"].note("carried over as shadow: it decides and counts and always lets pass; the original's metadata about it is not sent")
	}
	b.shadow = b.shadow || quota
	b.share = o.flag("share_threshold")
	if b.share && exact {
		o.fields["share_threshold"].refuse("has no meaning here", "only with a wildcard, a value that holds *")
	}
	for _, metric := range []string{"detailed_metric", "value_to_metric"} {
		if o.flag(metric) {
			o.fields[metric].note("not carried over: it only changes the names of the original's metrics")
		}
	}
	o.field("metadata", func(f node) {
		if f.empty() {
			return
		}
		if !f.mapping() {
			f.refuse(f.describe(), "a mapping")
			return
		}
		f.note("not carried over: it only adds to the metadata of answers")
	})
}
