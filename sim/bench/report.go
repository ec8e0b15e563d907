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

// about says in lines what the figures are of.
func (r *report) about() []string {
	m := r.Machine
	return []string{
		fmt.Sprintf("%d x %s, %s %s/%s, clock %s, load %s", m.CPUs, m.CPU, m.Go, m.OS, m.Arch, m.Clock, m.Load),
		fmt.Sprintf("medians of %d rounds of %s each", r.Rounds, r.Span),
	}
}

// tables are all that was measured: a table for each scene, and one of memory.
func (r *report) tables() []table {
	var list []table
	for _, x := range r.Results {
		if n := len(list); n == 0 || list[n-1].Title != x.Scene {
			list = append(list, table{Title: x.Scene, Columns: []string{x.Scene, "ns/op", "CPU ns/op", "allocs/op", "spread", "by " + timeRate}})
		}
		base, _ := find(r.Results, x.Scene, timeRate)
		t := &list[len(list)-1]
		t.Rows = append(t.Rows, []string{x.Subject, fmt.Sprintf("%.1f", x.NS), fmt.Sprintf("%.1f", x.CPU), fmt.Sprintf("%.0f", x.Allocs),
			fmt.Sprintf("%.0f%%", 100*x.spread()), told(share(x.NS, base.NS))})
	}
	if len(r.Weights) > 0 {
		list = append(list, r.memoryTable())
	}
	return list
}

func (r *report) memoryTable() table {
	if len(r.Weights) == 0 {
		return table{}
	}
	title := fmt.Sprintf("%d keys in use", r.Weights[0].Keys)
	t := table{Title: title, Columns: []string{title, "B/key", "full GC, ms", "CPU, ms", "filled in, s"}}
	for _, x := range r.Weights {
		t.Rows = append(t.Rows, []string{x.Store, fmt.Sprintf("%.0f", x.Bytes), fmt.Sprintf("%.1f", x.GCms), fmt.Sprintf("%.1f", x.GCCPU), fmt.Sprintf("%.1f", x.FillS)})
	}
	return t
}

// figureTable is the figures with what they are held to.
func (r *report) figureTable() table {
	t := table{Title: "figures", Columns: []string{"figure", "scene", "of", "yardstick", "ours", "its", "ratio", "of CPU", "reach", "reached"}}
	for _, x := range r.verdictRows() {
		t.Rows = append(t.Rows, []string{x.Name, x.Scene, x.Of, x.Yardstick, x.Ours, x.Its, x.Ratio, x.CPU, x.Reach, x.Reached})
	}
	return t
}

// write prints the run as tables of Markdown, which are aligned to be read as they are.
func (r *report) write(w io.Writer) error {
	fmt.Fprintf(w, "%s, %s\n", r.When.UTC().Format(time.DateTime), strings.Join(r.about(), "\n"))
	for _, t := range append(r.tables(), r.figureTable()) {
		if err := t.write(w); err != nil {
			return err
		}
	}
	return nil
}

func (t table) write(w io.Writer) error {
	fmt.Fprintln(w)
	out := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	fmt.Fprintf(out, "| %s\t|\n|%s\n", strings.Join(t.Columns, "\t| "), strings.Repeat("---\t|", len(t.Columns)))
	for _, row := range t.Rows {
		fmt.Fprintf(out, "| %s\t|\n", strings.Join(row, "\t| "))
	}
	return out.Flush()
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
