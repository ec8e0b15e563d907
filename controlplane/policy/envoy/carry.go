package envoy

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// rule is one rule of the policy, and where it comes from.
type rule struct {
	from      string // file:line
	domain    string
	match     []entry
	dimension string   // empty: unlimited; with address: a local limit
	address   string   // the key whose values the local limit counts apart; empty: a quota counts
	apart     bool     // the local limit counts each tenant apart, too
	tenant    []string // keys whose values name the tenant; nil: as the policy has it by default
	limit     *limit   // nil: unlimited, so that a wider rule beside it does not hold
	shadow    bool
}

// entry is one level of a rule's path.
type entry struct {
	key, value string
	match      match
	share      bool
}

type match int

const (
	exact  match = iota
	prefix       // value without its *
	anyValue
)

// addressKeys are the keys under which Envoy sends a client's address.
var addressKeys = []string{"remote_address", "masked_remote_address"}

// carrier turns descriptors into rules.
type carrier struct {
	domain string
	rules  []rule
}

// level carries the descriptors below a path over, and reports whether there were any to carry.
func (c *carrier) level(path []entry, siblings []*branch) (carried bool) {
	for i, b := range siblings {
		e := b.entry()
		here := append(slices.Clone(path), e)
		if why := b.lost(here, siblings, i); why != "" {
			b.at.note("not carried over%s: %s", b.withBelow(), why)
			continue
		}
		done := b.limit != nil && c.limited(here, b)
		if below := c.level(here, b.below); below || done {
			carried = true
			continue
		}
		if b.limit != nil {
			continue // said why not
		}
		// Nothing limits it, and a request that ends here must not fall to a wider rule.
		if slices.ContainsFunc(siblings, func(s *branch) bool { return s != b && s.catches(b) }) {
			c.rules = append(c.rules, rule{from: b.at.place(), domain: c.domain, match: here})
			carried = true
			continue
		}
		b.at.note("needs no rule: nothing limits it here either")
	}
	return carried
}

// limited carries a descriptor's own limit over.
func (c *carrier) limited(path []entry, b *branch) bool {
	r := rule{from: b.at.place(), domain: c.domain, match: path, limit: b.limit}
	if b.limit.unlimited {
		c.rules = append(c.rules, r)
		return true
	}
	if window := b.limit.window(); b.limit.times > 1 && window > maxRatePer {
		b.limit.at.note("not carried over: a window of %d units is longer than %d days", b.limit.times, maxRatePer/day)
		return false
	}
	keys, ok := tenantKeys(path)
	if !ok {
		b.at.note("not carried over: with share_threshold the tenant is named by keys, and a key of this path is there twice")
		return false
	}
	if last := path[len(path)-1]; last.byAddress() {
		return c.locally(r, b, last.key)
	}
	b.limit.differs()
	r.tenant, r.shadow, r.dimension = keys, b.shadow, dimensionName(c.domain, path)
	c.rules = append(c.rules, r)
	return true
}

// locally carries a limit of each address over as a local limit: no quota is counted by address.
func (c *carrier) locally(r rule, b *branch, key string) bool {
	others := r.match[:len(r.match)-1]
	if slices.ContainsFunc(others, func(e entry) bool { return e.key == key }) {
		b.at.note("not carried over: the address is named by its key, and that is in this path twice")
		return false
	}
	r.tenant, _ = tenantKeys(others) // as well as that of the whole path
	r.apart = slices.ContainsFunc(others, func(e entry) bool { return e.match != exact && !e.share })
	if !r.apart {
		r.tenant = nil
	}
	r.shadow, r.dimension, r.address = b.shadow, dimensionName(c.domain, r.match), key
	c.rules = append(c.rules, r)
	b.limit.at.note("carried over as a local limit: no quota is counted by address, so each agent counts for itself, N agents let N times as much through, and each start begins anew; IPv6 addresses of one /64 network are one")
	return true
}

// byAddress reports that each address is counted apart.
func (e entry) byAddress() bool {
	return e.match != exact && !e.share && slices.Contains(addressKeys, e.key)
}

