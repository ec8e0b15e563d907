package envoy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger/quota"
	"github.com/quotalease/quotalease/ledger/quota/descriptor"
)

// old is how the original looks up a descriptor, and which counter it then uses.
type old struct {
	below   map[string]*old
	wild    []string // composites with a * at their end, in the order of the file
	limited int      // requests of its limit; 0: none, -1: unlimited
	share   bool
}

// described is one descriptor of a made-up file.
type described struct {
	key, value string
	limited    int
	share      bool
	below      []described
}

func (d described) composite() string {
	if d.value == "" {
		return d.key
	}
	return d.key + "_" + d.value
}

func newOld(d described) *old {
	o := &old{below: map[string]*old{}, limited: d.limited, share: d.share}
	for _, c := range d.below {
		o.below[c.composite()] = newOld(c)
		if strings.HasSuffix(c.composite(), "*") {
			o.wild = append(o.wild, c.composite())
		}
	}
	return o
}

// find returns the limit that holds for a descriptor, 0 for none, and the name of its counter.
func (o *old) find(entries []descriptor.Entry) (limited int, counter string) {
	for _, e := range entries {
		composite := e.Key + "_" + e.Value
		next, counted := o.below[composite], composite
		if next == nil {
			for _, pattern := range o.wild {
				if strings.HasPrefix(composite, strings.TrimSuffix(pattern, "*")) {
					if next = o.below[pattern]; next.share {
						counted = pattern
					}
					break
				}
			}
		}
		if next == nil {
			next = o.below[e.Key]
		}
		if next == nil {
			return 0, ""
		}
		o, counter = next, counter+"/"+counted
	}
	return o.limited, counter
}

// drawLevel makes up descriptors whose keys belong to their level, and limits that are all
// different.
func drawLevel(t *rapid.T, level int, limits *int) (all []described) {
	seen := map[string]bool{}
	for range rapid.IntRange(0, 5).Draw(t, "descriptors") {
		d := described{
			key:   rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key") + fmt.Sprint(level),
			value: rapid.SampledFrom([]string{"", "", "x", "x1", "y", "x*", "x1*", "x12*", "*"}).Draw(t, "value"),
		}
		if seen[d.composite()] {
			continue
		}
		seen[d.composite()] = true
		d.share = strings.HasSuffix(d.value, "*") && rapid.Bool().Draw(t, "share")
		switch rapid.IntRange(0, 4).Draw(t, "limit") {
		case 0:
		case 1:
			d.limited = -1
		default:
			*limits++
			d.limited = *limits
		}
		if level < 3 && rapid.Bool().Draw(t, "nested") {
			d.below = drawLevel(t, level+1, limits)
		}
		all = append(all, d)
	}
	for _, value := range []string{"", "192.0.2.*", "192.0.2.7"} {
		if d := (described{key: "remote_address", value: value}); rapid.IntRange(0, 3).Draw(t, "address") == 0 {
			*limits++
			d.limited, d.share = *limits, strings.HasSuffix(value, "*") && rapid.Bool().Draw(t, "share")
			all = append(all, d)
		}
	}
	return all
}

func write(b *strings.Builder, all []described, pad string) {
	for _, d := range all {
		fmt.Fprintf(b, "%s- key: %s\n", pad, d.key)
		if d.value != "" {
			fmt.Fprintf(b, "%s  value: %q\n", pad, d.value)
		}
		switch {
		case d.limited > 0:
			fmt.Fprintf(b, "%s  rate_limit: {unit: day, requests_per_unit: %d}\n", pad, d.limited)
		case d.limited < 0:
			fmt.Fprintf(b, "%s  rate_limit: {unlimited: true}\n", pad)
		}
		if d.share {
			fmt.Fprintf(b, "%s  share_threshold: true\n", pad)
		}
		if len(d.below) > 0 {
			fmt.Fprintf(b, "%s  descriptors:\n", pad)
			write(b, d.below, pad+"  ")
		}
	}
}

// TestEveryRequestIsCountedAsInTheOriginal makes up rule files and requests. Whatever the
// nesting and the wildcards, each request has the limit that it has in the original, and two
// requests share a counter exactly if they share one there.
func TestEveryRequestIsCountedAsInTheOriginal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limits := 0
		rules := drawLevel(t, 1, &limits)
		limits++
		rules = append(rules, described{key: "last", limited: limits}) // a policy has a dimension
		var b strings.Builder
		b.WriteString("domain: d\ndescriptors:\n")
		write(&b, rules, "  ")
		im, err := Import([]policy.File{{Name: "r.yaml", Text: []byte(b.String())}}, bounded)
		if err != nil {
			t.Fatalf("%v\n%s", err, b.String())
		}
		ours := mustLoad(t, im)
		theirs := newOld(described{below: rules})
		ourCounter, theirCounter := map[string]string{}, map[string]string{}
		for range 40 {
			entries := drawRequest(t)
			want, counter := theirs.find(entries)
			got, key := ours.find(t, entries)
			if got != max(want, 0) {
				t.Fatalf("%v: limit %d, in the original %d\n%s\n%s", entries, got, want, b.String(), im.Text)
			}
			if got == 0 {
				continue
			}
			if known, ok := ourCounter[counter]; ok && known != key {
				t.Fatalf("%v is counted on %s, not on %s like what shares its counter\n%s", entries, key, known, im.Text)
			}
			if known, ok := theirCounter[key]; ok && known != counter {
				t.Fatalf("%v shares %s with %s, not in the original\n%s", entries, key, known, im.Text)
			}
			ourCounter[counter], theirCounter[key] = key, counter
		}
	})
}

