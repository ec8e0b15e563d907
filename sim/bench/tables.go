package main

import (
	"fmt"
	"strings"
)

// table is some of what was measured, in words.
type table struct {
	Title   string
	Columns []string
	Rows    [][]string
}

// markdown is a table for a document, without the spaces that align it.
func markdown(t table) string {
	var b strings.Builder
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line(t.Columns)
	fmt.Fprintf(&b, "|%s\n", strings.Repeat("---|", len(t.Columns)))
	for _, row := range t.Rows {
		line(row)
	}
	return b.String()
}

// pivot is all scenes over some keys side by side, a line for each subject.
func (r *report) pivot(keys string) table {
	t := table{Columns: []string{"ns/op (CPU ns/op)"}}
	at := map[string]int{}
	for _, x := range r.Results {
		of, by, _ := strings.Cut(x.Scene, ", ")
		if of != keys {
			continue
		}
		if n := len(t.Columns); t.Columns[n-1] != by {
			t.Columns = append(t.Columns, by)
		}
		i, known := at[x.Subject]
		if !known {
			i = len(t.Rows)
			at[x.Subject] = i
			t.Rows = append(t.Rows, []string{x.Subject})
		}
		t.Rows[i] = append(t.Rows[i], fmt.Sprintf("%.0f (%.0f)", x.NS, x.CPU))
	}
	t.Columns = append(t.Columns, "allocs/op")
	for i, row := range t.Rows {
		for _, x := range r.Results {
			if of, _, _ := strings.Cut(x.Scene, ", "); of == keys && x.Subject == row[0] {
				t.Rows[i] = append(row, fmt.Sprintf("%.0f", x.Allocs))
				break
			}
		}
	}
	return t
}

// table is the figures of grants: those beside a yardstick, or those of what grows.
func (g *grants) table(grows bool) table {
	t := table{Columns: []string{"figure", "ours", "its", "yardstick", "ratio", "reach", "reached"}}
	for _, w := range g.Words {
		if w.Grows == grows {
			t.Rows = append(t.Rows, []string{w.Figure, w.Ours, w.Its, w.Yardstick, w.Ratio, w.Reach, w.Reached})
		}
	}
	return t
}

func (g *grants) growthTable() table {
	t := table{Columns: []string{"size", "decisions/s", "leases/s", "transactions/s", "with all reads/s", "Postgres CPU, ms/s", "take p50, ms", "p99, ms"}}
	for _, x := range g.Growth {
		for _, p := range x.Points {
			t.Rows = append(t.Rows, []string{grouped(p.At) + " " + x.Of, fmt.Sprintf("%.0f", p.Decisions), fmt.Sprintf("%.1f", p.Grants),
				fmt.Sprintf("%.1f", p.Commits), fmt.Sprintf("%.1f", p.Uses), fmt.Sprintf("%.0f", p.CPUms), fmt.Sprintf("%.3f", p.P50ms), fmt.Sprintf("%.2f", p.P99ms)})
		}
	}
	return t
}

func (g *grants) edgeTable() table {
	t := table{Columns: []string{"a window's edge", "leases/s", "transactions/s", "take p99, ms", "the worst, ms"}}
	if g.Edge == nil {
		return t
	}
	t.Columns[0] = fmt.Sprintf("%s keys, %s decisions/s", grouped(g.Edge.Keys), grouped(g.Edge.Rate))
	for _, x := range []struct {
		name string
		stretch
	}{{"long before the edge", g.Edge.Steady}, {fmt.Sprintf("the %g s before it", g.Edge.LeadS), g.Edge.Lead}, {"the second after it", g.Edge.After}} {
		t.Rows = append(t.Rows, []string{x.name, fmt.Sprintf("%.0f", x.Grants), fmt.Sprintf("%.0f", x.Commits), fmt.Sprintf("%.2f", x.P99ms), fmt.Sprintf("%.0f", x.Worst)})
	}
	return t
}

func (g *grants) restartTable() table {
	t := table{Columns: []string{"accounts", "leases due", "serves after, ms", "first grant, ms", "heap, MB", "all closed after, ms"}}
	for _, x := range g.Restarts {
		closed := ""
		if x.Due > 0 {
			closed = fmt.Sprintf("%.0f", x.SweptMs)
		}
		t.Rows = append(t.Rows, []string{grouped(x.Accounts), grouped(x.Due), fmt.Sprintf("%.1f", x.ReadyMs), fmt.Sprintf("%.1f", x.GrantMs),
			fmt.Sprintf("%.1f", x.HeapMB), closed})
	}
	return t
}

// grouped writes a number with commas between its thousands.
func grouped(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