// entry is the descriptor as one level of a path.
func (b *branch) entry() entry {
	e := entry{key: b.key, value: b.value, share: b.share}
	literal, wild := strings.CutSuffix(b.value, "*")
	switch {
	case b.value == "" || b.value == "*":
		e.match, e.value = anyValue, ""
	case wild:
		e.match, e.value = prefix, literal
	}
	return e
}

// lost says why a descriptor and all below it have no rule here, or nothing. at is its place
// among its siblings.
func (b *branch) lost(path []entry, siblings []*branch, at int) string {
	if strings.Contains(b.key, "*") {
		return "a wildcard in a key has no equal here"
	}
	if strings.Contains(strings.TrimSuffix(b.value, "*"), "*") {
		return "only one * at the end of a value has an equal here; name the values, or those that begin alike"
	}
	for i, s := range siblings {
		if s != b && s.wild() && s.covers(b) && (i < at || !b.wild()) {
			return fmt.Sprintf("it never matches in the original, where %q at %s comes first", shorten(s.value), s.at.place())
		}
	}
	if slices.ContainsFunc(path[:len(path)-1], entry.byAddress) {
		return "each address would have a quota of its own, and clients change addresses; only a limit that ends on the address becomes a local one"
	}
	return ""
}

func (b *branch) wild() bool { return strings.Contains(b.value, "*") }

// covers reports whether b's pattern also fits every value that another one's fits, which is
// not a plain value of its own: those come first in any case.
func (b *branch) covers(other *branch) bool {
	mine, theirs := b.entry(), other.entry()
	if mine.key != theirs.key || theirs.match == exact {
		return false
	}
	return mine.match == anyValue || mine.match == prefix && theirs.match == prefix && strings.HasPrefix(theirs.value, mine.value)
}

// catches reports whether b's pattern fits a value of another one's, and less specifically.
func (b *branch) catches(other *branch) bool {
	mine, theirs := b.entry(), other.entry()
	return mine.key == theirs.key && theirs.match != anyValue &&
		(mine.match == anyValue || mine.match == prefix && strings.HasPrefix(theirs.value, mine.value))
}

// withBelow says how many descriptors are lost with b.
func (b *branch) withBelow() string {
	n := b.count()
	if n == 0 {
		return ""
	}
	if n == 1 {
		return ", with the one below it"
	}
	return fmt.Sprintf(", with the %d below it", n)
}

func (b *branch) count() int {
	n := len(b.below)
	for _, c := range b.below {
		n += c.count()
	}
	return n
}

// tenantKeys are the keys whose values count apart. The original counts each value of what is
// not exact apart, which is the default here too, but for wildcards that share one counter.
func tenantKeys(path []entry) (keys []string, ok bool) {
	times := map[string]int{}
	shared := false
	keys = []string{}
	for _, e := range path {
		times[e.key]++
		if e.match != exact && e.share {
			shared = true
		} else if e.match != exact {
			keys = append(keys, e.key)
		}
	}
	if !shared {
		return nil, true
	}
	return keys, !slices.ContainsFunc(keys, func(key string) bool { return times[key] > 1 })
}

const (
	day        = 24 * time.Hour
	maxRatePer = 366 * day
)

// lengths are those of the original's units.
var lengths = map[string]time.Duration{
	"second": time.Second, "minute": time.Minute, "hour": time.Hour, "day": day, "week": 7 * day,
	"month": 30 * day, "year": 365 * day,
}

// window is how long the original counts before it begins anew.
func (l *limit) window() time.Duration {
	if most := int64(maxRatePer / lengths[l.unit]); l.times > most {
		return maxRatePer + 1
	}
	return time.Duration(l.times) * lengths[l.unit]
}

// differs notes where windows here are not those of the original.
func (l *limit) differs() {
	switch {
	case l.times > 1:
		l.at.note("carried over as a rate: windows of %d units have no equal here, so %d may come at once and are refilled evenly", l.times, l.requests)
	case l.unit == "month":
		l.at.note("carried over with calendar months in UTC; the original counts blocks of 30 days from 1970-01-01")
	case l.unit == "year":
		l.at.note("carried over with calendar years in UTC; the original counts blocks of 365 days from 1970-01-01")
	}
}
