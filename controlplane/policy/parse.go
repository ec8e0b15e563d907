package policy

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/quotalease/quotalease/ledger/quota"
)

// File is the text of one policy file, and the name by which people know it.
type File struct {
	Name string
	Text []byte
}

// Parse reads policy files, which together make one document. A file may hold several YAML
// documents. The error is Faults, and then there is no document. An override that has
// expired at now is a fault; a zero now accepts it, because it lapses by itself and stored
// versions must stay readable.
func Parse(files []File, now time.Time) (*Document, error) {
	b := &builder{now: now, doc: &Document{}, first: map[string]value{}, plans: map[string]bool{}}
	total := 0
	for _, f := range files {
		f.Text = normalise(f.Text)
		total += len(f.Text) // as stored, so that a stored text is never too large to read
		b.files = append(b.files, f)
	}
	if total > MaxTotalBytes {
		return nil, Faults{{File: files[0].Name, Problem: fmt.Sprintf("all files are %d bytes together", total),
			Allowed: fmt.Sprintf("at most %d", MaxTotalBytes)}}
	}
	for i := range b.files {
		b.readFile(i)
	}
	b.crossCheck()
	if len(b.faults) > 0 {
		return nil, sorted(b.faults)
	}
	b.finish()
	return b.doc, nil
}

// builder gathers one document and everything that is wrong with it.
type builder struct {
	now       time.Time
	files     []File
	doc       *Document
	faults    []ranked
	warnings  []ranked
	locals    locals           // where they are named and referred to
	first     map[string]value // where each thing that may exist once was given
	plans     map[string]bool  // plans that some dimension gives a limit
	planRefs  []value          // where a plan is named
	overrides []value          // where an override names its tenant
	takings   []taking         // where an operation names a dimension

	describing []*describing // descriptors
}

// normalise makes a text one that may be joined with others: no byte order mark, and a
// line break at the end.
func normalise(text []byte) []byte {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(slices.Clip(text), '\n')
	}
	return text
}

func (b *builder) readFile(i int) {
	roots, err := b.files[i].Documents()
	for _, root := range roots {
		b.root(value{b: b, file: i, node: root})
	}
	var fault Fault
	if errors.As(err, &fault) {
		b.faults = append(b.faults, ranked{file: i, Fault: fault})
	}
}

// unreadable returns the first line that YAML would refuse without saying where. A line
// that begins with % is a directive; those cannot be joined with other files.
func unreadable(text []byte) (line int, problem string) {
	for rest := text; len(rest) > 0; {
		line++
		row, after, _ := bytes.Cut(rest, []byte("\n"))
		if !utf8.Valid(row) {
			return line, "is not UTF-8"
		}
		for _, r := range string(row) {
			if (r < 0x20 && r != '\t' && r != '\r') || (r >= 0x7f && r < 0xa0) || r == 0xfeff {
				return line, fmt.Sprintf("holds the control character %U", r)
			}
		}
		if bytes.HasPrefix(row, []byte("%")) {
			return line, "begins with %, a YAML directive"
		}
		rest = after
	}
	return 0, ""
}

var (
	syntaxLine   = regexp.MustCompile(`^line ([0-9]+): `)
	countsFrom0  = regexp.MustCompile(`^did not find expected (<|node content|key$|'-' indicator|',' or)`)
	unknownAlias = regexp.MustCompile(`^unknown anchor '([^']*)'`)
)

// syntaxFault says where the YAML library stopped. The library counts lines from 0 for what
// its parser refuses, and from 1 for what its scanner does. It names no line if that is the
// first one, nor for an alias without an anchor.
func syntaxFault(text []byte, err error) (line int, problem string) {
	problem = strings.TrimPrefix(err.Error(), "yaml: ")
	if m := syntaxLine.FindStringSubmatch(problem); m != nil {
		line, _ = strconv.Atoi(m[1]) // digits, by the pattern
		problem = problem[len(m[0]):]
		if countsFrom0.MatchString(problem) {
			line++
		}
		return line, problem
	}
	line = 1
	if m := unknownAlias.FindStringSubmatch(problem); m != nil {
		before, _, found := bytes.Cut(text, []byte("*"+m[1]))
		if found {
			line += bytes.Count(before, []byte("\n"))
		}
	}
	return line, problem
}

