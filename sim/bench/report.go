package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"
)

// report is all of one run.
type report struct {
	When    time.Time `json:"when"`
	Machine machine   `json:"machine"`
	Rounds  int       `json:"rounds"`
	Span    string    `json:"time"`
	Results []result  `json:"results"`
	Weights []weight  `json:"memory"`
	Figures []verdict `json:"figures"`
}

type machine struct {
	CPU   string `json:"cpu"`
	CPUs  int    `json:"gomaxprocs"`
	Go    string `json:"go"`
	OS    string `json:"os"`
	Arch  string `json:"arch"`
	Load  string `json:"load_average"` // as the run begins; a quiet machine shows less than one
	Clock string `json:"clocksource"`
}

func thisMachine() machine {
	m := machine{CPUs: runtime.GOMAXPROCS(0), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	m.Load, m.Clock = firstLine("/proc/loadavg"), firstLine("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	info, _ := os.ReadFile("/proc/cpuinfo") // only Linux has it
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			m.CPU = strings.TrimSpace(value)
			break
		}
	}
	return m
}

func firstLine(file string) string {
	text, _ := os.ReadFile(file) // only Linux has it
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

// write prints the run as tables of Markdown, which are aligned to be read as they are.
func (r *report) write(w io.Writer) error {
	m := r.Machine
	fmt.Fprintf(w, "%s, %d x %s, %s %s/%s, clock %s, load %s\nmedians of %d rounds of %s each\n",
		r.When.UTC().Format(time.DateTime), m.CPUs, m.CPU, m.Go, m.OS, m.Arch, m.Clock, m.Load, r.Rounds, r.Span)
	scene := ""
	var t *tabwriter.Writer
	for _, x := range r.Results {
		if x.Scene != scene {
			if t != nil {
				t.Flush()
			}
			scene = x.Scene
			t = table(w, scene, "ns/op", "CPU ns/op", "allocs/op", "spread", "by "+timeRate)
		}
		base, _ := find(r.Results, scene, timeRate)
		fmt.Fprintf(t, "| %s\t| %.1f\t| %.1f\t| %.0f\t| %.0f%%\t| %s\t|\n", x.Subject, x.NS, x.CPU, x.Allocs, 100*x.spread(), told(share(x.NS, base.NS)))
	}
	if t != nil {
		t.Flush()
	}
	if len(r.Weights) > 0 {
		t = table(w, fmt.Sprintf("%d keys in use", r.Weights[0].Keys), "B/key", "full GC, ms", "filled in, s")
		for _, x := range r.Weights {
			fmt.Fprintf(t, "| %s\t| %.0f\t| %.1f\t| %.1f\t|\n", x.Store, x.Bytes, x.GCms, x.FillS)
		}
		t.Flush()
	}
	t = table(w, "figure", "scene", "of", "yardstick", "unit", "ours", "its", "ratio", "of CPU", "reach", "reached")
	for _, v := range r.Figures {
		reach := ""
		if v.Most > 0 {
			reach = fmt.Sprintf("<= %g", v.Most)
		}
		fmt.Fprintf(t, "| %s\t| %s\t| %s\t| %s\t| %s\t| %.1f\t| %.1f\t| %.2f\t| %s\t| %s\t| %s\t|\n",
			v.Name, v.Scene, v.Of, v.Yardstick, v.Unit, v.Value, v.Base, v.Ratio, told(v.CPURatio), reach, v.told())
	}
	return t.Flush()
}

func table(w io.Writer, columns ...string) *tabwriter.Writer {
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	fmt.Fprintf(t, "| %s\t|\n|%s\n", strings.Join(columns, "\t| "), strings.Repeat("---\t|", len(columns)))
	return t
}

// told is a ratio, if there is one.
func told(ratio float64) string {
	if ratio == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", ratio)
}

func (r *report) save(file string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}
