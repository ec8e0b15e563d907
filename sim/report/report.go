package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"

	"github.com/quotalease/quotalease/controlplane"
	"github.com/quotalease/quotalease/sim/scenario"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"grouped": controlplane.Grouped,
	"percent": percent,
	"words":   words,
	"ms":      func(m scenario.Millis) string { return fmt.Sprintf("%.1f ms", float64(m)) },
	"seconds": func(m scenario.Millis) string { return seconds(at(m)) },
	"times":   func(v float64) string { return fmt.Sprintf("%.2f", v) },
	"limit":   limit,
}).Parse(pageText))

// view is what the page shows.
type view struct {
	*scenario.Report
	Ours    *scenario.Result
	Checked []check
	Figures []figure
	Lasts   string
	Agents  int
}

type check struct {
	Words, Got string
	Met        bool
}

// Write writes the page.
func Write(w io.Writer, r *scenario.Report) error {
	s, ours := r.Scenario, r.Results[0]
	v := view{Report: r, Ours: ours, Lasts: seconds(s.Duration.Seconds())}
	for _, g := range s.Regions {
		v.Agents += g.Agents
	}
	for _, c := range r.Checks() {
		v.Checked = append(v.Checked, check{fmt.Sprintf("%s %s %g", words(c.Metric), c.Op, c.Value), number(c.Got), c.Met})
	}
	if len(r.Curve) > 0 {
		v.Figures = append(v.Figures, trade(r))
	}
	if len(r.Results) > 1 {
		v.Figures = append(v.Figures, useByWindow(r))
	}
	v.Figures = append(v.Figures, streams(s, ours)...)
	v.Figures = append(v.Figures, useOverTime(s, ours), roundTrips(s, ours), denials(s, ours), load(s, ours))
	if err := page.Execute(w, v); err != nil {
		return fmt.Errorf("write the page of %s: %w", s.Name, err)
	}
	return nil
}

// words makes a name of the program readable.
func words(name string) string { return strings.ReplaceAll(name, "_", " ") }

func percent(v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	return fmt.Sprintf("%.2f %%", 100*v)
}

func number(v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	return fmt.Sprintf("%.4g", v)
}

func limit(n int64) string {
	if n < 0 {
		return "unlimited"
	}
	return controlplane.Grouped(n)
}
