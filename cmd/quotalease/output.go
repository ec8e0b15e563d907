package main

import (
	"encoding/json"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/quotalease/quotalease/controlplane"
)

const (
	formatTable = "table"
	formatJSON  = "json"

	formatMarkdown = "md" // of commands that say so
	extraFormat    = "extra format"
)

// unlimited is the word for no limit; on the wire it is -1.
const unlimited = "unlimited"

// show writes a result: view as JSON for scripts, or what people prints for people.
func (sh *shell) show(view any, people func(w io.Writer) error) error {
	if sh.format != formatJSON {
		return people(sh.out)
	}
	enc := json.NewEncoder(sh.out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(view)
}

// list shows views as rows of a table. An empty one says so on stderr, and a full one that
// there may be more.
func list[V any, R rows](sh *shell, views []V, things string, limit int32, shown func([]V) R) error {
	if limit > 0 && len(views) == int(limit) {
		sh.note("shown are the first %s %s: --limit shows more", controlplane.Grouped(int64(limit)), things)
	}
	return sh.show(views, func(w io.Writer) error {
		if len(views) == 0 {
			sh.note("no %s", things)
			return nil
		}
		return shown(views).write(w)
	})
}

// rows is what people read of a list.
type rows interface{ write(w io.Writer) error }

// tables are several, with a line between. Those without rows are left out.
type tables []*table

func (all tables) write(w io.Writer) error {
	begun := false
	for _, t := range all {
		if len(t.rows) == 0 {
			continue
		}
		if begun {
			if err := writeLines(w, []string{""}); err != nil {
				return err
			}
		}
		begun = true
		if err := t.write(w); err != nil {
			return err
		}
	}
	return nil
}

// each maps a reply's list. The result is never nil: scripts get [], not null.
func each[M, V any](messages []M, view func(M) V) []V {
	views := make([]V, len(messages))
	for i, m := range messages {
		views[i] = view(m)
	}
	return views
}

// table is rows of text in aligned columns; numbers end at the right.
type table struct {
	columns []column
	rows    [][]string
}

type column struct {
	title  string
	number bool
}

func text(title string) column   { return column{title: title} }
func number(title string) column { return column{title: title, number: true} }

func newTable(columns ...column) *table { return &table{columns: columns} }

func (t *table) add(cells ...string) {
	for i, c := range cells {
		cells[i] = printable(c)
	}
	t.rows = append(t.rows, cells)
}

const columnGap = "  "

func (t *table) write(w io.Writer) error {
	titles := make([]string, len(t.columns))
	widths := make([]int, len(t.columns))
	titled := false
	for i, c := range t.columns {
		titles[i] = c.title
		titled = titled || c.title != ""
	}
	all := t.rows
	if titled {
		all = append([][]string{titles}, t.rows...)
	}
	for _, row := range all {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range all {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if t.columns[i].number {
				line.WriteString(pad + cell)
			} else {
				line.WriteString(cell + pad)
			}
			line.WriteString(columnGap)
		}
		if _, err := io.WriteString(w, strings.TrimRight(line.String(), " ")+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// printable quotes text that could move a terminal's cursor: agents choose their own names.
// What is empty shows as a dash, so that columns can still be counted.
func printable(s string) string {
	if s == "" {
		return "-"
	}
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// amount is a wire number that may stand for no limit, as JSON has it: null for no limit.
func amount(n int64) (value *int64, none bool) {
	if n < 0 {
		return nil, true
	}
	return &n, false
}

// grouped writes an amount for people, where nil stands for no limit.
func grouped(n *int64) string {
	if n == nil {
		return unlimited
	}
	return controlplane.Grouped(*n)
}

// instant reads microseconds of the wire, where 0 stands for never.
func instant(us int64) *time.Time {
	if us == 0 {
		return nil
	}
	t := time.UnixMicro(us).UTC()
	return &t
}

// seconds is a duration of the wire in the unit that scripts get.
func seconds(us int64) float64 { return float64(us) / 1e6 }

// lasting writes a duration of the wire for people.
func lasting(us int64) string {
	return controlplane.Lasting(time.Duration(min(us, math.MaxInt64/int64(time.Microsecond))) * time.Microsecond)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
