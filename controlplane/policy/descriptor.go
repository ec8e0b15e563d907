package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/quotalease/quotalease/ledger/quota"
	"github.com/quotalease/quotalease/ledger/quota/descriptor"
)

// What is read of descriptors.
const (
	MaxDescriptors   = 10_000
	maxMatch         = 16
	maxReplaces      = 64
	maxKeyBytes      = 256
	maxValueBytes    = 1024
	maxRuleNameBytes = 256
)

const (
	domainAllowed = "1 to 256 bytes of UTF-8 without control characters, as requests name it"
	matchAllowed  = "1 to 16 of {key, value}"
	countAllowed  = "one of dimension, local and unlimited: true"
)

// describing is a rule while it is read, with what is looked at when all are read.
type describing struct {
	*descriptor.Rule
	at        value
	dimension value   // where it, or a local limit, is named; nowhere if the rule is unlimited
	caller    object  // of a rule with a local limit; nothing if it is not given
	tenant    value   // the same
	unclear   bool    // caller was not read
	replaces  []value // names, in the order of Replaces
	whole     bool    // Match was read
}

func (b *builder) descriptor(v value) {
	if len(b.doc.Descriptors) == MaxDescriptors {
		b.tooMany(v, "descriptors", MaxDescriptors)
		return
	}
	o, ok := v.object("domain", "match", "dimension", "local", "unlimited", "tenant", "caller", "shadow", "name", "replaces", "overrides")
	if !ok {
		return
	}
	d := &describing{Rule: &descriptor.Rule{}, at: v}
	b.doc.Descriptors = append(b.doc.Descriptors, d.Rule)
	domainOK := false
	if f, ok := o.need("domain", domainAllowed); ok {
		if d.Domain, domainOK = f.label(quota.MaxTenantBytes, domainAllowed); domainOK && quota.ValidateTenant(d.Domain) != nil {
			f.refuse(fmt.Sprintf("%q is not a domain", shorten(d.Domain)), domainAllowed)
			domainOK = false
		}
	}
	d.readMatch(o)
	d.readCount(o)
	d.readTenant(o)
	d.readCaller(o)
	if f, ok := o.get("shadow"); ok {
		d.Shadow, _ = f.truth()
	}
	d.readNames(o, domainOK)
	if f, ok := o.get("overrides"); ok {
		word, _ := f.word("refuse", "accept")
		d.Overrides = word == "accept"
	}
	if d.whole && domainOK {
		b.once(v, "descriptor "+d.String(), "descriptor "+shorten(d.String()))
	}
	b.describing = append(b.describing, d)
}

// label reads a word that requests carry: it is theirs, so no more is asked of it.
func (v value) label(most int, allowed string) (string, bool) {
	s, tag, ok := v.scalar(allowed)
	switch {
	case !ok:
		return "", false
	case s == "":
		v.refuse("is empty", allowed)
	case tag != "!!str":
		v.refuse(v.describe(), allowed+" (quote it)")
	case len(s) > most:
		v.refuse(fmt.Sprintf("is %d bytes long", len(s)), allowed)
	case !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl):
		v.refuse("holds control characters", allowed)
	default:
		return s, true
	}
	return "", false
}

// truth reads true or false.
func (v value) truth() (is, ok bool) {
	s, tag, ok := v.scalar("true or false")
	if ok && (tag != "!!bool" || s != "true" && s != "false") {
		v.refuse(v.describe(), "true or false")
		ok = false
	}
	return s == "true", ok
}

// readMatch reads the path that the rule is for.
func (d *describing) readMatch(o object) {
	f, ok := o.need("match", matchAllowed)
	if !ok {
		return
	}
	before := len(d.at.b.faults)
	if f.empty() {
		f.refuse(f.describe(), matchAllowed)
		return
	}
	f.list("{key, value}", func(item value) {
		if len(d.Match) == maxMatch {
			d.at.b.tooMany(item, "entries in "+f.path, maxMatch)
			return
		}
		d.Match = append(d.Match, item.pattern())
	})
	if len(d.Match) == 0 && len(d.at.b.faults) == before {
		f.refuse("is an empty list", matchAllowed)
	}
	d.whole = len(d.at.b.faults) == before
}

func (v value) pattern() (p descriptor.Pattern) {
	o, ok := v.object("key", "value")
	if !ok {
		return p
	}
	key := fmt.Sprintf("a descriptor's key, 1 to %d bytes", maxKeyBytes)
	if f, ok := o.need("key", key); ok {
		p.Key, _ = f.label(maxKeyBytes, key)
	}
	const allowed = "an exact value, a prefix and *, or left out for any value"
	if f, ok := o.get("value"); ok {
		if p.Value, ok = f.label(maxValueBytes, allowed); ok && p.Value == "*" {
			f.refuse("* alone would be any value", allowed)
		}
	}
	return p
}

