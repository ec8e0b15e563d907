package envoy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/quotalease/quotalease/controlplane/policy"
)

// node is one YAML node of a rule file with what a fault or a note needs to say about it. Its
// methods report what is wrong and then answer ok = false; the caller goes on with the next
// field, so that one run finds every fault.
type node struct {
	r     *reader
	file  int
	path  string
	depth int
	merge bool // of a mapping that << merges
	yaml  *yaml.Node
}

// object is a mapping whose keys the original knows.
type object struct {
	node
	fields map[string]node
}

// fieldNames are the keys that the original lets stand anywhere, in the order in which people
// write them. Which of them means something depends on the place.
var fieldNames = []string{
	"domain", "descriptors", "key", "value", "rate_limit", "shadow_mode", "quota_mode", "share_threshold",
	"detailed_metric", "value_to_metric", "metadata", "unit", "unit_multiplier", "requests_per_unit", "unlimited",
	"name", "replaces",
}

func (n node) refuse(problem, allowed string) {
	n.r.faults = append(n.r.faults, n.placed(problem, allowed))
}

func (n node) note(format string, args ...any) {
	n.r.notes = append(n.r.notes, n.placed(fmt.Sprintf(format, args...), ""))
}

func (n node) placed(problem, allowed string) placed {
	return placed{file: n.file, Fault: policy.Fault{
		File: n.r.files[n.file].Name, Line: n.yaml.Line, Column: n.yaml.Column,
		Field: n.path, Problem: problem, Allowed: allowed,
	}}
}

// place returns file:line, for faults that name two places and for comments.
func (n node) place() string {
	return n.r.files[n.file].Name + ":" + strconv.Itoa(n.yaml.Line)
}

// child is a part of n, with an alias followed to what it stands for. Not ok is a file that
// aliases make larger or deeper than anybody writes.
func (n node) child(name string, y *yaml.Node) (node, bool) {
	if n.path != "" && !strings.HasPrefix(name, "[") {
		name = "." + name
	}
	for y.Kind == yaml.AliasNode {
		y = y.Alias
	}
	c := node{r: n.r, file: n.file, path: n.path + name, depth: n.depth + 1, yaml: y}
	if n.r.visits++; n.r.visits > maxVisits || c.depth > maxDepth {
		if !n.r.overgrown {
			n.r.overgrown = true
			c.refuse("is too deep, or aliases make it too large", fmt.Sprintf("%d levels and %d values in all", maxDepth, maxVisits))
		}
		return c, false
	}
	if y.Style&yaml.TaggedStyle != 0 {
		c.refuse(y.Tag+" is a tag", "the value without it")
		return c, false
	}
	return c, true
}

func (n node) mapping() bool { return n.yaml.Kind == yaml.MappingNode }

// empty reports a value that is left out behind its colon.
func (n node) empty() bool { return n.yaml.Kind == yaml.ScalarNode && n.yaml.ShortTag() == "!!null" }

// object reads a mapping of the fields that mean something here. Like the original it refuses
// keys that stand nowhere, and overlooks those that belong elsewhere; those are noted.
func (n node) object(here ...string) (object, bool) {
	o := object{node: n, fields: map[string]node{}}
	if !n.mapping() {
		n.refuse(n.describe(), "a mapping of "+strings.Join(here, ", "))
		return o, false
	}
	n.pairs(func(key, val node) {
		name := key.yaml.Value
		switch {
		case slices.Contains(here, name):
			if first, twice := o.fields[name]; twice && !first.merge && !val.merge {
				first.note("has no effect: is given again at %s, and the last counts", val.place())
			}
			o.fields[name] = val
		case slices.Contains(fieldNames, name):
			key.note("has no effect here, in the original neither; it belongs %s", belongs(name))
			val.known(name)
		default:
			key.refuse("unknown field", strings.Join(here, ", "))
		}
	})
	return o, true
}

