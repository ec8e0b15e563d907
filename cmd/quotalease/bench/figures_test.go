package bench

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"
)

// some is a report of which every figure was measured.
func some() *Report {
	var results []Result
	add := func(scene, subject string, s Sample) {
		results = append(results, Result{Scene: scene, Subject: subject, Workers: 1, Per: 1, Median: s, Rounds: []Sample{s}})
	}
	add(hotScene, ours, Sample{70_000, 2, 4.5, 8})
	add(hotScene, oursByRPC, Sample{11_000, 9, 30, 20})
	add(hotScene, naive, Sample{2_000, 40, 90, 400})
	add(manyScene, ours, Sample{50_000, 3, 6, 12})
	add(manyScene, naive, Sample{10_000, 9, 30, 130})
	add(manyScene, alike, Sample{110_000, 0, 0, 0})
	add(manyScene, narrow, Sample{200_000, 0, 0, 0})
	add(manyScene, oursByMany, Sample{70_000, 0, 0, 0})
	add(loneScene, ours, Sample{1_500, 0.6, 1, 300})
	add(loneScene, single, Sample{6_000, 0.15, 0.3, 68})
	add(exactScene, oursByAgent, Sample{40_000, 1.5, 3, 10})
	add(exactScene, update, Sample{3_500, 17, 38, 340})
	r := &Report{When: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), Rounds: 5, Time: "2s", Batch: 64, Results: results,
		Machine: Machine{CPU: `Some "CPU" <b>`, CPUs: 2, Go: "go1.26", OS: "linux", Arch: "amd64", Load: "0.1", Postgres: "15", Settings: "fsync=on"},
		Steady:  []Steady{{Agents: 1, Budget: "1 %", Rate: 2000, Each: 1600}, {Agents: 24, Budget: "10 %", Rate: 2000, Each: 400}}}
	r.Figures = append(judge(figures(), results), judgeSteady(r.Steady)...)
	grew := grownReport()
	r.Growth, r.Edge, r.Restarts = grew.Growth, grew.Edge, grew.Restarts
	return r
}

func TestFiguresAreHeldToTheirReach(t *testing.T) {
	t.Parallel()
	var told []string
	for _, r := range some().Rows() {
		told = append(told, strings.Join([]string{r.Figure, r.Ours, r.Its, r.Yardstick, r.Ratio, r.Reach, r.Reached}, " | "))
	}
	want := []string{
		"grants on one hot key, 256 askers | 70,000/s | 2,000/s | a transaction a grant | 35.0x | >= 30x | yes",
		"p99 of a grant, one hot key | 4.50 ms | 90.00 ms | a transaction a grant | 0.05x | <= 5 ms | yes",
		"grants on one hot key, an RPC each | 11,000/s | 2,000/s | a transaction a grant | 5.50x | >= 5x | yes",
		"p99 of a grant, one hot key, an RPC each | 30.00 ms | 90.00 ms | a transaction a grant | 0.33x |  | ",
		"Postgres CPU a grant, one hot key | 8.00 us | 400 us | a transaction a grant | 0.02x | <= 0.1x | yes",
		"grants over 10,000 keys, 256 askers | 50,000/s | 10,000/s | a transaction a grant | 5.00x | >= 5x | yes",
		"grants over 10,000 keys, rows alike | 50,000/s | 110,000/s | the same rows, written plainly | 0.45x | >= 0.5x | no",
		"grants over 10,000 keys, narrow rows | 50,000/s | 200,000/s | rows of six fields, written plainly | 0.25x |  | ",
		"grants over 10,000 keys, 16 keys a Sync | 70,000/s | 10,000/s | a transaction a grant | 7.00x |  | ",
		"p99 of a grant, 10,000 keys | 6.00 ms | 30.00 ms | a transaction a grant | 0.20x |  | ",
		"Postgres CPU a grant, 10,000 keys | 12.00 us | 130 us | a transaction a grant | 0.09x |  | ",
		"p50 of a lone grant | 0.60 ms | 0.15 ms | an INSERT of one row | 4.00x | <= 3x | no",
		"exact lane, 64 callers on one key | 40,000/s | 3,500/s | an UPDATE a decision | 11.4x | >= 10x | yes",
		"p99 of an exact decision | 3.00 ms | 38.00 ms | an UPDATE a decision | 0.08x |  | ",
		"decisions a commit, 2000/s, N = 1, B = 1 % | 1,600 |  |  |  | >= 1,000 | yes",
		"decisions a commit, 2000/s, N = 24, B = 10 % | 400 |  |  |  |  | ",
	}
	if got := strings.Join(told, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

func TestWhatWasNotMeasuredIsNoFigure(t *testing.T) {
	t.Parallel()
	r := some()
	var left []Result
	for _, x := range r.Results {
		if x.Subject != naive {
			x.Median.CPUus = 0 // of somebody else's server
			left = append(left, x)
		}
	}
	for _, v := range judge(figures(), left) {
		if v.Yardstick == naive || v.Unit == "us" || v.Its == 0 {
			t.Errorf("%+v", v)
		}
	}
}

var outside = regexp.MustCompile(`(?i)(<script|<link|<img|<iframe|@import|url\(|\bsrc=|\bhref=|https?://)`)

func TestThePageStandsAlone(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]*Report{"full": some(), "empty": {}} {
		var page bytes.Buffer
		if err := r.WritePage(&page); err != nil {
			t.Fatal(err)
		}
		if found := outside.FindString(page.String()); found != "" {
			t.Errorf("%s: the page has %q", name, found)
		}
		if strings.Contains(page.String(), "<b>") {
			t.Errorf("%s: the machine's name is not text", name)
		}
		if drawn := strings.Contains(page.String(), "<svg"); drawn != (name == "full") {
			t.Errorf("%s: a chart: %v", name, drawn)
		}
	}
}

func TestTheChartIsWellFormed(t *testing.T) {
	t.Parallel()
	r := some()
	r.Figures[0].Name, r.Figures[1].Yardstick = `<i>"x"`, "</svg>"
	drawing := chart(r.Figures, r.Rows())
	if bars := count(t, drawing, "rect"); bars != 28 {
		t.Errorf("%d bars, want a pair for each of 14 figures", bars)
	}
	r.Growth[0].Of = `<i>"x"`
	dots := 0
	for _, f := range r.growthFigures() {
		dots += count(t, string(f.SVG), "circle")
	}
	if dots != 3*3+2*2 {
		t.Errorf("%d dots, want one for each number of a size that was measured", dots)
	}
}

// count is how many elements of a name a drawing has, which is to be XML.
func count(t *testing.T, drawing, name string) (n int) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(drawing)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return n
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, drawing)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == name {
			n++
		}
	}
}

func TestTheChartIsAFileOfItsOwn(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	if err := some().WriteChart(&file); err != nil {
		t.Fatal(err)
	}
	// Each of 14 pairs of bars, the ground, and a key for each line of what decisions cost.
	if n := count(t, file.String(), "rect"); n != 28+1+3 {
		t.Errorf("%d rectangles", n)
	}
	if n := count(t, file.String(), "circle"); n != 3*3 {
		t.Errorf("%d dots, want one for each number of three sizes", n)
	}
	alone := strings.Replace(file.String(), "http://www.w3.org/2000/svg", "", 1)
	if found := outside.FindString(alone); found != "" {
		t.Errorf("the file has %q", found)
	}
	if err := (&Report{}).WriteChart(io.Discard); err == nil || !strings.Contains(err.Error(), "allowed: ") {
		t.Errorf("a chart of nothing: %v", err)
	}
}
