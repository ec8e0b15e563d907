package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/quotalease/quotalease/controlplane"
)

// Fault is one thing that is wrong with a scenario file.
type Fault struct {
	File    string
	Line    int
	Field   string
	Problem string
	Allowed string
}

func (f Fault) Error() string {
	s := f.File
	if f.Line > 0 {
		s += ":" + strconv.Itoa(f.Line)
	}
	if f.Field != "" {
		s += ":" + f.Field
	}
	s += ": " + f.Problem
	if f.Allowed != "" {
		s += "; allowed: " + f.Allowed
	}
	return s
}

// Faults is everything that is wrong with a file, in its order.
type Faults []Fault

func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, x := range f {
		lines[i] = x.Error()
	}
	return strings.Join(lines, "\n")
}

// MaxFileBytes is the most that a scenario file may hold.
const MaxFileBytes = 1 << 20

// reader gathers what is wrong while a file is read.
type reader struct {
	file   string
	faults Faults
}

// value is one node of the file, and its path.
type value struct {
	r    *reader
	path string
	yaml *yaml.Node
}

func (n value) refuse(problem, allowed string) {
	n.r.faults = append(n.r.faults, Fault{File: n.r.file, Line: n.yaml.Line, Field: n.path, Problem: problem, Allowed: allowed})
}

var syntaxLine = regexp.MustCompile(`^yaml: line ([0-9]+): `)

// parse reads the one YAML document of a file.
func (r *reader) parse(text []byte) (value, bool) {
	refuse := func(line int, problem, allowed string) (value, bool) {
		r.faults = append(r.faults, Fault{File: r.file, Line: line, Problem: problem, Allowed: allowed})
		return value{}, false
	}
	if len(text) > MaxFileBytes {
		return refuse(0, fmt.Sprintf("is %d bytes long", len(text)), fmt.Sprintf("at most %d", MaxFileBytes))
	}
	var doc, more yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&doc); errors.Is(err, io.EOF) {
		return refuse(1, "is empty", "a scenario")
	} else if err != nil {
		line, problem := 1, strings.TrimPrefix(err.Error(), "yaml: ")
		if m := syntaxLine.FindStringSubmatch(err.Error()); m != nil {
			line, _ = strconv.Atoi(m[1]) // digits, by the pattern
			problem = err.Error()[len(m[0]):]
		}
		return refuse(line, problem, "YAML, indented by blanks and not by tabs")
	}
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return refuse(max(more.Line, 1), "more than one document", "one scenario a file")
	}
	root := value{r: r, yaml: doc.Content[0]}
	return root, root.plain()
}

// plain refuses what makes a small file large, or a value something else than it looks.
func (n value) plain() bool {
	ok := true
	var walk func(y *yaml.Node)
	walk = func(y *yaml.Node) {
		if y.Kind == yaml.AliasNode || y.Anchor != "" || y.Style&yaml.TaggedStyle != 0 {
			value{r: n.r, yaml: y}.refuse("is an alias, an anchor or a tag", "the value itself")
			ok = false
			return
		}
		for _, c := range y.Content {
			walk(c)
		}
	}
	walk(n.yaml)
	return ok
}

func (n value) child(name string, y *yaml.Node) value {
	if n.path != "" && !strings.HasPrefix(name, "[") {
		name = "." + name
	}
	return value{r: n.r, path: n.path + name, yaml: y}
}

// fields reads a mapping of known names, each at most once.
func (n value) fields(names ...string) map[string]value {
	found := map[string]value{}
	if n.yaml.Kind != yaml.MappingNode {
		n.refuse("is not a mapping", "a mapping of "+strings.Join(names, ", "))
		return found
	}
	for i := 0; i+1 < len(n.yaml.Content); i += 2 {
		key, value := n.yaml.Content[i], n.yaml.Content[i+1]
		at := n.child(key.Value, key)
		switch _, twice := found[key.Value]; {
		case twice:
			at.refuse("is given twice", "once")
		case len(names) > 0 && !slices.Contains(names, key.Value):
			at.refuse("unknown field", strings.Join(names, ", "))
		default:
			found[key.Value] = n.child(key.Value, value)
		}
	}
	return found
}

