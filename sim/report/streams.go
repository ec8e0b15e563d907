package report

import (
	"math"

	"github.com/quotalease/quotalease/sim/scenario"
)

// stretch is how many samples a point of a share is of: those of a window of the first key, if
// there are many windows, for within one a share only falls. Fewer than some are noise.
func stretch(r *scenario.Result) int {
	const least = 8
	windows := of(r, r.Windows[0].Key)
	if len(windows) < least || len(r.Series) < 2 {
		return least
	}
	step := r.Series[1].At - r.Series[0].At
	return max(least, int(math.Round(float64((windows[2].Start-windows[1].Start)/step))))
}

// streams shows what became of each stream of calls, where there are several, and the work that
// ran, where there was any.
func streams(s *scenario.Scenario, r *scenario.Result) []figure {
	var figures []figure
	if len(r.Demands) > 1 {
		figures = append(figures, shares(s, r))
	}
	for i, d := range r.Demands {
		if d.RunningMost > 0 {
			figures = append(figures, running(s, r, i))
		}
	}
	return figures
}

// shares shows how large a part of each stream's calls was allowed, over time.
func shares(s *scenario.Scenario, r *scenario.Result) figure {
	c := overTime("share of calls that were allowed over time, by stream", s, 100)
	c.yWords = func(v float64) string { return trim(v) + " %" }
	f := figure{Title: "Calls that were allowed, stream by stream", Text: "The share of calls that passed, as callers saw it."}
	stretch := stretch(r)
	for i, d := range r.Demands {
		var line []point
		for j := stretch; j < len(d.Series); j += stretch {
			from, to := d.Series[j-stretch], d.Series[j]
			if calls := to.Calls - from.Calls; calls > 0 {
				line = append(line, point{(at(from.At) + at(to.At)) / 2, 100 * float64(to.Allowed-from.Allowed) / float64(calls)})
			}
		}
		c.line(colour(i), line)
		f.Legend = append(f.Legend, legend{colour(i), d.Name})
	}
	f.SVG = c.svg()
	return f
}

// running shows how many slots one stream's work had in use.
func running(s *scenario.Scenario, r *scenario.Result, i int) figure {
	d := r.Demands[i]
	var line, zero []point
	for _, x := range d.Series {
		line, zero = append(line, point{at(x.At), float64(x.Running)}), append(zero, point{at(x.At), 0})
	}
	limit := int64(-1)
	for _, w := range of(r, s.Demand[i].Key.String()) {
		limit = max(limit, w.Limit)
	}
	c := overTime("slots in use over time", s, 1.02*float64(max(d.RunningMost, limit)))
	c.area(colour(i), zero, line)
	f := figure{Title: "Work of " + d.Name + " that runs", Text: "Slots in use. What runs is never cut: it ends when its work does.", Legend: []legend{{colour(i), "in use"}}}
	if limit >= 0 {
		c.line("limit", []point{{0, float64(limit)}, {s.Duration.Seconds(), float64(limit)}})
		f.Legend = append(f.Legend, legend{"limit", "limit"})
	}
	f.SVG = c.svg()
	return f
}
