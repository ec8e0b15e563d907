package envoy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/quotalease/quotalease/ledger/quota"
)

// sumLetters is how much of a path's sum a name carries that does not spell the path out.
const sumLetters = 8

// dimensionName names a rule's dimension by its domain and path, as in
// messaging.message_type_marketing.to_number. A path that a name cannot spell gets a part of
// its sum behind what can be spelled. So a rule's name depends on the rule alone: what it has
// used stays its own when others are added or moved.
func dimensionName(domain string, path []entry) string {
	parts, sum := []string{domain}, []string{strconv.Quote(domain)}
	for _, e := range path {
		part, exactly := e.key, strconv.Quote(e.key)
		switch e.match {
		case exact:
			part, exactly = part+"_"+e.value, exactly+"="+strconv.Quote(e.value)
		case prefix:
			part, exactly = part+"_"+e.value+"*", exactly+"="+strconv.Quote(e.value)+"*"
		}
		parts, sum = append(parts, part), append(sum, exactly)
	}
	plain := true
	for _, part := range parts {
		plain = plain && strings.Trim(part, spelled) == ""
	}
	name := strings.Join(parts, ".")
	if plain && quota.ValidateDimension(name) == nil {
		return name
	}
	digest := sha256.Sum256([]byte(strings.Join(sum, ".")))
	return spell(name, quota.MaxDimensionBytes-1-sumLetters) + "-" + hex.EncodeToString(digest[:])[:sumLetters]
}

// spelled is what a name may hold within a part.
const spelled = "abcdefghijklmnopqrstuvwxyz0123456789_-"

// spell writes a path with the letters that a name may have, at most so many of them.
func spell(path string, most int) string {
	var b strings.Builder
	for _, r := range strings.ToLower(path) {
		switch {
		case strings.ContainsRune(spelled+".", r):
			b.WriteRune(r)
		case !strings.HasSuffix(b.String(), "_"):
			b.WriteByte('_')
		}
	}
	s := strings.TrimLeft(b.String(), "_-.")
	s = strings.TrimRight(s[:min(len(s), most)], "_-.")
	if s == "" {
		return "rule"
	}
	return s
}

// named gives rules of a domain names of their own, as a policy wants it. In the original
// several may have one name, and replacing it replaces them all.
func (c *carrier) named() {
	taken, ours := map[string]bool{}, map[string][]string{}
	for _, r := range c.rules {
		if r.limit != nil {
			taken[r.limit.name] = true
		}
	}
	for _, r := range c.rules {
		if r.limit == nil || r.limit.name == "" {
			continue
		}
		name := r.limit.name
		for n := 2; len(ours[r.limit.name]) > 0 && taken[name]; n++ {
			name = fmt.Sprintf("%s-%d", r.limit.name, n)
		}
		if taken[name] = true; name != r.limit.name {
			r.limit.at.note("carried over with the name %q: here names are unique in a domain", name)
		}
		ours[r.limit.name] = append(ours[r.limit.name], name)
		r.limit.alias = name
	}
	for _, r := range c.rules {
		if r.limit == nil {
			continue
		}
		var all []string
		for _, name := range r.limit.replaces {
			if len(ours[name]) == 0 {
				r.limit.at.note("replaces has no effect for %q: no rule carried over has this name", shorten(name))
			}
			all = append(all, ours[name]...)
		}
		if r.limit.replaces = all; len(all) > maxReplaces {
			r.limit.at.refuse(fmt.Sprintf("replaces %d limits", len(all)), fmt.Sprintf("at most %d", maxReplaces))
		}
	}
}
