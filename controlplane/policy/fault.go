package policy

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Fault is one thing that is wrong in a policy, where it is, and what is allowed there.
// Line and Column begin at 1; 0 means that the file as a whole is meant.
type Fault struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Field   string `json:"field,omitempty"`
	Problem string `json:"problem"`
	Allowed string `json:"allowed,omitempty"`
}

// Error returns one line: file:line: field: problem; allowed: what is.
func (f Fault) Error() string {
	var b strings.Builder
	b.WriteString(f.File)
	if f.Line > 0 {
		b.WriteByte(':')
		b.WriteString(strconv.Itoa(f.Line))
	}
	b.WriteString(": ")
	if f.Field != "" {
		b.WriteString(f.Field)
		b.WriteString(": ")
	}
	b.WriteString(f.Problem)
	if f.Allowed != "" {
		b.WriteString("; allowed: ")
		b.WriteString(f.Allowed)
	}
	return b.String()
}

// Faults is everything that is wrong, in the order of files and lines.
type Faults []Fault

// Error returns one line a fault.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// ranked is a fault with the place of its file, so that faults sort as people read.
type ranked struct {
	Fault
	file int
}

func sorted(found []ranked) Faults {
	slices.SortStableFunc(found, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	faults := make(Faults, len(found))
	for i, r := range found {
		faults[i] = r.Fault
	}
	return faults
}
