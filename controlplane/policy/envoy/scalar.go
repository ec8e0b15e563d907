package envoy

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// text reads a word. The original takes numbers and truth values for words, as they are
// written, but refuses fractions and what no int64 holds.
func (n node) text() (string, bool) {
	if n.yaml.Kind != yaml.ScalarNode {
		n.refuse(n.describe(), "text")
		return "", false
	}
	if n.empty() {
		return "", true
	}
	switch n.yaml.ShortTag() {
	case "!!float":
		n.refuse(shorten(n.yaml.Value)+" is a fraction", "text (quote it) or a whole number")
		return "", false
	case "!!int":
		if _, err := strconv.ParseInt(strings.ReplaceAll(n.yaml.Value, "_", ""), 0, 64); err != nil {
			n.refuse(shorten(n.yaml.Value)+" leaves the int64 range", "text (quote it) or a smaller number")
			return "", false
		}
	}
	return n.yaml.Value, true
}

// yes and no are the truth values of the YAML that the original reads.
var (
	yes = []string{"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", "y", "Y"}
	no  = []string{"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", "n", "N"}
)

// truth reads true or false. Empty is false.
func (n node) truth() (value, ok bool) {
	plain := n.yaml.Kind == yaml.ScalarNode && n.yaml.Style == 0
	switch {
	case n.empty():
		return false, true
	case plain && slices.Contains(yes, n.yaml.Value):
		return true, true
	case plain && slices.Contains(no, n.yaml.Value):
		return false, true
	}
	n.refuse(n.describe(), "true or false")
	return false, false
}

// number reads an amount of 32 bits. Empty is 0.
func (n node) number(least int64) (int64, bool) {
	allowed := fmt.Sprintf("a whole number from %d to %d", least, uint32(math.MaxUint32))
	if n.empty() && least == 0 {
		return 0, true
	}
	if n.yaml.Kind != yaml.ScalarNode || n.yaml.ShortTag() != "!!int" {
		n.refuse(n.describe(), allowed)
		return 0, false
	}
	i, err := strconv.ParseInt(strings.ReplaceAll(n.yaml.Value, "_", ""), 0, 64)
	if err != nil || i < least || i > math.MaxUint32 {
		n.refuse(shorten(n.yaml.Value)+" is out of range", allowed)
		return 0, false
	}
	return i, true
}

// field calls read for a field that is there.
func (o object) field(name string, read func(f node)) {
	if f, ok := o.fields[name]; ok {
		read(f)
	}
}

// word reads a field that is text, empty if it is not there.
func (o object) word(name string) (s string, ok bool) {
	ok = true
	o.field(name, func(f node) { s, ok = f.text() })
	return s, ok
}

// label is word for what requests carry or a policy names.
func (o object) label(name string, most int) (string, bool) {
	s, ok := o.word(name)
	if ok && (len(s) > most || strings.ContainsFunc(s, unicode.IsControl)) {
		o.fields[name].refuse(fmt.Sprintf("is %d bytes long or holds control characters", len(s)),
			fmt.Sprintf("at most %d bytes without control characters", most))
		return "", false
	}
	return s, ok
}

// flag reads a field that is true or false, false if it is not there.
func (o object) flag(name string) (set bool) {
	o.field(name, func(f node) { set, _ = f.truth() })
	return set
}
