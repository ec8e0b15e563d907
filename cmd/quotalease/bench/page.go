package bench

import (
	_ "embed"
	"fmt"
	"html"
	"html/template"
	"io"
	"strings"

	"github.com/quotalease/quotalease/controlplane"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{"grouped": func(n int) string { return controlplane.Grouped(int64(n)) }}).Parse(pageText))

// WritePage writes the report as one page that asks for nothing from anywhere.
func (r *Report) WritePage(w io.Writer) error {
	err := page.Execute(w, struct {
		*Report
		Chart  template.HTML
		Charts []Figure
	}{r, template.HTML(chart(r.Figures, r.Rows())), r.growthFigures()}) //nolint:gosec // every text in it is escaped
	if err != nil {
		return fmt.Errorf("write the page of the benchmark: %w", err)
	}
	return nil
}

// The chart's measures, in its own units; the page scales it.
const (
	chartWidth = 900.0
	barsFrom   = 300.0 // to the left are the names
	barsTo     = 770.0 // to the right is room for a value
	pairHeight = 44.0
	barHeight  = 14.0
)

// chart draws a pair of bars for every figure with a yardstick; what grows has charts of its own. A pair has a scale of its own,
// which ends at the longest of both and of the mark where the figure is meant to be.
func chart(figures []Verdict, rows []Row) string {
	var body strings.Builder
	y := 0.0
	for i, v := range figures {
		if v.Yardstick == "" || v.Grows {
			continue
		}
		mark := markOf(v)
		scale := (barsTo - barsFrom) / max(v.Ours, v.Its, mark)
		fmt.Fprintf(&body, `<text class="name" x="0" y="%.1f">%s</text>`, y+19, html.EscapeString(v.Name))
		bar(&body, "c0", y+4, v.Ours*scale, rows[i].Ours)
		bar(&body, "faint", y+4+barHeight+2, v.Its*scale, rows[i].Its+", "+v.Yardstick)
		if mark > 0 {
			x := barsFrom + mark*scale
			fmt.Fprintf(&body, `<path class="reach" d="M%.1f %.1fv%.1f"><title>%s</title></path>`, x, y+1, 2*barHeight+8, html.EscapeString("meant to be "+rows[i].Reach))
		}
		y += pairHeight
	}
	if y == 0 {
		return ""
	}
	return fmt.Sprintf(`<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="each figure beside its yardstick">%s</svg>`, chartWidth, y, body.String())
}

func bar(b *strings.Builder, class string, y, length float64, says string) {
	fmt.Fprintf(b, `<rect class="bar %s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, class, barsFrom, y, max(length, 0.8), barHeight)
	// A value stands at the end of its bar, or in it where there is no room.
	x, anchor := barsFrom+length+6, "start"
	if length > barsTo-barsFrom-140 {
		x, anchor = barsFrom+length-6, "end"
		class += " in"
	}
	fmt.Fprintf(b, `<text class="%s" text-anchor="%s" x="%.1f" y="%.1f">%s</text>`, class, anchor, x, y+barHeight-3, html.EscapeString(says))
}

// markOf is the value at which a figure is reached; 0 if it is held to nothing.
func markOf(v Verdict) float64 {
	switch {
	case v.Reach == nil:
		return 0
	case v.Reach.Value:
		return max(v.Reach.Least, v.Reach.Most)
	default:
		return max(v.Reach.Least, v.Reach.Most) * v.Its
	}
}

// chartStyle is the page's, for a drawing that stands alone.
const chartStyle = `<style>text { font: 11.5px system-ui, sans-serif; fill: #5d656f; } text.name { fill: #1c2024; font-size: 13px; }
.bar.c0 { fill: #2f6fdb; } .bar.faint { fill: #c5ccd6; } text.c0.in { fill: #fff; } text.faint.in { fill: #1c2024; }
.reach { stroke: #c02b3c; stroke-width: 1.4; stroke-dasharray: 4 3; fill: none; }</style><rect width="100%" height="100%" fill="#fff"/>`

// WriteChart writes the figures beside their yardsticks as a drawing of its own.
func (r *Report) WriteChart(w io.Writer) error {
	drawing := chart(r.Figures, r.Rows())
	if drawing == "" {
		return fmt.Errorf("draw the figures: none of them has a yardstick; allowed: scenes that have one")
	}
	head, body, _ := strings.Cut(drawing, ">")
	if _, err := fmt.Fprintf(w, "%s xmlns=\"http://www.w3.org/2000/svg\">%s%s\n", head, chartStyle, strings.ReplaceAll(body, "</text><rect", "</text>\n<rect")); err != nil {
		return fmt.Errorf("write the chart of the benchmark: %w", err)
	}
	return nil
}