// belongs says where a field means something.
func belongs(name string) string {
	switch {
	case slices.Contains(rootFields, name) && slices.Contains(ruleFields, name):
		return "to a file or a descriptor"
	case slices.Contains(rootFields, name):
		return "to a file"
	case slices.Contains(ruleFields, name):
		return "to a descriptor"
	}
	return "into rate_limit"
}

// pairs calls each for the keys and values of a mapping in their order, and for those of
// mappings that << merges into it.
func (n node) pairs(each func(key, val node)) {
	for i := 0; i+1 < len(n.yaml.Content); i += 2 {
		key, ok := n.child(keyName(n.yaml.Content[i]), n.yaml.Content[i])
		if !ok {
			continue
		}
		if key.yaml.Kind != yaml.ScalarNode {
			key.refuse("a key that is not a word", "a field")
			continue
		}
		val, ok := n.child(keyName(key.yaml), n.yaml.Content[i+1])
		if !ok {
			continue
		}
		if key.yaml.ShortTag() == "!!merge" {
			val.path = n.path
			val.merged(each)
			continue
		}
		each(key, val)
	}
}

// merged reads what stands behind <<.
func (n node) merged(each func(key, val node)) {
	mark := func(key, val node) {
		val.merge = true
		each(key, val)
	}
	switch n.yaml.Kind {
	case yaml.MappingNode:
		n.pairs(mark)
	case yaml.SequenceNode:
		// The first of a list counts most, so it comes last.
		for _, y := range slices.Backward(n.yaml.Content) {
			item, ok := n.child("<<", y)
			if item.path = n.path; ok && item.yaml.Kind == yaml.MappingNode {
				item.pairs(mark)
			} else if ok {
				item.refuse(item.describe(), "a mapping to merge")
			}
		}
	default:
		n.refuse(n.describe(), "a mapping to merge")
	}
}

// known looks at what stands behind a field that means nothing: the original refuses unknown
// keys there too, and leaves metadata alone.
func (n node) known(name string) {
	switch {
	case name == "metadata" || n.empty():
	case n.yaml.Kind == yaml.MappingNode:
		n.pairs(func(key, val node) {
			if !slices.Contains(fieldNames, key.yaml.Value) {
				key.refuse("unknown field", strings.Join(fieldNames, ", "))
				return
			}
			val.known(key.yaml.Value)
		})
	case n.yaml.Kind == yaml.SequenceNode:
		n.list("mappings", func(item node) { item.known("") })
	default:
		n.text()
	}
}

// list calls each for the items of a list, which are all mappings. Empty is the empty list.
func (n node) list(allowed string, each func(item node)) bool {
	if n.empty() {
		return true
	}
	if n.yaml.Kind != yaml.SequenceNode {
		n.refuse(n.describe(), "a list of "+allowed)
		return false
	}
	for i, y := range n.yaml.Content {
		item, ok := n.child("["+strconv.Itoa(i)+"]", y)
		switch {
		case !ok && n.r.overgrown:
			return false
		case !ok:
		case item.yaml.Kind != yaml.MappingNode:
			item.refuse(item.describe(), "a mapping")
		default:
			each(item)
		}
	}
	return true
}

// describe says what a node of the wrong type is.
func (n node) describe() string {
	switch {
	case n.yaml.Kind == yaml.MappingNode:
		return "is a mapping"
	case n.yaml.Kind == yaml.SequenceNode:
		return "is a list"
	case n.empty():
		return "is empty"
	}
	return strconv.Quote(shorten(n.yaml.Value)) + " stands there"
}

// keyName returns a key as a part of a field path, short enough to be read.
func keyName(key *yaml.Node) string {
	if key.Kind != yaml.ScalarNode {
		return "?"
	}
	if strings.Trim(key.Value, "abcdefghijklmnopqrstuvwxyz_") != "" || key.Value == "" {
		return strconv.Quote(shorten(key.Value))
	}
	return shorten(key.Value)
}

// shorten cuts a long value for people, between two characters.
func shorten(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "..."
}