func (n value) missing(name, allowed string) {
	n.child(name, n.yaml).refuse("is missing", allowed)
}

// items reads a list.
func (n value) items(allowed string) []value {
	if n.yaml.Kind != yaml.SequenceNode {
		n.refuse("is not a list", "a list of "+allowed)
		return nil
	}
	list := make([]value, len(n.yaml.Content))
	for i, y := range n.yaml.Content {
		list[i] = n.child("["+strconv.Itoa(i)+"]", y)
	}
	return list
}

// text reads a single value as it is written.
func (n value) text(allowed string) (string, bool) {
	if n.yaml.Kind != yaml.ScalarNode || strings.TrimSpace(n.yaml.Value) == "" || n.yaml.Tag == "!!null" {
		n.refuse("is not a value", allowed)
		return "", false
	}
	return n.yaml.Value, true
}

func (n value) word(words ...string) string {
	allowed := strings.Join(words, ", ")
	s, ok := n.text(allowed)
	if ok && !slices.Contains(words, s) {
		n.refuse(fmt.Sprintf("%q is not known", shorten(s)), allowed)
	}
	return s
}

// whole reads a whole number.
func (n value) whole(least, most int64) int64 {
	allowed := fmt.Sprintf("a whole number from %d to %d", least, most)
	s, ok := n.text(allowed)
	if !ok {
		return least
	}
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil || v < least || v > most {
		n.refuse(fmt.Sprintf("%q is not valid", shorten(s)), allowed)
		return least
	}
	return v
}

// number reads a number that is not negative, perhaps with a percent sign.
func (n value) number(allowed string) float64 {
	s, ok := n.text(allowed)
	if !ok {
		return 0
	}
	v, ok := parseNumber(s)
	if !ok {
		n.refuse(fmt.Sprintf("%q is not valid", shorten(s)), allowed)
	}
	return v
}

func parseNumber(s string) (float64, bool) {
	rest, percent := strings.CutSuffix(strings.TrimSpace(s), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
	if percent {
		v /= 100
	}
	return v, err == nil && v >= 0 && v <= 1e15
}

// longest is how long anything in a scenario may be.
const longest = 366 * 24 * time.Hour

// duration reads a length of time.
func (n value) duration(least time.Duration) time.Duration {
	allowed := fmt.Sprintf("a duration like 30s or 5ms, from %s to %s", least, controlplane.Lasting(longest))
	s, ok := n.text(allowed)
	if !ok {
		return least
	}
	d, err := time.ParseDuration(s)
	if s == "0" {
		d, err = 0, nil
	}
	if err != nil || d < least || d > longest {
		n.refuse(fmt.Sprintf("%q is not valid", shorten(s)), allowed)
		return least
	}
	return d
}

// perSecond reads a rate like 3000/s, 2/min or 50/h.
func (n value) perSecond() (rate float64, each bool) {
	const allowed = "calls per time, like 3000/s, 2/min or 50/h; with each behind it for every agent"
	s, ok := n.text(allowed)
	if !ok {
		return 0, false
	}
	rest, each := strings.CutSuffix(s, " each")
	amount, unit, found := strings.Cut(rest, "/")
	v, isNumber := parseNumber(amount)
	per, known := map[string]float64{"s": 1, "min": 60, "h": 3600}[strings.TrimSpace(unit)]
	if !found || !isNumber || !known || v <= 0 {
		n.refuse(fmt.Sprintf("%q is not valid", shorten(s)), allowed)
		return 0, each
	}
	return v / per, each
}

func shorten(s string) string {
	if r := []rune(s); len(r) > 40 {
		return string(r[:40]) + "..."
	}
	return s
}
