package main

import (
	"bytes"
	"errors"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestEverySubjectPasses runs each benchmark once, so that none rots: few keys, a moment each.
func TestEverySubjectPasses(t *testing.T) {
	for _, s := range scenes() {
		t.Run(s.name, func(t *testing.T) {
			small := s
			small.keys = min(s.keys, 500)
			results, err := play(small, subjects(), 1, time.Millisecond)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range results {
				if r.NS < 0.2 { // less than a cycle: its loop did nothing
					t.Errorf("%s took %.3f ns", r.Subject, r.NS)
				}
			}
		})
	}
}

// Not parallel: it counts what the whole process allocates.
func TestTakesAllocateNothing(t *testing.T) {
	promised := 0
	for _, sub := range subjects() {
		if !sub.free {
			continue
		}
		promised++
		keys := tenants(1)
		if sub.only == 0 {
			keys = tenants(100)
		}
		o, err := sub.open(keys)
		if err != nil {
			t.Fatal(sub.name, err)
		}
		w := newWalk()
		n := testing.AllocsPerRun(100, func() {
			if err := o.loop(w, 100); err != nil {
				t.Error(sub.name, err)
			}
		})
		if n != 0 {
			t.Errorf("%s: %v allocations in 100 decisions", sub.name, n)
		}
		if err := o.end(); err != nil {
			t.Error(sub.name, err)
		}
	}
	if promised < 3 {
		t.Errorf("%d subjects promise to allocate nothing", promised)
	}
}

func TestADenialSpoilsTheRun(t *testing.T) {
	t.Parallel()
	left := 1000
	stingy := subject{name: "stingy", open: func([]string) (*opened, error) {
		return &opened{loop: func(_ *walk, n int) error {
			if left -= n; left < 0 {
				return errDenied
			}
			return nil
		}}, nil
	}}
	if _, err := play(scene{"one", 1, 1}, []subject{stingy}, 1, time.Millisecond); !errors.Is(err, errDenied) || !strings.Contains(err.Error(), "stingy") {
		t.Errorf("%v, want the subject named that denied", err)
	}
}

// made is a run with made-up results: each subject is a nanosecond slower than the one before.
func made() *report {
	r := &report{When: time.Unix(0, 0), Rounds: 3}
	for _, s := range scenes() {
		ns := 10.0
		for _, sub := range subjects() {
			if sub.only == 0 || sub.only == s.keys {
				r.Results = append(r.Results, result{Scene: s.name, Subject: sub.name, Kind: sub.kind, NS: ns, Rounds: []float64{ns}})
			}
			ns++
		}
	}
	return r
}

func TestEveryFigureIsComputed(t *testing.T) {
	t.Parallel()
	r := made()
	verdicts, err := judge(figures(), r.Results)
	if err != nil {
		t.Fatal(err)
	}
	if len(verdicts) != len(figures()) {
		t.Errorf("%d of %d figures", len(verdicts), len(figures()))
	}
	for _, v := range verdicts {
		if v.Of == v.Yardstick || math.IsNaN(v.Ratio) || v.Ratio <= 0 {
			t.Errorf("%+v", v)
		}
	}
	r.Figures = verdicts
	var out bytes.Buffer
	if err := r.write(&out); err != nil {
		t.Fatal(err)
	}
	for _, f := range figures() {
		if !strings.Contains(out.String(), "| "+f.name) {
			t.Errorf("%q is not in the table", f.name)
		}
	}
	if _, err := judge([]figure{{"a", scenes()[0].name, "nobody", "", 1}}, r.Results); err == nil {
		t.Error("a figure of a subject that was not run")
	}
}

func TestRatiosAreOfMedians(t *testing.T) {
	t.Parallel()
	if m := median([]float64{9, 1, 5}); m != 5 {
		t.Errorf("the median of 1, 5 and 9 is %v", m)
	}
	if m := median([]float64{9, 1, 5, 7}); m != 6 {
		t.Errorf("the median of 1, 5, 7 and 9 is %v", m)
	}
	results := []result{
		{Scene: "s", Subject: "us", Kind: ours, NS: 30},
		{Scene: "s", Subject: "bare", Kind: floor, NS: 20},
		{Scene: "s", Subject: "slow", Kind: peer, NS: 90},
		{Scene: "s", Subject: "fast", Kind: peer, NS: 60},
		{Scene: "other", Subject: "faster", Kind: peer, NS: 1},
	}
	got, err := judge([]figure{
		{"floor", "s", "us", "bare", 1.4}, {"best", "s", "us", "", 0.5}, {"told", "s", "us", "slow", 0}, {"not run", "none", "us", "", 1},
	}, results)
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		by    string
		ratio float64
		told  string
	}{{"bare", 1.5, "no"}, {"fast", 0.5, "yes"}, {"slow", 1.0 / 3, ""}}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i, w := range want {
		if g := got[i]; g.Yardstick != w.by || g.Ratio != w.ratio || g.told() != w.told {
			t.Errorf("%s: %+v, want %+v", g.Name, g, w)
		}
	}
}

// Not parallel: it weighs the heap.
func TestMemoryIsOfKeysInUse(t *testing.T) {
	const keys = 20_000
	var weights []weight
	for _, s := range stores() {
		w, err := weigh(s, keys, 1)
		if err != nil {
			t.Fatal(err)
		}
		weights = append(weights, w)
		if w.Bytes < 64 || w.GCms <= 0 {
			t.Errorf("%s: %.0f bytes a key, a cycle of %.2f ms", w.Store, w.Bytes, w.GCms)
		}
	}
	verdicts, err := judgeMemory(weights)
	if err != nil || len(verdicts) != 2 || !slices.ContainsFunc(verdicts, func(v verdict) bool { return v.Unit == "B/key" && v.Base > 22+64 }) {
		t.Errorf("%+v, %v: the names of keys are 22 bytes, the records 64", verdicts, err)
	}
}

var outside = regexp.MustCompile(`(?i)(<script|<link|<img|<iframe|@import|url\(|\bsrc=|\bhref=|https?://)`)

func TestThePageStandsAlone(t *testing.T) {
	t.Parallel()
	r := made()
	var err error
	if r.Figures, err = judge(figures(), r.Results); err != nil {
		t.Fatal(err)
	}
	r.Weights = []weight{{Store: `map[string]<b>`, Kind: floor, Keys: 10, Bytes: 100, GCms: 1}}
	var page bytes.Buffer
	if err := r.writePage(&page); err != nil {
		t.Fatal(err)
	}
	if found := outside.FindString(page.String()); found != "" || strings.Contains(page.String(), "<b>") {
		t.Errorf("the page has %q, or a name that is not text", found)
	}
	// A chart for each scene, one of ratios, one of bytes and one of cycles; a bar for each that was measured.
	charts, bars := strings.Count(page.String(), "<svg"), strings.Count(page.String(), "<rect")
	if want := len(r.Results) + len(r.Figures) + 2; charts != len(scenes())+3 || bars != want {
		t.Errorf("%d charts with %d bars, want %d with %d", charts, bars, len(scenes())+3, want)
	}
	var empty bytes.Buffer
	if err := (&report{}).writePage(&empty); err != nil || strings.Contains(empty.String(), "<svg") {
		t.Errorf("a page of nothing: %v\n%s", err, empty.String())
	}
}
