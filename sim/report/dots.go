package report

import (
	"fmt"
	"html"
	"strings"
)

// dot is a point with a name.
type dot struct {
	class, words string
	x, y         float64 // in the drawing
}

func (c *chart) dot(class string, p point, words string) {
	c.dots = append(c.dots, dot{class, words, c.px(p.x), c.py(p.y)})
}

// box is a rectangle of the drawing.
type box struct{ x0, y0, x1, y1 float64 }

func (b box) meets(o box) bool { return b.x0 < o.x1 && o.x0 < b.x1 && b.y0 < o.y1 && o.y0 < b.y1 }

func (d dot) box() box { return box{d.x - 5, d.y - 5, d.x + 5, d.y + 5} }

// radius of a dot, and the room of a letter and a line.
const radius, letter, lineOf = 4.5, 6.6, 12.0

// places are where a dot's name may stand, the best first.
func (d dot) places() []box {
	w := letter * float64(len([]rune(d.words)))
	at := func(x, y float64) box { return box{x, y, x + w, y + lineOf} }
	return []box{
		at(d.x+5, d.y-6-lineOf), at(d.x+8, d.y-lineOf/2), at(d.x-5-w, d.y-6-lineOf), at(d.x-8-w, d.y-lineOf/2), at(d.x-w/2, d.y+8),
	}
}

// dotted draws the dots and beside each its name, where that covers no other dot or name. A name
// without room shows when one points at the dot. The last dot is drawn on top and named first.
func (c *chart) dotted() string {
	var b strings.Builder
	taken := make([]box, len(c.dots))
	for i, d := range c.dots {
		taken[i] = d.box()
		fmt.Fprintf(&b, `<circle class="dot %s" cx="%.1f" cy="%.1f" r="%.1f"><title>%s</title></circle>`, d.class, d.x, d.y, radius, html.EscapeString(d.words))
	}
	for i := len(c.dots) - 1; i >= 0; i-- {
		d := c.dots[i]
		for _, at := range d.places() {
			if at.x0 < left || at.x1 > width || at.y0 < 0 || at.y1 > height-below+2 || meetsAny(at, taken) {
				continue
			}
			taken = append(taken, at)
			fmt.Fprintf(&b, `<text class="mark" x="%.1f" y="%.1f">%s</text>`, at.x0, at.y1-2, html.EscapeString(d.words))
			break
		}
	}
	return b.String()
}

func meetsAny(b box, others []box) bool {
	for _, o := range others {
		if b.meets(o) {
			return true
		}
	}
	return false
}
