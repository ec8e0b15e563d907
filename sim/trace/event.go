package trace

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Event is one recorded request: who asked, for what, when, and at what cost.
type Event struct {
	At        time.Time
	Tenant    string
	Dimension string
	Cost      quota.Units
}

// Format says how a trace is written.
type Format string

// The formats. Auto is the zero value: the name decides, else the first lines do.
const (
	Auto      Format = ""
	AccessLog Format = "access-log" // common or combined access log, or a prefix of it
	CSV       Format = "csv"        // comma-separated values under a header row
)

var errFormat = &quota.FieldError{Field: "--format", Allowed: "auto, access-log or csv"}

// ParseFormat reads a format as a command line writes it.
func ParseFormat(s string) (Format, error) {
	switch f := Format(s); f {
	case AccessLog, CSV:
		return f, nil
	case Auto, "auto":
		return Auto, nil
	}
	return Auto, errFormat
}

// formatOfName tells the format by a file's name, or returns Auto.
func formatOfName(name string) Format {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".csv":
		return CSV
	case ".log":
		return AccessLog
	}
	return Auto
}

// Options say how to read a trace. The zero value suits access logs, and CSV whose columns
// have the default names.
type Options struct {
	Name    string  // the file's name, a hint for Format; may be empty
	Format  Format  // overrides what Name and the contents suggest
	Columns Columns // for CSV only
}

// KeptProblems is how many malformed lines a Summary describes; the others are counted.
const KeptProblems = 5

// Problem is one line that is no event, and why.
type Problem struct {
	Line int
	What string
}

func (p Problem) String() string { return fmt.Sprintf("line %d: %s", p.Line, p.What) }

// Summary says what a reader has met so far. Every line is an event, malformed, blank or
// the header of a CSV file.
type Summary struct {
	Format      Format
	Lines       int
	Events      int
	Malformed   int
	Problems    []Problem // the first KeptProblems malformed lines
	First, Last time.Time // the earliest and the latest event
	Tenants     int       // distinct names; counted by Load only, as it takes memory
	Dimensions  int       // likewise
}

func (s *Summary) malformed(what string) {
	s.Malformed++
	if len(s.Problems) < KeptProblems {
		s.Problems = append(s.Problems, Problem{Line: s.Lines, What: what})
	}
}

func (s *Summary) event(e Event) {
	s.Events++
	if s.Events == 1 || e.At.Before(s.First) {
		s.First = e.At
	}
	if s.Events == 1 || e.At.After(s.Last) {
		s.Last = e.At
	}
}