func drawRequest(t *rapid.T) (entries []descriptor.Entry) {
	for i := range rapid.IntRange(1, 4).Draw(t, "entries") {
		entries = append(entries, descriptor.Entry{
			Key:   rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key") + fmt.Sprint(i+1),
			Value: rapid.SampledFrom([]string{"x", "x1", "x12", "x123", "x2", "y", "z"}).Draw(t, "value"),
		})
	}
	if rapid.Bool().Draw(t, "address") {
		address := rapid.SampledFrom([]string{"192.0.2.7", "192.0.2.8", "192.0.2.70", "198.51.100.7"}).Draw(t, "value")
		entries = append(entries[:rapid.IntRange(0, len(entries)).Draw(t, "before")], descriptor.Entry{Key: "remote_address", Value: address})
	}
	return entries
}

// loaded is an imported policy as agents use it.
type loaded struct {
	doc  *policy.Document
	tree *descriptor.Tree
}

// failing is what *testing.T and *rapid.T share.
type failing interface {
	Fatalf(format string, args ...any)
}

func mustLoad(t failing, im *Imported) loaded {
	doc, err := policy.Parse([]policy.File{{Name: "imported.yaml", Text: im.Text}}, time.Time{})
	if err != nil {
		t.Fatalf("the policy is refused: %v\n%s", err, im.Text)
	}
	tree, err := descriptor.Compile(doc.Descriptors)
	if err != nil {
		t.Fatalf("%v\n%s", err, im.Text)
	}
	return loaded{doc, tree}
}

// find returns the limit that holds for a descriptor, 0 for none, and the account.
func (l loaded) find(t failing, entries []descriptor.Entry) (int, string) {
	rule := l.tree.Find("d", entries)
	if rule == nil || rule.Unlimited() {
		return 0, ""
	}
	tenant, ok := rule.TenantOf(entries)
	if !ok {
		t.Fatalf("%v names no tenant", entries)
	}
	if rule.Local {
		i := slices.IndexFunc(l.doc.Locals, func(o *policy.Local) bool { return o.Name == rule.Dimension })
		by := rule.Dimension
		for _, f := range rule.Caller {
			value, ok := f.ValueOf(entries)
			if !ok {
				t.Fatalf("%v has no %s", entries, f.Attribute)
			}
			by += "/" + value
		}
		if slices.Contains(l.doc.Locals[i].Key, "tenant") {
			by += "/" + tenant
		}
		return int(l.doc.Locals[i].Rate.Units), by
	}
	i := slices.IndexFunc(l.doc.Dimensions, func(d *policy.Dimension) bool { return d.Name == rule.Dimension })
	return int(l.doc.Dimensions[i].Limit.Units), quota.Key{Tenant: tenant, Dimension: rule.Dimension}.String()
}

// TestExamplesLoad holds every example to being a policy as it is printed.
func TestExamplesLoad(t *testing.T) {
	t.Parallel()
	for _, name := range examples(t) {
		im := mustImport(t, bounded, example(t, name))
		l := mustLoad(t, im)
		if len(l.doc.Dimensions) != im.Dimensions || len(l.doc.Locals) != im.Locals || len(l.doc.Descriptors) != im.Descriptors {
			t.Errorf("%s: %d dimensions and %d descriptors, said to be %d and %d", name,
				len(l.doc.Dimensions), len(l.doc.Descriptors), im.Dimensions, im.Descriptors)
		}
	}
}

// TestWeeksBeginWhereTheOriginalCountsFrom compares windows with multiples of the original's
// lengths since 1970.
func TestWeeksBeginWhereTheOriginalCountsFrom(t *testing.T) {
	t.Parallel()
	l := mustLoad(t, mustImport(t, bounded, example(t, "units.yaml")))
	at := time.Date(2026, 11, 30, 7, 38, 21, 0, time.UTC)
	for name, length := range map[string]int64{"units.a": 1, "units.b": 60, "units.c": 3600, "units.d": 86400, "units.e": 7 * 86400} {
		i := slices.IndexFunc(l.doc.Dimensions, func(d *policy.Dimension) bool { return d.Name == name })
		w := l.doc.Dimensions[i].Period.WindowAt(at)
		if got, want := w.Start.Unix(), at.Unix()/length*length; got != want {
			t.Errorf("%s: the window begins at %v, in the original at %v", name, w.Start, time.Unix(want, 0).UTC())
		}
	}
}
