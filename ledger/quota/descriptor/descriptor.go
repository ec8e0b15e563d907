package descriptor

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Entry is one step of a request's descriptor.
type Entry struct{ Key, Value string }

// Pattern is what one entry has to be.
type Pattern struct {
	Key   string
	Value string // exact; a prefix before a last *; empty: any
}

func (p Pattern) prefix() (string, bool) { return strings.CutSuffix(p.Value, "*") }

// Exact reports that only one value will do, so that it tells nothing of who asks.
func (p Pattern) Exact() bool {
	_, prefix := p.prefix()
	return p.Value != "" && !prefix
}

func (p Pattern) String() string {
	if p.Value == "" {
		return quoted(p.Key, ",=")
	}
	return quoted(p.Key, ",=") + "=" + quoted(p.Value, ",")
}

// quoted writes a word so that it cannot be taken for two, where some characters end it.
func quoted(word, ends string) string {
	if word == "" || strings.ContainsAny(word, ends) || strings.ContainsFunc(word, func(r rune) bool { return r == '"' || r <= ' ' || r == 0x7f }) {
		return strconv.Quote(word)
	}
	return word
}

// Rule says where requests with one kind of descriptor are counted.
type Rule struct {
	Domain    string
	Match     []Pattern
	Dimension string // empty: counted nowhere, always allowed; with Local: a local limit
	Local     bool   // each agent decides by itself, and nothing is leased
	Caller    []From // what the local limit counts by, but for the tenant
	Tenant    []int  // places in Match whose values name the tenant; none: the domain does
	Shadow    bool   // decides and counts, always allows
	Name      string
	Replaces  []string // names of rules that do not count beside this one
	Overrides bool     // a limit that the request brings along is honoured
}

// From says which entry has what a local limit counts by.
type From struct {
	Attribute string // in the words of local limits
	At        int    // place in Match
}

// Address is the attribute whose values are addresses, or networks as proxies mask them.
const Address = "address"

// ValueOf is what a request that the rule was found for is counted by. It is false if the value
// can be no such thing.
func (f From) ValueOf(entries []Entry) (string, bool) {
	value := entries[f.At].Value
	if f.Attribute != Address {
		return value, quota.ValidateTenant(value) == nil // names of callers are as those of tenants
	}
	if network, err := netip.ParsePrefix(value); err == nil {
		value = network.Masked().Addr().String()
	}
	addr, err := netip.ParseAddr(value)
	return value, err == nil && addr.Zone() == "" && !addr.IsUnspecified()
}

// Unlimited reports that nothing is counted.
func (r *Rule) Unlimited() bool { return r.Dimension == "" }

// Path writes what a rule matches, for people.
func (r *Rule) Path() string {
	steps := make([]string, len(r.Match))
	for i, p := range r.Match {
		steps[i] = p.String()
	}
	return strings.Join(steps, ",")
}

func (r *Rule) String() string { return quoted(r.Domain, "/") + "/" + r.Path() }

// escape makes values joinable: no two lists of values become one name.
var escape = strings.NewReplacer("%", "%25", "/", "%2F")

// TenantOf names the tenant of a request that the rule was found for. It is false if the
// values can be no tenant's name.
func (r *Rule) TenantOf(entries []Entry) (string, bool) {
	var name string
	switch len(r.Tenant) {
	case 0:
		name = r.Domain
	case 1:
		name = entries[r.Tenant[0]].Value
	default:
		values := make([]string, len(r.Tenant))
		for i, at := range r.Tenant {
			if entries[at].Value == "" {
				return "", false
			}
			values[i] = escape.Replace(entries[at].Value)
		}
		name = strings.Join(values, "/")
	}
	return name, quota.ValidateTenant(name) == nil
}

// Tree finds rules. It never changes, so any number of goroutines may use it.
type Tree struct {
	domains map[string]*level
}

// level is what may come next on a path, by the entry's key.
type level struct {
	keys map[string]*choice
	rule *Rule // of the path that ends here; nil: none
}

// choice is where the values of one key lead.
type choice struct {
	exact    map[string]*level
	prefixes []prefixed // longest first
	any      *level
}

type prefixed struct {
	prefix string
	next   *level
}

// DuplicateError is a second rule for a path that has one.
type DuplicateError struct{ First, Second *Rule }

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("descriptor %s: matches what another rule matches", e.Second)
}

// Compile makes a tree of rules, or returns a *DuplicateError.
func Compile(rules []*Rule) (*Tree, error) {
	t := &Tree{domains: map[string]*level{}}
	for _, r := range rules {
		at := t.domains[r.Domain]
		if at == nil {
			at = &level{}
			t.domains[r.Domain] = at
		}
		for _, p := range r.Match {
			at = at.step(p)
		}
		if at.rule != nil {
			return nil, &DuplicateError{First: at.rule, Second: r}
		}
		at.rule = r
	}
	return t, nil
}

// step returns the level behind a pattern, and makes it if there is none.
func (l *level) step(p Pattern) *level {
	if l.keys == nil {
		l.keys = map[string]*choice{}
	}
	c := l.keys[p.Key]
	if c == nil {
		c = &choice{exact: map[string]*level{}}
		l.keys[p.Key] = c
	}
	prefix, isPrefix := p.prefix()
	switch {
	case p.Value == "":
		if c.any == nil {
			c.any = &level{}
		}
		return c.any
	case isPrefix:
		for _, known := range c.prefixes {
			if known.prefix == prefix {
				return known.next
			}
		}
		next := &level{}
		c.prefixes = append(c.prefixes, prefixed{prefix, next})
		slices.SortStableFunc(c.prefixes, func(x, y prefixed) int { return cmp.Compare(len(y.prefix), len(x.prefix)) })
		return next
	}
	if c.exact[p.Value] == nil {
		c.exact[p.Value] = &level{}
	}
	return c.exact[p.Value]
}

// Find returns the rule that counts a descriptor, or nil.
func (t *Tree) Find(domain string, entries []Entry) *Rule {
	at := t.domains[domain]
	for _, e := range entries {
		if at == nil {
			return nil
		}
		at = at.keys[e.Key].next(e.Value)
	}
	if at == nil {
		return nil
	}
	return at.rule
}

// next follows a value: exact, else the longest prefix, else any.
func (c *choice) next(value string) *level {
	if c == nil {
		return nil
	}
	if next := c.exact[value]; next != nil {
		return next
	}
	for _, p := range c.prefixes {
		if strings.HasPrefix(value, p.prefix) {
			return p.next
		}
	}
	return c.any
}
