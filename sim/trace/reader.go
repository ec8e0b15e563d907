package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Reader reads one event after the other, in the order in which they were recorded and in
// constant memory. It is not safe for concurrent use.
type Reader struct {
	lines   *lines
	parse   func(line string) (Event, error)
	summary Summary
}

// NewReader tells the format and reads a CSV header. It is an error if the format cannot
// be told or a column cannot be found.
func NewReader(r io.Reader, o Options) (*Reader, error) {
	in := newLines(r)
	format, err := tellFormat(in, o)
	if err != nil {
		return nil, err
	}
	t := &Reader{lines: in, summary: Summary{Format: format}}
	if format == AccessLog {
		if o.Columns != (Columns{}) {
			return nil, &quota.FieldError{Field: "columns", Allowed: "none for an access log; they are for csv"}
		}
		t.parse = parseAccessLine
		return t, nil
	}
	header, err := t.line()
	if errors.Is(err, io.EOF) {
		return nil, &quota.FieldError{Field: "header", Allowed: "a csv trace begins with a row of column names; this one is empty"}
	}
	if err != nil {
		return nil, fmt.Errorf("read header of trace: %w", err)
	}
	rows, err := newRows(header, o.Columns)
	if err != nil {
		return nil, err
	}
	t.parse = rows.parse
	return t, nil
}

// tellFormat takes the first of: what was asked for, the name, the contents.
func tellFormat(in *lines, o Options) (Format, error) {
	switch o.Format {
	case AccessLog, CSV:
		return o.Format, nil
	case Auto:
	default:
		return Auto, errFormat
	}
	if f := formatOfName(o.Name); f != Auto {
		return f, nil
	}
	head, err := in.head()
	if err != nil {
		return Auto, fmt.Errorf("read trace: %w", err)
	}
	if f := formatOfContents(head); f != Auto {
		return f, nil
	}
	return Auto, &quota.FieldError{Field: "--format", Allowed: "access-log or csv; the beginning of this trace looks like neither"}
}

// formatOfContents looks for one good access log line, as such logs may well begin with
// junk; a header has commas on the first line.
func formatOfContents(head []byte) Format {
	all := bytes.Split(head, []byte("\n"))
	for _, line := range all {
		if _, err := parseAccessLine(string(bytes.TrimRight(line, "\r"))); err == nil {
			return AccessLog
		}
	}
	first := slices.IndexFunc(all, func(line []byte) bool { return len(bytes.TrimSpace(line)) > 0 })
	if first >= 0 && bytes.Contains(all[first], []byte(",")) {
		return CSV
	}
	return Auto
}

// line returns the next line that is not blank, and counts the lines that it passes.
func (t *Reader) line() (string, error) {
	for {
		line, err := t.lines.next()
		if errors.Is(err, io.EOF) {
			return "", err
		}
		t.summary.Lines++
		if err != nil || strings.TrimSpace(line) != "" {
			return line, err
		}
	}
}

// Next returns the next event, or io.EOF. Malformed lines are passed over and counted in
// the Summary; any other error comes from the stream itself.
func (t *Reader) Next() (Event, error) {
	for {
		line, err := t.line()
		if errors.Is(err, io.EOF) {
			return Event{}, io.EOF
		}
		if err != nil && !errors.Is(err, errLongLine) {
			return Event{}, fmt.Errorf("read line %d of trace: %w", t.summary.Lines, err)
		}
		var e Event
		if err == nil {
			e, err = t.parse(line)
		}
		if err != nil {
			t.summary.malformed(err.Error())
			continue
		}
		t.summary.event(e)
		return e, nil
	}
}

// Summary returns what has been met so far.
func (t *Reader) Summary() Summary {
	s := t.summary
	s.Problems = slices.Clone(s.Problems)
	return s
}
