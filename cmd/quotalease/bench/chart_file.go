package bench

import (
	"fmt"
	"html"
	"io"
	"strings"
)

// fileStyle is the page's, for a drawing that stands alone.
const fileStyle = `<style>
text { font: 11.5px system-ui, sans-serif; fill: #5d656f; } text.name { fill: #1c2024; font-size: 13px; }
.bar.c0 { fill: #2f6fdb; } .bar.faint { fill: #c5ccd6; } text.c0, text.faint { paint-order: stroke; stroke: #fff; stroke-width: 4px; }
text.in { stroke-width: 2.5px; } text.c0.in { fill: #fff; stroke: #2f6fdb; } text.faint.in { fill: #1c2024; stroke: #c5ccd6; }
.reach { stroke: #c02b3c; stroke-width: 1.4; stroke-dasharray: 4 3; fill: none; } .grid { stroke: #e3e5e8; fill: none; }
.line { fill: none; stroke-width: 1.8; } .line.c0 { stroke: #2f6fdb; } .line.c1 { stroke: #d9772b; } .line.c2 { stroke: #2c9a72; }
.dot.c0, .key.c0 { fill: #2f6fdb; } .dot.c1, .key.c1 { fill: #d9772b; } .dot.c2, .key.c2 { fill: #2c9a72; }
</style>`

// The measures of the file: above each part is its title.
const (
	fileMargin = 12.0
	fileTitle  = 34.0
)

// WriteChart draws the figures beside their yardsticks, and what decisions cost as they grow, as a
// file of its own.
func (r *Report) WriteChart(w io.Writer) error {
	var b strings.Builder
	y := fileMargin
	part := func(title, drawing string) {
		height := 0.0
		if _, err := fmt.Sscanf(drawing, `<svg viewBox="0 0 900 %f"`, &height); err != nil {
			return // there is nothing to draw
		}
		fmt.Fprintf(&b, "<text class=\"name\" x=\"0\" y=\"%.0f\">%s</text>\n", y+16, html.EscapeString(title))
		y += fileTitle
		fmt.Fprintf(&b, "<svg y=\"%.0f\" width=\"%.0f\" height=\"%.0f\" %s\n", y, chartWidth, height, strings.TrimPrefix(drawing, "<svg "))
		y += height + fileMargin
	}
	part("Ours above, its yardstick below; the dashed line is where ours is meant to be, or to stay below", chart(r.Figures, r.Rows()))
	for _, g := range r.Growth {
		if g.Scene == growDecisions && len(g.Points) > 1 {
			f := g.chart()
			part("The ledger as decisions on the same keys grow, by second, as multiples of the first; the dashed line grows as they do", string(f.SVG))
			for i, l := range f.Legend {
				x := plotLeft + float64(i)*180
				fmt.Fprintf(&b, `<rect class="key %s" x="%.0f" y="%.0f" width="14" height="3"/><text x="%.0f" y="%.0f">%s</text>`, l.Class, x, y-24, x+20, y-19, html.EscapeString(l.Text))
			}
		}
	}
	if b.Len() == 0 {
		return fmt.Errorf("draw the figures: nothing that was measured is in the chart; allowed: scenes with a yardstick, or growth: decisions")
	}
	_, err := fmt.Fprintf(w, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"-16 0 932 %.0f\">%s\n<rect x=\"-16\" width=\"932\" height=\"100%%\" fill=\"#fff\"/>\n%s</svg>\n", y, fileStyle, b.String())
	if err != nil {
		return fmt.Errorf("write the chart of the benchmark: %w", err)
	}
	return nil
}
