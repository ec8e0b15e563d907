package main

import "fmt"

// figure is a ratio to reach: what is measured against its yardstick in the same scene.
type figure struct {
	name  string
	scene string
	of    string  // subject
	by    string  // subject; empty: the fastest peer
	most  float64 // 0: there is nothing to reach, the ratio is only told
}

const (
	take       = "quotalease Take"
	handleTake = "quotalease Handle.Take"
)

func figures() []figure {
	return []figure{
		{"take by handle, with its clock reading", "1 key, 1 goroutine", handleTake, floorClockCAS, 1.5},
		{"take by handle", "1 key, 1 goroutine", handleTake, timeRate, 0.7},
		{"take by strings, 100k keys", "100k keys, 1 goroutine", take, "", 0.6},
		{"take by strings, 100k keys", "100k keys, 2 goroutines", take, "", 0.6},
		{"one hot key, by strings", "1 key, 2 goroutines", take, timeRate, 0.6},
		{"one hot key, by handle", "1 key, 2 goroutines", handleTake, timeRate, 0.6},
		{"one hot key, 64 goroutines, by strings", "1 key, 64 goroutines", take, timeRate, 0},
		{"one hot key, 64 goroutines, by handle", "1 key, 64 goroutines", handleTake, timeRate, 0},
		{"take by strings beside its floor", "1 key, 1 goroutine", take, floorClockCAS, 0},
		{"take by strings beside a bare map", "100k keys, 1 goroutine", take, floorMap, 0},
		{"take by handle, 100k keys, beside a bare slab", "100k keys, 1 goroutine", handleTake, floorSlab, 0},
	}
}

// verdict is a figure with what was measured.
type verdict struct {
	Name      string  `json:"figure"`
	Scene     string  `json:"scene"`
	Of        string  `json:"of"`
	Yardstick string  `json:"yardstick"`
	Value     float64 `json:"value"`
	Base      float64 `json:"yardstick_value"`
	Unit      string  `json:"unit"`
	Ratio     float64 `json:"ratio"`
	CPURatio  float64 `json:"cpu_ratio,omitempty"` // of CPU time: to be believed on a machine that others use
	Most      float64 `json:"reach,omitempty"`
	Reached   bool    `json:"reached"`
}

// told is the answer to whether it was reached.
func (v verdict) told() string {
	switch {
	case v.Most == 0:
		return ""
	case v.Reached:
		return "yes"
	default:
		return "no"
	}
}

// reach is what it is held to, in words.
func (v verdict) reach() string {
	if v.Most == 0 {
		return ""
	}
	return fmt.Sprintf("<= %g", v.Most)
}

func (v verdict) judged() verdict {
	v.Ratio = v.Value / v.Base
	v.Reached = v.Most > 0 && v.Ratio <= v.Most
	return v
}

// judge computes the figures whose scenes were run.
func judge(figures []figure, results []result) ([]verdict, error) {
	ran := map[string]bool{}
	for _, r := range results {
		ran[r.Scene] = true
	}
	var list []verdict
	for _, f := range figures {
		if !ran[f.scene] {
			continue
		}
		of, ok := find(results, f.scene, f.of)
		if !ok {
			return nil, fmt.Errorf("compute %q: %s was not run in %q", f.name, f.of, f.scene)
		}
		by, ok := find(results, f.scene, f.by)
		if f.by == "" {
			by, ok = fastestPeer(results, f.scene)
		}
		if !ok {
			return nil, fmt.Errorf("compute %q: no yardstick %q was run in %q", f.name, f.by, f.scene)
		}
		list = append(list, verdict{Name: f.name, Scene: f.scene, Of: of.Subject, Yardstick: by.Subject,
			Value: of.NS, Base: by.NS, Unit: "ns/op", Most: f.most, CPURatio: share(of.CPU, by.CPU)}.judged())
	}
	return list, nil
}

func find(results []result, scene, subject string) (result, bool) {
	for _, r := range results {
		if r.Scene == scene && r.Subject == subject {
			return r, true
		}
	}
	return result{}, false
}

func fastestPeer(results []result, scene string) (best result, ok bool) {
	for _, r := range results {
		if r.Scene == scene && r.Kind == peer && (!ok || r.NS < best.NS) {
			best, ok = r, true
		}
	}
	return best, ok
}

// share is a by b; 0, which is no ratio, if b was not measured.
func share(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
