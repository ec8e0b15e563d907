package policy

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/quotalease/quotalease/ledger/quota"
	"github.com/quotalease/quotalease/ledger/quota/descriptor"
)

// Descriptors returns all rules by domain and path. The list and what it holds are read-only.
func (s *Snapshot) Descriptors() []*descriptor.Rule { return s.doc.Descriptors }

// describe indexes the rules.
func (s *Snapshot) describe() {
	tree, err := descriptor.Compile(s.doc.Descriptors)
	if err != nil { // a checked document has one rule a path
		panic(err)
	}
	s.descriptors, s.overridable = tree, map[string]bool{}
	for _, r := range s.doc.Descriptors {
		if r.Overrides {
			s.overridable[r.Dimension] = true
		}
	}
}

// derived returns a dimension with the limit that a request brought along, if some rule lets
// requests do so.
func (s *Snapshot) derived(name string) (*Dimension, bool) {
	base, o, derived := quota.Derived(name)
	r, ok := s.dimensions[base]
	if !derived || !ok || !s.overridable[base] {
		return nil, false
	}
	d := *r.dimension
	d.Name, d.Limit, d.Plans, d.Overrides = name, quota.LimitOf(o.Units), nil, nil
	switch d.Kind {
	case quota.Period:
		d.Period = o.Calendar(d.Period)
	case quota.RateLimit:
		d.Rate = o.Rate()
	}
	return &d, true
}

// descriptorPart is what a rule means.
func descriptorPart(r *descriptor.Rule) part {
	counts, tenant := r.Dimension, segment(r.Domain)
	if r.Unlimited() {
		counts, tenant = wordNoLimit, none
	}
	local := none
	if r.Local {
		counts, local = none, r.Dimension
	}
	if len(r.Tenant) > 0 {
		keys := make([]string, len(r.Tenant))
		for i, at := range r.Tenant {
			keys[i] = r.Match[at].Key
		}
		tenant = "of " + strings.Join(keys, ", ")
	}
	overrides := "refuse"
	if r.Overrides {
		overrides = "accept"
	}
	return part{"descriptors." + segment(r.String()), []fact{
		factOf("dimension", counts), optional("local", local, none), factOf("tenant", tenant), optional("caller", callerFact(r), none), factOf("shadow", strconv.FormatBool(r.Shadow)),
		factOf("name", orNone(r.Name)), factOf("replaces", orNone(strings.Join(r.Replaces, ", "))), factOf("overrides", overrides)}}
}

// Described says where a descriptor is counted.
type Described struct {
	Rule  *descriptor.Rule // nil: none matches, so it is allowed and not counted
	Key   quota.Key        // empty where nothing is counted; of a local limit the tenant at most, if it counts by it
	Lines []string         // for people
}

// descriptorAllowed says what ExplainDescriptor reads.
const descriptorAllowed = "DOMAIN/KEY=VALUE,KEY=VALUE with %-escapes for what would be misread"

// readDescriptor reads a descriptor as people write it on a command line.
func readDescriptor(text string) (domain string, entries []descriptor.Entry, err error) {
	bad := &quota.FieldError{Field: "descriptor", Allowed: descriptorAllowed}
	domain, path, ok := strings.Cut(text, "/")
	if domain, err = url.PathUnescape(domain); !ok || err != nil || domain == "" {
		return "", nil, bad
	}
	for _, step := range strings.Split(path, ",") {
		key, value, _ := strings.Cut(step, "=")
		key, keyErr := url.PathUnescape(key)
		value, valueErr := url.PathUnescape(value)
		if keyErr != nil || valueErr != nil || key == "" {
			return "", nil, bad
		}
		entries = append(entries, descriptor.Entry{Key: key, Value: value})
	}
	return domain, entries, nil
}

// ExplainDescriptor says, in lines for people, which rule matches a descriptor, which tenant
// and dimension that counts it on, and what else the rule says. The error is a
// *quota.FieldError.
func (s *Snapshot) ExplainDescriptor(text string) (Described, error) {
	domain, entries, err := readDescriptor(text)
	if err != nil {
		return Described{}, err
	}
	d := Described{Rule: s.descriptors.Find(domain, entries)}
	switch r := d.Rule; {
	case r == nil:
		d.Lines = []string{s.unmatched(domain)}
		return d, nil
	case r.Unlimited():
		d.Lines = []string{ruleLine(r), "counted: nowhere, it is unlimited and always allowed"}
	case r.Local:
		s.countLocally(&d, entries)
	default:
		d.count(r, entries)
	}
	if r := d.Rule; r.Shadow {
		d.Lines = append(d.Lines, "shadow: decides and counts, and always allows")
	}
	if len(d.Rule.Replaces) > 0 {
		d.Lines = append(d.Lines, "replaces, in the same request: "+strings.Join(d.Rule.Replaces, ", "))
	}
	if d.Rule.Overrides {
		d.Lines = append(d.Lines, "a limit that the request brings along: honoured, in an account of its own")
	}
	return d, nil
}

// count says which key a rule counts a descriptor on.
func (d *Described) count(r *descriptor.Rule, entries []descriptor.Entry) {
	d.Lines = append(d.Lines, ruleLine(r))
	if tenant, ok := d.tenant(entries); ok {
		d.Key = quota.Key{Tenant: tenant, Dimension: r.Dimension}
		d.Lines = append(d.Lines, "dimension: "+r.Dimension)
	}
}

// tenant says who is counted.
func (d *Described) tenant(entries []descriptor.Entry) (string, bool) {
	r := d.Rule
	tenant, ok := r.TenantOf(entries)
	if !ok {
		d.Lines = append(d.Lines, fmt.Sprintf("tenant: none, the values can be no tenant's name: refused as %s", quota.UnknownTenant))
		return "", false
	}
	from := "the domain, since no entry of the rule names it"
	if len(r.Tenant) > 0 {
		keys := make([]string, len(r.Tenant))
		for i, at := range r.Tenant {
			keys[i] = r.Match[at].Key
		}
		from = "the value of " + strings.Join(keys, " and ")
	}
	d.Lines = append(d.Lines, fmt.Sprintf("tenant: %s (%s)", segment(tenant), from))
	return tenant, true
}

func ruleLine(r *descriptor.Rule) string {
	if r.Name == "" {
		return "rule: " + r.String()
	}
	return fmt.Sprintf("rule: %s, named %s", r, segment(r.Name))
}

// unmatched says why nothing is counted, and which rules the domain has.
func (s *Snapshot) unmatched(domain string) string {
	var paths, domains []string
	for _, r := range s.doc.Descriptors {
		if r.Domain == domain {
			paths = append(paths, r.Path())
		}
		if len(domains) == 0 || domains[len(domains)-1] != r.Domain {
			domains = append(domains, r.Domain)
		}
	}
	line := "rule: none matches, so it is allowed and not counted; "
	if len(paths) == 0 {
		return line + "domains with rules: " + few(domains)
	}
	return line + "rules of " + segment(domain) + ": " + few(paths)
}

// explainDescriptors names the descriptors that are counted on a dimension.
func (s *Snapshot) explainDescriptors(dimension string) []string {
	var paths []string
	for _, r := range s.doc.Descriptors {
		if r.Dimension == dimension {
			paths = append(paths, r.String())
		}
	}
	if len(paths) == 0 {
		return nil
	}
	return []string{"descriptors: " + few(paths)}
}