// once refuses the second of a thing that may exist once in all files, naming both places.
func (b *builder) once(v value, id, what string) bool {
	if first, twice := b.first[id]; twice {
		v.refuse(what+" is given twice; first at "+first.place(), "one in all files")
		return false
	}
	b.first[id] = v
	return true
}

func (b *builder) root(v value) {
	o, ok := v.object("unlisted_tenants", "default_plan", "tenants", "dimensions", "operations", "descriptors", "local")
	if !ok {
		return
	}
	if f, ok := o.get("unlisted_tenants"); ok && b.once(f, "unlisted_tenants", "unlisted_tenants") {
		word, _ := f.word("allow", "deny")
		b.doc.DenyUnlisted = word == "deny"
	}
	if f, ok := o.get("default_plan"); ok && b.once(f, "default_plan", "default_plan") {
		b.doc.DefaultPlan = b.planRef(f)
	}
	if f, ok := o.get("tenants"); ok {
		f.list("{tenant, plan}", b.tenant)
	}
	if f, ok := o.get("local"); ok {
		f.list("{name, algorithm, limit}", b.local)
	}
	if f, ok := o.get("dimensions"); ok {
		f.list("dimensions", b.dimension)
	}
	if f, ok := o.get("operations"); ok {
		f.list("{name, takes, outage, on_deny, defer}", b.operation)
	}
	if f, ok := o.get("descriptors"); ok {
		f.list("{domain, match, dimension}", b.descriptor)
	}
}

func (b *builder) tenant(v value) {
	if len(b.doc.Tenants) == MaxTenants {
		b.tooMany(v, "tenants", MaxTenants)
		return
	}
	t := Tenant{}
	o, ok := v.object("tenant", "plan")
	if !ok {
		return
	}
	if f, ok := o.need("tenant", "the tenant's name"); ok {
		if t.Name, ok = f.name(quota.ValidateTenant); ok {
			b.once(f, "tenant "+t.Name, "tenant "+segment(t.Name))
		}
	}
	if f, ok := o.get("plan"); ok {
		t.Plan = b.planRef(f)
	}
	b.doc.Tenants = append(b.doc.Tenants, t)
}

// planRef reads the name of a plan that some dimension has to know, which is checked when
// all files are read.
func (b *builder) planRef(v value) string {
	name, ok := v.name(validatePlan)
	if ok {
		b.planRefs = append(b.planRefs, v)
	}
	return name
}

// tooMany is said once; the items behind it are not read.
func (b *builder) tooMany(v value, what string, most int) {
	if _, said := b.first["too many "+what]; !said {
		b.first["too many "+what] = v
		v.refuse("too many "+what, fmt.Sprintf("at most %d", most))
	}
}

// validatePlan accepts the names that dimensions may have.
func validatePlan(name string) error { return quota.ValidateDimension(name) }

// finish puts the document into its one order.
func (b *builder) finish() {
	d := b.doc
	d.files, d.checked = b.files, b.now
	d.Warnings = sorted(b.warnings)
	slices.SortFunc(d.Locals, func(x, y *Local) int { return cmp.Compare(x.Name, y.Name) })
	slices.SortFunc(d.Tenants, func(x, y Tenant) int { return cmp.Compare(x.Name, y.Name) })
	slices.SortFunc(d.Dimensions, func(x, y *Dimension) int { return cmp.Compare(x.Name, y.Name) })
	slices.SortFunc(d.Operations, func(x, y *Operation) int { return cmp.Compare(x.Name, y.Name) })
	sortDescriptors(d.Descriptors)
	for _, dim := range d.Dimensions {
		slices.SortFunc(dim.Plans, func(x, y Plan) int { return cmp.Compare(x.Name, y.Name) })
		slices.SortFunc(dim.Overrides, func(x, y *Override) int { return cmp.Compare(x.Tenant, y.Tenant) })
	}
}
