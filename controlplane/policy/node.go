package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// value is one node of a policy file with what a fault needs to say about it. Its methods
// report what is wrong and then answer ok = false; the caller goes on with the next field,
// so that one run finds every fault.
type value struct {
	b    *builder
	file int
	path string
	node *yaml.Node
}

// object is a mapping whose keys are known and given once.
type object struct {
	value
	fields map[string]member
}

// member is a field of an object and the key that names it.
type member struct {
	value
	key value
}

func (v value) refuse(problem, allowed string) {
	v.b.faults = append(v.b.faults, v.found(problem, allowed))
}

func (v value) warn(problem string) {
	v.b.warnings = append(v.b.warnings, v.found(problem, ""))
}

func (v value) found(problem, allowed string) ranked {
	return ranked{file: v.file, Fault: Fault{
		File:    v.b.files[v.file].Name,
		Line:    v.node.Line,
		Column:  v.node.Column,
		Field:   v.path,
		Problem: problem,
		Allowed: allowed,
	}}
}

// place returns file:line, for faults that name two places.
func (v value) place() string {
	return v.b.files[v.file].Name + ":" + strconv.Itoa(v.node.Line)
}

// child names a part of v. The root has no name, so its fields stand alone.
func (v value) child(name string, node *yaml.Node) value {
	if v.path != "" {
		name = v.path + "." + name
	}
	return value{b: v.b, file: v.file, path: name, node: node}
}

// plain refuses what could make a small file large or a value something else than it
// looks: aliases, anchors and tags.
func (v value) plain() bool {
	switch {
	case v.node.Kind == yaml.AliasNode:
		v.refuse("*"+v.node.Value+" is an alias", "the value itself")
	case v.node.Anchor != "":
		v.refuse("&"+v.node.Anchor+" is an anchor", "the value without it")
	case v.node.Style&yaml.TaggedStyle != 0:
		v.refuse(v.node.Tag+" is a tag", "the value without it")
	default:
		return true
	}
	return false
}

// object reads a mapping, and refuses keys that are unknown or given twice. Empty is the
// empty mapping.
func (v value) object(names ...string) (object, bool) {
	return v.mapping(strings.Join(names, ", "), func(key value) bool {
		if slices.Contains(names, key.node.Value) {
			return true
		}
		key.refuse("unknown field", strings.Join(names, ", "))
		return false
	})
}

// mapping reads a mapping whose keys pass the check.
func (v value) mapping(allowed string, check func(key value) bool) (object, bool) {
	o := object{value: v, fields: map[string]member{}}
	if !v.plain() {
		return o, false
	}
	if v.empty() {
		return o, true
	}
	if v.node.Kind != yaml.MappingNode {
		v.refuse(v.describe(), "a mapping of "+allowed)
		return o, false
	}
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		key, val := v.node.Content[i], v.node.Content[i+1]
		at := v.child(keyName(key), key)
		if key.Kind != yaml.ScalarNode {
			at.refuse("a key that is not a word", allowed)
			continue
		}
		if !at.plain() {
			continue
		}
		if first, twice := o.fields[key.Value]; twice {
			at.refuse("is given twice; first at "+first.key.place(), "one value")
			continue
		}
		if check(at) {
			o.fields[key.Value] = member{value: v.child(keyName(key), val), key: at}
		}
	}
	return o, true
}

// keyName returns a key as a part of a field path, short enough to be read.
func keyName(key *yaml.Node) string {
	if key.Kind != yaml.ScalarNode {
		return "?"
	}
	return segment(shorten(key.Value))
}

// get returns a field that is there, if only with nothing behind its colon.
func (o object) get(name string) (value, bool) {
	m, ok := o.fields[name]
	return m.value, ok
}

// need is get for a required field.
func (o object) need(name, allowed string) (value, bool) {
	m, ok := o.fields[name]
	if !ok {
		o.child(name, o.node).refuse("is missing", allowed)
	}
	return m.value, ok
}

// list calls each for the items of a sequence. Empty is the empty sequence.
func (v value) list(allowed string, each func(item value)) {
	if !v.plain() || v.empty() {
		return
	}
	if v.node.Kind != yaml.SequenceNode {
		v.refuse(v.describe(), "a list of "+allowed)
		return
	}
	for i, n := range v.node.Content {
		each(value{b: v.b, file: v.file, path: v.path + "[" + strconv.Itoa(i) + "]", node: n})
	}
}

// empty reports a field with nothing behind its colon, as when all items of a list are
// commented out.
func (v value) empty() bool {
	return v.node.Kind == yaml.ScalarNode && v.node.ShortTag() == "!!null"
}

// scalar returns a single value as it is written, and its YAML type.
func (v value) scalar(allowed string) (text, tag string, ok bool) {
	if !v.plain() {
		return "", "", false
	}
	if v.node.Kind != yaml.ScalarNode || v.empty() {
		v.refuse(v.describe(), allowed)
		return "", "", false
	}
	return v.node.Value, v.node.ShortTag(), true
}

// describe says what a node of the wrong type is.
func (v value) describe() string {
	switch v.node.Kind {
	case yaml.MappingNode:
		return "is a mapping"
	case yaml.SequenceNode:
		return "is a list"
	}
	shown := shorten(v.node.Value)
	switch v.node.ShortTag() {
	case "!!null":
		return "is empty"
	case "!!int", "!!float":
		return shown + " is a number"
	case "!!bool":
		return shown + " is true or false"
	case "!!timestamp":
		return shown + " is a date"
	}
	return fmt.Sprintf("%q is text", shown)
}

// maxShown is how many bytes of a bad value a fault repeats.
const maxShown = 64

// shorten cuts a long value for people, between two characters.
func shorten(s string) string {
	if len(s) <= maxShown {
		return s
	}
	cut := maxShown
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "..."
}

// segment returns a name as a part of a path: plain, or quoted if it could be misread.
func segment(name string) string {
	for _, r := range name {
		word := r == '_' || r == '-' || (r >= '0' && r <= '9') || (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z')
		if !word {
			return strconv.Quote(name)
		}
	}
	if name == "" {
		return `""`
	}
	return name
}