// readCount reads where requests are counted, if anywhere.
func (d *describing) readCount(o object) {
	f, counted := o.get("dimension")
	l, local := o.get("local")
	u, given := o.get("unlimited")
	switch {
	case counted && given:
		u.refuse("is given beside dimension", countAllowed)
	case local && (counted || given):
		l.refuse("is given beside another", countAllowed)
	case counted || local:
		if local {
			f = l
		}
		if name, ok := f.name(quota.ValidateDimension); ok {
			d.Dimension, d.Local, d.dimension = name, local, f
		}
		if f, ok := o.get("overrides"); ok && local {
			f.refuse("has no meaning with local", "only with dimension")
		}
	case !given:
		o.child("dimension", o.node).refuse("is missing", countAllowed)
	default:
		if is, ok := u.truth(); ok && !is {
			u.refuse("false says nothing", countAllowed)
		}
		for _, name := range []string{"tenant", "shadow", "overrides"} {
			if f, ok := o.get(name); ok {
				f.refuse("has no meaning with unlimited", "only with dimension or local")
			}
		}
	}
}

// readTenant finds the places of the entries that name the tenant: those said to, else all
// that have no exact value.
func (d *describing) readTenant(o object) {
	f, given := o.get("tenant")
	if d.Unlimited() {
		return // there is none to name
	}
	if !given {
		if !d.Local { // whether there is one the limit says
			d.defaultTenant()
		}
		return
	}
	d.tenant = f
	const allowed = "keys of match, each once"
	f.list("keys of match", func(item value) {
		at, ok := d.place(item, allowed)
		switch {
		case !ok:
		case slices.Contains(d.Tenant, at):
			item.refuse(fmt.Sprintf("%q is given twice", shorten(d.Match[at].Key)), allowed)
		default:
			d.Tenant = append(d.Tenant, at)
		}
	})
}

// defaultTenant is all entries without an exact value that say nothing else.
func (d *describing) defaultTenant() {
	for i, p := range d.Match {
		if !p.Exact() && !slices.ContainsFunc(d.Caller, func(f descriptor.From) bool { return f.At == i }) {
			d.Tenant = append(d.Tenant, i)
		}
	}
}

// place finds the entry of match that a key names.
func (d *describing) place(item value, allowed string) (at int, ok bool) {
	key, ok := item.label(maxKeyBytes, allowed)
	if !ok || !d.whole {
		return 0, false
	}
	at = -1
	for i, p := range d.Match {
		switch {
		case p.Key != key:
		case at >= 0:
			item.refuse(fmt.Sprintf("match has the key %q more than once", shorten(key)), "a key that match has once")
			return 0, false
		default:
			at = i
		}
	}
	if at < 0 {
		item.refuse(fmt.Sprintf("match has no key %q", shorten(key)), "a key of match")
	}
	return at, at >= 0
}

// readNames reads the rule's name, and which named rules do not count beside it.
func (d *describing) readNames(o object, domainOK bool) {
	const allowed = "a name, 1 to 256 bytes"
	if f, ok := o.get("name"); ok {
		if d.Name, ok = f.label(maxRuleNameBytes, allowed); ok && domainOK {
			d.at.b.once(f, fmt.Sprintf("descriptor name %q in %q", d.Name, d.Domain), "name "+shorten(d.Name))
		}
	}
	f, ok := o.get("replaces")
	if !ok {
		return
	}
	f.list("names", func(item value) {
		name, ok := item.label(maxRuleNameBytes, allowed)
		switch {
		case !ok:
		case name == d.Name:
			item.refuse("a rule does not replace itself", "the name of another rule of the domain")
		case slices.Contains(d.Replaces, name):
			item.refuse(fmt.Sprintf("%q is given twice", shorten(name)), "each name once")
		case len(d.Replaces) == maxReplaces:
			d.at.b.tooMany(item, "names in "+f.path, maxReplaces)
		default:
			d.Replaces, d.replaces = append(d.Replaces, name), append(d.replaces, item)
		}
	})
}

// checkDescriptors looks at what rules name.
func (b *builder) checkDescriptors() {
	dimensions, locals := b.dimensionsByName(), b.localsByName()
	names := map[string]map[string]bool{} // by domain
	for _, d := range b.describing {
		if names[d.Domain] == nil {
			names[d.Domain] = map[string]bool{}
		}
		names[d.Domain][d.Name] = true
	}
	for _, d := range b.describing {
		switch {
		case d.Local:
			d.checkLocal(locals)
		case !d.Unlimited():
			switch dim, ok := dimensions[d.Dimension]; {
			case !ok:
				d.dimension.refuse(fmt.Sprintf("dimension %q is not defined%s", shorten(d.Dimension),
					didYouMean(near(d.Dimension, slices.Sorted(maps.Keys(dimensions))))), "a dimension of the policy")
			case dim.Kind == quota.Concurrency:
				d.dimension.refuse("dimension "+dim.Name+" is a concurrency limit: nobody could give its slots back", "a dimension of kind period or rate")
			}
		}
		for i, name := range d.Replaces {
			if !names[d.Domain][name] {
				d.replaces[i].warn(fmt.Sprintf("no rule of domain %s has the name %q", segment(d.Domain), shorten(name)))
			}
		}
	}
}

func (b *builder) dimensionsByName() map[string]*Dimension {
	known := make(map[string]*Dimension, len(b.doc.Dimensions))
	for _, d := range b.doc.Dimensions {
		if d.Name != "" {
			known[d.Name] = d
		}
	}
	return known
}

// sortDescriptors puts rules into their one order.
func sortDescriptors(rules []*descriptor.Rule) {
	slices.SortFunc(rules, func(x, y *descriptor.Rule) int { return cmp.Compare(x.String(), y.String()) })
	for _, r := range rules {
		slices.Sort(r.Replaces)
	}
}
