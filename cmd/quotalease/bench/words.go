package bench

import (
	"fmt"
	"math"
	"strconv"

	"github.com/quotalease/quotalease/controlplane"
)

// Row is a figure in words. What there is not is empty.
type Row struct {
	Figure    string `json:"figure"`
	Ours      string `json:"ours"`
	Its       string `json:"its,omitempty"`
	Yardstick string `json:"yardstick,omitempty"`
	Ratio     string `json:"ratio,omitempty"`
	Reach     string `json:"reach,omitempty"`
	Reached   string `json:"reached,omitempty"`
	Grows     bool   `json:"grows,omitempty"`
}

// Rows are the figures in words, in their order.
func (r *Report) Rows() []Row {
	var rows []Row
	for _, v := range r.Figures {
		row := Row{Figure: v.Name, Ours: measured(v.Ours, v.Unit), Yardstick: v.Yardstick, Grows: v.Grows}
		if v.Yardstick != "" {
			row.Its, row.Ratio = measured(v.Its, v.Unit), times(v.Ratio)
		}
		if v.Reach != nil {
			row.Reach, row.Reached = v.Reach.words(v.Unit), "no"
			if *v.Reached {
				row.Reached = "yes"
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// About says in lines what the figures are of.
func (r *Report) About() []string {
	m := r.Machine
	lines := []string{
		fmt.Sprintf("%d x %s, %s %s/%s, load %s", m.CPUs, m.CPU, m.Go, m.OS, m.Arch, m.Load),
		fmt.Sprintf("Postgres %s, %s", m.Postgres, m.Settings),
		fmt.Sprintf("medians of %d rounds of %s each", r.Rounds, r.Time),
	}
	if r.Batch > 0 {
		lines[2] += fmt.Sprintf("; over many keys %d grants a commit", r.Batch)
	}
	return lines
}

// measured writes a value in three digits or more.
func measured(v float64, unit string) string {
	if unit != "" && unit[0] != '/' {
		unit = " " + unit
	}
	if v >= 100 {
		return controlplane.Grouped(int64(math.Round(v))) + unit
	}
	return strconv.FormatFloat(v, 'f', 2, 64) + unit
}

func times(ratio float64) string {
	if ratio >= 1000 {
		return controlplane.Grouped(int64(math.Round(ratio))) + "x"
	}
	if ratio >= 10 {
		return fmt.Sprintf("%.1fx", ratio)
	}
	return fmt.Sprintf("%.2fx", ratio)
}

func (r Reach) words(unit string) string {
	sign, x := ">=", r.Least
	if r.Most > 0 {
		sign, x = "<=", r.Most
	}
	if !r.Value {
		return fmt.Sprintf("%s %gx", sign, x)
	}
	if unit != "" {
		unit = " " + unit
	}
	return fmt.Sprintf("%s %s%s", sign, controlplane.Grouped(int64(x)), unit)
}

// GrowthRows are the sizes of what grew, in words.
func (r *Report) GrowthRows() [][]string {
	var rows [][]string
	for _, g := range r.Growth {
		for _, p := range g.Points {
			cpu := ""
			if p.CPUms > 0 {
				cpu = fmt.Sprintf("%.0f", p.CPUms)
			}
			rows = append(rows, []string{controlplane.Grouped(int64(p.At)), g.Of, fmt.Sprintf("%.0f", p.Decisions), fmt.Sprintf("%.1f", p.Grants),
				fmt.Sprintf("%.1f", p.Commits), fmt.Sprintf("%.1f", p.Uses), cpu, fmt.Sprintf("%.2f", p.P99ms)})
		}
	}
	return rows
}

// RestartRows are the starts of control planes, in words.
func (r *Report) RestartRows() [][]string {
	var rows [][]string
	for _, x := range r.Restarts {
		closed := ""
		if x.Due > 0 {
			closed = fmt.Sprintf("%.0f", x.SweptMs)
		}
		rows = append(rows, []string{controlplane.Grouped(int64(x.Accounts)), controlplane.Grouped(int64(x.Due)), fmt.Sprintf("%.1f", x.ReadyMs),
			fmt.Sprintf("%.1f", x.GrantMs), fmt.Sprintf("%.1f", x.HeapMB), closed})
	}
	return rows
}
