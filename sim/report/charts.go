package report

import (
	"fmt"
	"html/template"
	"math"
	"time"

	"github.com/quotalease/quotalease/sim/scenario"
)

// figure is a chart with what it says.
type figure struct {
	Title  string
	Text   string
	Legend []legend
	SVG    template.HTML
}

type legend struct{ Class, Words string }

// colours of regions and methods, in turn.
func colour(i int) string { return fmt.Sprintf("c%d", i%6) }

func seconds(v float64) string {
	d := time.Duration(v * float64(time.Second))
	switch {
	case d >= time.Hour:
		return trim(d.Hours()) + " h"
	case d >= 2*time.Minute:
		return trim(d.Minutes()) + " min"
	}
	return trim(d.Seconds()) + " s"
}

// round is the next length of time that people count by.
func round(v float64) float64 {
	for _, step := range []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200} {
		if v <= step {
			return step
		}
	}
	return 86400 * math.Ceil(v/86400)
}

func at(m scenario.Millis) float64 { return float64(m) / 1000 }

// overTime is a chart whose x is the scenario's time, with what happened behind it.
func overTime(label string, s *scenario.Scenario, most float64) *chart {
	c := newChart(label, 0, s.Duration.Seconds(), most)
	c.xWords, c.xStep = seconds, round(s.Duration.Seconds()/9)
	for _, e := range s.Timeline {
		from, to := e.At.Seconds(), (e.At + e.For).Seconds()
		c.band(from, to, e.Note)
	}
	return c
}

// useOverTime shows one method's use of the first key in the window at hand, by region, under
// its limit and bound.
func useOverTime(s *scenario.Scenario, r *scenario.Result) figure {
	most := 0.0
	for _, x := range r.Series {
		sum := 0.0
		for _, u := range x.Used {
			sum += float64(u)
		}
		most = max(most, sum, float64(x.Limit), float64(x.Bound))
	}
	c := overTime("use of the window over time by region, with limit and bound", s, most*1.02)
	lower := make([]point, len(r.Series))
	for i, x := range r.Series {
		lower[i] = point{at(x.At), 0}
	}
	f := figure{Title: "Use over limit and bound", Text: "Units used so far in the window at hand, one region on top of the other. The limit and the bound are lines."}
	for region := range s.Regions {
		upper := make([]point, len(r.Series))
		for i, x := range r.Series {
			upper[i] = point{lower[i].x, lower[i].y + float64(x.Used[region])}
		}
		c.area(colour(region), lower, upper)
		lower = upper
		f.Legend = append(f.Legend, legend{colour(region), "used in " + s.Regions[region].Name})
	}
	var limit, bound, exposed []point
	for i, x := range r.Series {
		if x.Limit >= 0 {
			limit = append(limit, point{at(x.At), float64(x.Limit)})
		}
		if x.Bound >= 0 {
			bound = append(bound, point{at(x.At), float64(x.Bound)})
		}
		exposed = append(exposed, point{at(x.At), lower[i].y + float64(x.Held)})
	}
	c.line("held", exposed)
	c.line("bound", bound)
	c.line("limit", limit)
	f.Legend = append(f.Legend, legend{"limit", "limit"}, legend{"bound", "bound"}, legend{"held", "used and held"})
	f.SVG = c.svg()
	return f
}

// useByWindow compares the methods, window by window.
func useByWindow(r *scenario.Report) figure {
	s := r.Scenario
	key := r.Results[0].Windows[0].Key
	most := 0.0
	for _, m := range r.Results {
		for _, w := range m.Windows {
			if w.Key == key {
				most = max(most, float64(w.Used), float64(w.Limit))
			}
		}
	}
	c := overTime("units used in each window by each method", s, most*1.02)
	f := figure{Title: "Use by window, method by method", Text: "Units that callers were allowed in each window of " + key + ", on the same demand."}
	var limit []point
	for i, m := range r.Results {
		var line []point
		windows := of(m, key)
		for j, w := range windows {
			end := s.Duration.Seconds()
			if j+1 < len(windows) {
				end = at(windows[j+1].Start)
			}
			line = append(line, point{at(w.Start), float64(w.Used)}, point{end, float64(w.Used)})
			if i == 0 && w.Limit >= 0 {
				limit = append(limit, point{at(w.Start), float64(w.Limit)}, point{end, float64(w.Limit)})
			}
		}
		if i == 0 {
			c.line("limit", limit)
		}
		c.line(colour(i), line)
		f.Legend = append(f.Legend, legend{colour(i), words(m.Method)})
	}
	f.Legend = append(f.Legend, legend{"limit", "limit"})
	f.SVG = c.svg()
	return f
}

func of(m *scenario.Result, key string) []*scenario.Window {
	var list []*scenario.Window
	for _, w := range m.Windows {
		if w.Key == key {
			list = append(list, w)
		}
	}
	return list
}

