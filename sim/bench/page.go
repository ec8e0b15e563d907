package main

import (
	_ "embed"
	"fmt"
	"html"
	"html/template"
	"io"
	"strings"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// chart is one drawing with its title.
type chart struct {
	Title, Text string
	SVG         template.HTML
}

// writePage writes the run as one page that asks for nothing from anywhere.
func (r *report) writePage(w io.Writer) error {
	err := page.Execute(w, struct {
		When    string
		About   []string
		Figures []verdictRow
		Charts  []chart
		Tables  []table
	}{r.When.UTC().Format("2006-01-02 15:04:05"), r.about(), r.verdictRows(), r.charts(), r.tables()})
	if err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// charts are the ratios, each scene, and the memory.
func (r *report) charts() []chart {
	var list []chart
	if len(r.Figures) > 0 {
		list = append(list, chart{"Beside their yardsticks",
			"Ours by its yardstick's, so that shorter is better. The dashed line is where a figure is meant to stay below.", r.ratios()})
	}
	scene := ""
	for _, x := range r.Results {
		if x.Scene == scene {
			continue
		}
		scene = x.Scene
		var bars []bar
		for _, y := range r.Results {
			if y.Scene == scene {
				bars = append(bars, bar{y.Subject, y.Kind, y.NS, fmt.Sprintf("%.1f ns", y.NS)})
			}
		}
		list = append(list, chart{scene, "Nanoseconds by decision, of all goroutines together; median of the rounds.", draw(scene, bars)})
	}
	if len(r.Weights) > 0 {
		var size, cycle []bar
		for _, x := range r.Weights {
			size = append(size, bar{x.Store, x.Kind, x.Bytes, fmt.Sprintf("%.0f B", x.Bytes)})
			cycle = append(cycle, bar{x.Store, x.Kind, x.GCms, fmt.Sprintf("%.1f ms", x.GCms)})
		}
		keys := fmt.Sprintf("%d keys in use", r.Weights[0].Keys)
		list = append(list, chart{"Memory, " + keys, "Bytes of the heap by key.", draw("bytes by key", size)},
			chart{"Garbage collection, " + keys, "A full cycle.", draw("a full cycle", cycle)})
	}
	return list
}

// The measures of a drawing, in its own units; the page scales it.
const (
	chartWidth = 900.0
	barsFrom   = 300.0 // to the left are the names
	barsTo     = 800.0 // to the right is room for a value
	rowHeight  = 22.0
	barHeight  = 14.0
)

// bar is one line of a drawing.
type bar struct {
	name  string
	kind  kind
	value float64
	says  string
}

// draw draws bars on one scale.
func draw(label string, bars []bar) template.HTML {
	most := 0.0
	for _, b := range bars {
		most = max(most, b.value)
	}
	var body strings.Builder
	for i, b := range bars {
		row(&body, float64(i)*rowHeight, b, (barsTo-barsFrom)/most)
	}
	return drawing(label, float64(len(bars))*rowHeight, body.String())
}

func row(body *strings.Builder, y float64, b bar, scale float64) {
	length := max(b.value*scale, 0.8)
	fmt.Fprintf(body, `<text class="name" x="0" y="%.1f">%s</text>`, y+13, html.EscapeString(b.name))
	fmt.Fprintf(body, `<rect class="bar %s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, b.kind, barsFrom, y+2, length, barHeight)
	fmt.Fprintf(body, `<text x="%.1f" y="%.1f">%s</text>`, barsFrom+length+6, y+13, html.EscapeString(b.says))
}

func drawing(label string, height float64, body string) template.HTML {
	return template.HTML(fmt.Sprintf(`<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">%s</svg>`, //nolint:gosec // every text in it is escaped
		chartWidth, height, html.EscapeString(label), body))
}

// mostRatio is where the scale of ratios ends at the least: what is as good as its yardstick is seen.
const mostRatio = 2.0

// ratios draws each figure's ratio on one scale, with the mark that it is meant to stay below.
func (r *report) ratios() template.HTML {
	most := mostRatio
	for _, v := range r.Figures {
		most = max(most, v.Ratio)
	}
	scale := (barsTo - barsFrom) / most
	var body strings.Builder
	for i, v := range r.Figures {
		y := float64(i) * 2 * rowHeight
		class := kind("ours")
		if v.told() == "no" {
			class = "missed"
		}
		if v.Most > 0 {
			fmt.Fprintf(&body, `<path class="reach" d="M%.1f %.1fv%.1f"/>`, barsFrom+v.Most*scale, y, barHeight+9)
		}
		row(&body, y, bar{v.Name, class, v.Ratio, fmt.Sprintf("%.2fx", v.Ratio)}, scale)
		fmt.Fprintf(&body, `<text x="0" y="%.1f">%s</text>`, y+28, html.EscapeString(v.Scene+", beside "+v.Yardstick))
	}
	return drawing("ours by its yardstick's", float64(len(r.Figures))*2*rowHeight, body.String())
}

// verdictRow is a figure in words.
type verdictRow struct {
	Name, Scene, Of, Yardstick, Ours, Its, Ratio, CPU, Reach, Reached string
}

func (r *report) verdictRows() []verdictRow {
	var rows []verdictRow
	for _, v := range r.Figures {
		rows = append(rows, verdictRow{v.Name, v.Scene, v.Of, v.Yardstick, fmt.Sprintf("%.1f %s", v.Value, v.Unit), fmt.Sprintf("%.1f %s", v.Base, v.Unit),
			fmt.Sprintf("%.2fx", v.Ratio), told(v.CPURatio), v.reach(), v.told()})
	}
	return rows
}
