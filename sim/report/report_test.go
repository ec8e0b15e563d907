package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quotalease/quotalease/sim/scenario"
)

// written runs a scenario and returns its page.
func written(t *testing.T, s *scenario.Scenario) string {
	t.Helper()
	r, err := scenario.Run(t.Context(), s, &scenario.Progress{})
	if err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	if err := Write(&page, r); err != nil {
		t.Fatal(err)
	}
	return page.String()
}

func builtin(t *testing.T, name string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Builtin(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// brief is a scenario of which nothing comes: its demand begins when it ends.
const brief = `name: brief
description: nothing happens <script>alert(1)</script>
params: {size: auto}
duration: 2s
policy: |
  dimensions:
    - {name: exports, kind: period, limit: 10, period: {every: second}, class: hard, lease: {ttl: 1s, grace: 100ms, max: ${size}}}
regions:
  - {name: "</svg><b>eu", agents: 2}
demand:
  - {name: "<i>x</i>", dimension: exports, rate: 1/h}
timeline:
  - {at: 1s, add: {"</svg><b>eu": 1}}
sweep: {param: size, values: [1, auto], ours: auto}
`

func parsed(t *testing.T, text string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Parse("s.yaml", []byte(text), nil, func(string) (io.ReadCloser, error) { return nil, errors.New("no traces") })
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var outside = regexp.MustCompile(`(?i)(<script|<link|<img|<iframe|@import|url\(|\bsrc=|\bhref=|https?://)`)

func TestThePageStandsAlone(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"small-limit", "static-split"} {
		page := written(t, builtin(t, name))
		if found := outside.FindString(page); found != "" {
			t.Errorf("%s: the page has %q", name, found)
		}
		for _, want := range []string{"<h1>" + name + "</h1>", "round trips", "Denials while units were free", "Use over limit and bound"} {
			if !strings.Contains(page, want) {
				t.Errorf("%s: the page lacks %q", name, want)
			}
		}
	}
}

func TestNamesFromAFileAreText(t *testing.T) {
	t.Parallel()
	page := written(t, parsed(t, strings.ReplaceAll(brief, "</svg>", "<svg>")))
	for _, never := range []string{"<script>alert", "<svg><b>eu", "<i>x</i>"} {
		if strings.Contains(page, never) {
			t.Errorf("the page has %q as it stands in the file", never)
		}
	}
}

var svgs = regexp.MustCompile(`(?s)<svg.*?</svg>`)

func TestChartsAreWellFormed(t *testing.T) {
	t.Parallel()
	for _, s := range []*scenario.Scenario{parsed(t, strings.ReplaceAll(brief, "</svg>", "")), builtin(t, "carry-over")} {
		charts := svgs.FindAllString(written(t, s), -1)
		if len(charts) < 4 {
			t.Errorf("%s has %d charts", s.Name, len(charts))
		}
		for _, text := range charts {
			if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
				t.Errorf("%s: a chart has places that are no numbers: %.300s", s.Name, text)
			}
			d := xml.NewDecoder(strings.NewReader(text))
			for {
				if _, err := d.Token(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Errorf("%s: %v in %.300s", s.Name, err, text)
					break
				}
			}
		}
	}
}

func TestNamesOfPointsCoverNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := newChart("points", 0, 10, 10)
		for i, p := range rapid.SliceOfN(rapid.IntRange(0, 120), 1, 12).Draw(t, "points") {
			c.dot("c0", point{float64(p%11) + 0.3, float64(p/11) / 10 * 9}, strings.Repeat("8", 1+i%4))
		}
		drawn := c.dotted()
		if n := strings.Count(drawn, "<circle"); n != len(c.dots) {
			t.Fatalf("%d of %d points are drawn", n, len(c.dots))
		}
		if len(c.dots) == 1 && !strings.Contains(drawn, "<text") {
			t.Fatal("a lone point has no name")
		}
		var names []box
		for _, m := range regexp.MustCompile(`<text class="mark" x="([0-9.]+)" y="([0-9.]+)">(8+)<`).FindAllStringSubmatch(drawn, -1) {
			x, _ := strconv.ParseFloat(m[1], 64)
			y, _ := strconv.ParseFloat(m[2], 64)
			name := box{x + 0.1, y + 2 - lineOf + 0.1, x + letter*float64(len(m[3])) - 0.1, y + 2 - 0.1}
			for _, d := range c.dots {
				if name.meets(d.box()) {
					t.Fatalf("the name at %.0f, %.0f covers the point at %.0f, %.0f", x, y, d.x, d.y)
				}
			}
			if meetsAny(name, names) {
				t.Fatalf("two names meet at %.0f, %.0f", x, y)
			}
			names = append(names, name)
		}
	})
}

func TestScalesEndAtRoundNumbers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ most, end float64 }{{0, 1}, {1, 1}, {1.1, 1.5}, {1.6, 2}, {2.2, 2.5}, {980, 1000}, {1001, 1500}, {4.9e6, 5e6}} {
		if end := ceiling(c.most); end != c.end {
			t.Errorf("a scale up to %g ends at %g, want %g", c.most, end, c.end)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.Float64Range(1e-6, 1e15).Draw(t, "most")
		if end := ceiling(most); end < most*(1-1e-8) || end > most*2.6 {
			t.Fatalf("a scale up to %g ends at %g", most, end)
		}
		d := rapid.Int64Range(1, int64(400*24*time.Hour)).Draw(t, "duration")
		if step := round(time.Duration(d).Seconds() / 9); step <= 0 || time.Duration(d).Seconds()/step > 9.001 {
			t.Fatalf("%s is marked every %g s", time.Duration(d), step)
		}
	})
}
