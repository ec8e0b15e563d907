package bench

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strconv"
	"strings"

	"github.com/quotalease/quotalease/controlplane"
)

// Figure is a chart of what grows, with what belongs to it.
type Figure struct {
	Title, Text string
	Legend      []Legend
	SVG         template.HTML
}

// Legend says what a colour means.
type Legend struct{ Class, Text string }

// The measures of these charts; below is room for the names of both axes.
const (
	plotHeight = 250.0
	plotLeft   = 64.0
	plotRight  = 884.0
	plotTop    = 12.0
	plotFoot   = 214.0
)

// plot places values on a chart whose axes each have a scale: from and to, as logarithms or not.
type plot struct {
	b              strings.Builder
	x0, x1, y0, y1 float64
	log            bool
}

func (p *plot) at(x, y float64) (float64, float64) {
	if p.log {
		x, y = math.Log10(x), math.Log10(y)
	}
	within := func(v, from, to float64) float64 { return (min(max(v, from), to) - from) / max(to-from, 1e-9) }
	return plotLeft + within(x, p.x0, p.x1)*(plotRight-plotLeft), plotFoot - within(y, p.y0, p.y1)*(plotFoot-plotTop)
}

type xy struct{ x, y float64 }

// line draws through the values that there are; on a scale of logarithms there is no 0.
func (p *plot) line(class string, values []xy, dots bool) {
	var path strings.Builder
	var marks strings.Builder
	for _, v := range values {
		if p.log && v.y <= 0 {
			continue
		}
		x, y := p.at(v.x, v.y)
		verb := "L"
		if path.Len() == 0 {
			verb = "M"
		}
		fmt.Fprintf(&path, "%s%.1f %.1f", verb, x, y)
		if dots {
			fmt.Fprintf(&marks, `<circle class="dot %s" cx="%.1f" cy="%.1f" r="3.2"/>`, class, x, y)
		}
	}
	if path.Len() > 0 {
		fmt.Fprintf(&p.b, `<path class="line %s" d="%s"/>%s`, class, path.String(), marks.String())
	}
}

func (p *plot) gridY(y float64, says string) {
	x := plotLeft
	_, at := p.at(1, y)
	fmt.Fprintf(&p.b, `<path class="grid" d="M%.1f %.1fH%.1f"/><text text-anchor="end" x="%.1f" y="%.1f">%s</text>`,
		x, at, plotRight, x-8, at+4, html.EscapeString(says))
}

func (p *plot) gridX(x float64, says string) {
	at, _ := p.at(x, 1)
	anchor := "middle"
	if at > plotRight-30 {
		anchor = "end"
	}
	fmt.Fprintf(&p.b, `<text text-anchor="%s" x="%.1f" y="%.1f">%s</text>`, anchor, at, plotFoot+18, html.EscapeString(says))
}

func (p *plot) svg(label, axis string) template.HTML {
	says := fmt.Sprintf(`%s<text text-anchor="end" x="%.1f" y="%.1f">%s</text>`, p.b.String(), plotRight, plotFoot+33, html.EscapeString(axis))
	return template.HTML(drawing(plotHeight, label, says)) //nolint:gosec // every text in it is escaped
}

// numbers are what is drawn of a point, each as a multiple of what it is at the smallest size.
var numbers = []struct {
	class, name string
	of          func(Point) float64
}{
	{"c0", "transactions that grant", func(p Point) float64 { return p.Commits }},
	{"c1", "Postgres CPU", func(p Point) float64 { return p.CPUms }},
	{"c2", "leases granted", func(p Point) float64 { return p.Grants }},
}