// roundTrips shows what the method asked of the control plane.
func roundTrips(s *scenario.Scenario, r *scenario.Result) figure {
	most := 0.0
	for _, x := range r.Spans {
		most = max(most, float64(x.Most))
	}
	c := overTime("round trips of an agent in each window", s, most*1.02)
	for i, x := range r.Spans {
		end := s.Duration.Seconds()
		if i+1 < len(r.Spans) {
			end = at(r.Spans[i+1].Start)
		}
		mean := float64(x.RoundTrips) / max(float64(x.Agents), 1)
		c.bar("faint", at(x.Start), end, 0, float64(x.Most), fmt.Sprintf("at most %d of one agent", x.Most))
		c.bar("c0", at(x.Start), end, 0, mean, fmt.Sprintf("%d round trips, %.2f an agent", x.RoundTrips, mean))
	}
	return figure{Title: "Round trips", Text: "Requests to the control plane in each window: the mean of all agents, and the most of one.",
		Legend: []legend{{"c0", "mean of an agent"}, {"faint", "most of one agent"}}, SVG: c.svg()}
}

// load shows when requests reach the control plane.
func load(s *scenario.Scenario, r *scenario.Result) figure {
	group := max(1, len(r.Load)/300)
	var line []point
	most := 0.0
	for i := 0; i < len(r.Load); i += group {
		peak := int32(0)
		for _, n := range r.Load[i:min(i+group, len(r.Load))] {
			peak = max(peak, n)
		}
		line = append(line, point{float64(i) / 10, float64(peak)})
		most = max(most, float64(peak))
	}
	c := overTime("requests to the control plane in 100 ms", s, most*1.02)
	zero := make([]point, len(line))
	for i, p := range line {
		zero[i] = point{p.x, 0}
	}
	c.area("c0", zero, line)
	return figure{Title: "Load of the control plane", Text: "Requests in 100 ms; where there is not room for all, the most of a stretch.",
		Legend: []legend{{"c0", "requests in 100 ms"}}, SVG: c.svg()}
}

// denials shows who was denied although units were free.
func denials(s *scenario.Scenario, r *scenario.Result) figure {
	key := r.Windows[0].Key
	windows := of(r, key)
	most := 0.0
	for _, w := range windows {
		most = max(most, float64(w.DenialsFree))
	}
	c := overTime("denials in each window while units were free", s, most*1.02)
	for i, w := range windows {
		end := s.Duration.Seconds()
		if i+1 < len(windows) {
			end = at(windows[i+1].Start)
		}
		says := fmt.Sprintf("%d of %d requests denied; %d while units were free, %d of those before 99 %% were used", w.Denials, w.Requests, w.DenialsFree, w.DenialsWhileFree)
		c.bar("faint", at(w.Start), end, 0, float64(w.DenialsFree), says)
		c.bar("warn", at(w.Start), end, 0, float64(w.DenialsWhileFree), says)
	}
	return figure{Title: "Denials while units were free", Text: "Requests of " + key + " that were denied although the account had headroom for them. Once 99 % of the limit is used they are drawn faintly.",
		Legend: []legend{{"warn", "until 99 % of the limit was used"}, {"faint", "after that"}}, SVG: c.svg()}
}

// trade is the curve of lease sizes: what a round trip costs against what an idle unit does.
func trade(r *scenario.Report) figure {
	most, lowest := 0.0, 1.0
	for _, p := range r.Curve {
		most = max(most, p.Result.TripsMean)
		if u := p.Result.Utilisation; !math.IsNaN(u) {
			lowest = min(lowest, u)
		}
	}
	from := 1 - ceiling(max(1-lowest, 0.002)*1.2)
	c := newChart("utilisation against round trips, by lease size", 0, most*1.1, 1)
	c.xName, c.xWords = "round trips of an agent in a window", short
	scale := func(p scenario.Point) point {
		return point{p.Result.TripsMean, (p.Result.Utilisation - from) / (1 - from)}
	}
	var line []point
	for _, p := range r.Curve {
		if !p.Ours && !math.IsNaN(p.Result.Utilisation) {
			line = append(line, scale(p))
		}
	}
	c.line("c0", line)
	for _, p := range r.Curve {
		if !p.Ours && !math.IsNaN(p.Result.Utilisation) {
			c.dot("c0", scale(p), p.Value)
		}
	}
	for _, p := range r.Curve {
		if p.Ours && !math.IsNaN(p.Result.Utilisation) {
			c.dot("warn", scale(p), fmt.Sprintf("ours (%s)", p.Value))
		}
	}
	c.yWords = func(v float64) string { return trim(100*(from+v*(1-from))) + " %" }
	return figure{Title: "Lease size: round trips against utilisation",
		Text:   "One point for each " + words(r.Scenario.Sweep.Param) + ", all at the same safety. A small lease costs round trips, and callers find nothing meanwhile; a large one strands units with agents that do not need them. The best place is the upper left.",
		Legend: []legend{{"c0", "fixed size"}, {"warn", "what the product chooses by itself"}}, SVG: c.svg()}
}
