package report

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"
)

// The size of a chart, in its own units; the page scales it.
const (
	width, height           = 900.0, 260.0
	left, right, top, below = 64.0, 16.0, 14.0, 34.0
)

// chart draws lines, areas, bars and bands over two scales. Colours are classes of the page's
// style: each has a light and a dark form.
type chart struct {
	body   strings.Builder
	notes  strings.Builder // above everything else
	dots   []dot
	x0, x1 float64
	y1     float64
	label  string // for those who cannot see it
	xName  string
	xStep  float64 // between marks
	xWords func(float64) string
	yWords func(float64) string
}

type point struct{ x, y float64 }

func newChart(label string, x0, x1, most float64) *chart {
	if x1 <= x0 {
		x1 = x0 + 1
	}
	return &chart{label: label, x0: x0, x1: x1, y1: ceiling(most), xStep: ceiling((x1 - x0) / 9), xWords: short, yWords: short}
}

// ceiling is the next round number: 1, 1.5, 2, 2.5 or 5 and zeros.
func ceiling(v float64) float64 {
	if v <= 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range []float64{1, 1.5, 2, 2.5, 5, 10} {
		if v <= f*unit*(1+1e-9) {
			return f * unit
		}
	}
	return 10 * unit
}

func (c *chart) px(x float64) float64 {
	return left + (min(max(x, c.x0), c.x1)-c.x0)/(c.x1-c.x0)*(width-left-right)
}

func (c *chart) py(y float64) float64 {
	return height - below - min(max(y, 0), c.y1)/c.y1*(height-top-below)
}

func (c *chart) add(format string, args ...any) { fmt.Fprintf(&c.body, format, args...) }

func (c *chart) path(points []point) string {
	var b strings.Builder
	for i, p := range points {
		verb := 'L'
		if i == 0 {
			verb = 'M'
		}
		fmt.Fprintf(&b, "%c%.1f %.1f", verb, c.px(p.x), c.py(p.y))
	}
	return b.String()
}

func (c *chart) line(class string, points []point) {
	if len(points) > 0 {
		c.add(`<path class="line %s" d="%s"/>`, class, c.path(points))
	}
}

// area fills what lies between two lines with the same places.
func (c *chart) area(class string, lower, upper []point) {
	if len(upper) == 0 {
		return
	}
	back := make([]point, len(lower))
	for i, p := range lower {
		back[len(lower)-1-i] = p
	}
	c.add(`<path class="area %s" d="%s%sZ"/>`, class, c.path(upper), strings.Replace(c.path(back), "M", "L", 1))
}

// bar fills from one height to another.
func (c *chart) bar(class string, from, to, low, high float64, says string) {
	x, y := c.px(from), c.py(high)
	w := max(c.px(to)-x-1, 0.8)
	c.add(`<rect class="bar %s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"><title>%s</title></rect>`,
		class, x, y, w, max(c.py(low)-y, 0), html.EscapeString(says))
}

// band marks a stretch of time behind everything else.
func (c *chart) band(from, to float64, says string) {
	x := c.px(from)
	c.add(`<rect class="band" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, x, top, max(c.px(to)-x, 1.5), height-top-below)
	fmt.Fprintf(&c.notes, `<text class="note" x="%.1f" y="%.1f">%s</text>`, min(x+4, width-right-120), top+11, html.EscapeString(says))
}

// marks is how many steps make the whole scale, so that each ends at a round number.
func marks(y1 float64) int {
	switch first := y1 / math.Pow(10, math.Floor(math.Log10(y1)+1e-9)); {
	case math.Abs(first-1.5) < 1e-6:
		return 3
	case math.Abs(first-2) < 1e-6:
		return 4
	}
	return 5
}

// svg finishes the drawing: the grid goes behind all that was drawn.
func (c *chart) svg() template.HTML {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">`, width, height, html.EscapeString(c.label))
	n := marks(c.y1)
	for i := range n + 1 {
		y := c.y1 * float64(i) / float64(n)
		fmt.Fprintf(&b, `<path class="grid" d="M%.1f %.1fH%.1f"/><text class="tick" text-anchor="end" x="%.1f" y="%.1f">%s</text>`,
			left, c.py(y), width-right, left-8, c.py(y)+4, html.EscapeString(c.yWords(y)))
	}
	for x := c.x0; x <= c.x1+c.xStep/1e6; x += c.xStep {
		anchor := "middle"
		if c.px(x) > width-right-20 {
			anchor = "end"
		}
		fmt.Fprintf(&b, `<text class="tick" text-anchor="%s" x="%.1f" y="%.1f">%s</text>`, anchor, c.px(x), height-below+16, html.EscapeString(c.xWords(x)))
	}
	if c.xName != "" {
		fmt.Fprintf(&b, `<text class="axis" text-anchor="end" x="%.1f" y="%.1f">%s</text>`, width-right, height-4, html.EscapeString(c.xName))
	}
	b.WriteString(c.body.String())
	b.WriteString(c.notes.String())
	b.WriteString(c.dotted())
	b.WriteString("</svg>")
	return template.HTML(b.String()) //nolint:gosec // every text in it was escaped above
}

// short writes a number in little room: 12.5k, 3M.
func short(v float64) string {
	for _, s := range []struct {
		size float64
		unit string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if math.Abs(v) >= s.size {
			return trim(v/s.size) + s.unit
		}
	}
	return trim(v)
}

func trim(v float64) string {
	s := fmt.Sprintf("%.2f", v)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}
