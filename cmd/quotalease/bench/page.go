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
	var beside, grown []Row
	rows := r.Rows()
	for _, row := range rows {
		if row.Grows {
			grown = append(grown, row)
		} else {
			beside = append(beside, row)
		}
	}
	err := page.Execute(w, struct {
		*Report
		Chart         template.HTML
		Charts        []Figure
		Beside, Grown []Row
	}{r, template.HTML(chart(r.Figures, rows)), r.growthFigures(), beside, grown}) //nolint:gosec // every text in it is escaped
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
		bar(&body, "c0", y+4, v.Ours*scale)
		bar(&body, "faint", y+4+barHeight+2, v.Its*scale)
		if mark > 0 {
			x := barsFrom + mark*scale
			fmt.Fprintf(&body, `<path class="reach" d="M%.1f %.1fv%.1f"><title>%s</title></path>`, x, y+1, 2*barHeight+8, html.EscapeString("meant to be "+rows[i].Reach))
		}
		value(&body, "c0", y+4, v.Ours*scale, rows[i].Ours)
		value(&body, "faint", y+4+barHeight+2, v.Its*scale, rows[i].Its+", "+v.Yardstick)
		y += pairHeight
	}
	if y == 0 {
		return ""
	}
	return drawing(y, "each figure beside its yardstick", body.String())
}

func drawing(height float64, label, body string) string {
	return fmt.Sprintf(`<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">%s</svg>`, chartWidth, height, html.EscapeString(label), body)
}

func bar(b *strings.Builder, class string, y, length float64) {
	fmt.Fprintf(b, `<rect class="bar %s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, class, barsFrom, y, max(length, 0.8), barHeight)
}

// value stands at the end of its bar, or in it where there is no room.
func value(b *strings.Builder, class string, y, length float64, says string) {
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