// chart draws how the cost grows with its size: both as multiples of the smallest, on scales of
// logarithms, where what grows as fast as its size is the dashed line, and what is flat is level.
func (g Growth) chart() Figure {
	f := Figure{Title: "As " + g.Of + " grow",
		Text: "By second, as multiples of the first. The dashed line grows as fast as what is below.", Legend: []Legend{}}
	least, most := 1.0, float64(g.Points[len(g.Points)-1].At)/float64(g.Points[0].At)
	lines := make([][]xy, len(numbers))
	for i, n := range numbers {
		base := n.of(g.Points[0])
		if base <= 0 {
			continue
		}
		f.Legend = append(f.Legend, Legend{n.class, n.name})
		for _, p := range g.Points {
			v := n.of(p) / base
			lines[i] = append(lines[i], xy{float64(p.At), v})
			if v > 0 {
				least, most = min(least, v), max(most, v)
			}
		}
	}
	first, last := float64(g.Points[0].At), float64(g.Points[len(g.Points)-1].At)
	p := &plot{log: true, x0: math.Log10(first), x1: math.Log10(last), y0: math.Floor(math.Log10(least) + 1e-9), y1: math.Ceil(math.Log10(most) - 1e-9)}
	for e := p.y0; e <= p.y1; e++ {
		p.gridY(math.Pow(10, e), strconv.FormatFloat(math.Pow(10, e), 'g', -1, 64)+"x")
	}
	for _, at := range g.Points {
		p.gridX(float64(at.At), controlplane.Grouped(int64(at.At)))
	}
	p.line("reach", []xy{{first, 1}, {last, last / first}}, false)
	for i, n := range numbers {
		p.line(n.class, lines[i], true)
	}
	f.SVG = p.svg("what it costs as "+g.Of+" grow", g.Of)
	return f
}

// charts draw the steps across the edge: what is granted, and how long takes lasted.
func (e *Edge) charts() []Figure {
	draw := func(title, text, class string, of func(Moment) float64) Figure {
		most := 1.0
		for _, m := range e.Moments {
			most = max(most, of(m))
		}
		p := &plot{x0: e.Moments[0].At, x1: e.Moments[len(e.Moments)-1].At, y1: rounded(most)}
		for i := range 5 {
			y := p.y1 * float64(i) / 4
			p.gridY(y, strconv.FormatFloat(y, 'g', 4, 64))
		}
		step := max(1, math.Ceil((p.x1-p.x0)/12))
		for x := math.Ceil(p.x0/step) * step; x <= p.x1; x += step { // the edge is one of them
			p.gridX(x, strconv.FormatFloat(x, 'f', 0, 64))
		}
		for _, at := range []float64{-e.LeadS, 0} {
			x, top := p.at(at, p.y1)
			fmt.Fprintf(&p.b, `<path class="reach" d="M%.1f %.1fV%.1f"/>`, x, top, plotFoot)
		}
		line := make([]xy, len(e.Moments))
		for i, m := range e.Moments {
			line[i] = xy{m.At, of(m)}
		}
		p.line(class, line, false)
		return Figure{Title: title, Text: text, SVG: p.svg(title, "seconds from the edge")}
	}
	return []Figure{
		draw("Leases across a window's edge", "Leases granted in a second. The dashed lines are where leases of the next window may first be asked for, and the edge.", "c2",
			func(m Moment) float64 { return m.Grants }),
		draw("Transactions across a window's edge", "Transactions in a second.", "c0", func(m Moment) float64 { return m.Commits }),
		draw("Takes across a window's edge", "The slowest of a hundred takes, in ms.", "c1", func(m Moment) float64 { return m.P99ms }),
	}
}

// rounded is the next number that divides well by four.
func rounded(v float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range []float64{1, 2, 4, 8} {
		if v <= f*unit {
			return f * unit
		}
	}
	return 20 * unit
}

// figures are the charts of all that grows.
func (r *Report) growthFigures() []Figure {
	var list []Figure
	for _, g := range r.Growth {
		if len(g.Points) > 1 && g.Scene != growTenants { // two sizes of the same keys are no curve
			list = append(list, g.chart())
		}
	}
	if r.Edge != nil && len(r.Edge.Moments) > 1 {
		list = append(list, r.Edge.charts()...)
	}
	return list
}
