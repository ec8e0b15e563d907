package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// grants is what this shows of a run of `quotalease bench -o json`.
type grants struct {
	When    time.Time `json:"when"`
	Rounds  int       `json:"rounds"`
	Span    string    `json:"time"`
	Machine struct {
		Load     string `json:"load_average"`
		Postgres string `json:"postgres"`
		Settings string `json:"postgres_settings"`
	} `json:"machine"`
	Words  []words `json:"words"`
	Growth []struct {
		Of     string `json:"of"`
		Points []struct {
			At        int     `json:"at"`
			Decisions float64 `json:"decisions_per_second"`
			Grants    float64 `json:"grants_per_second"`
			Commits   float64 `json:"commits_per_second"`
			Uses      float64 `json:"database_uses_per_second"`
			CPUms     float64 `json:"postgres_cpu_ms_per_second"`
			P50ms     float64 `json:"take_p50_ms"`
			P99ms     float64 `json:"take_p99_ms"`
		} `json:"points"`
	} `json:"growth"`
	Edge *struct {
		Keys   int     `json:"keys"`
		Rate   int     `json:"decisions_per_second"`
		LeadS  float64 `json:"lead_s"`
		Steady stretch `json:"steady"`
		Lead   stretch `json:"lead"`
		After  stretch `json:"after"`
	} `json:"edge"`
	Restarts []struct {
		Accounts int     `json:"accounts"`
		Due      int     `json:"leases_due"`
		ReadyMs  float64 `json:"ready_ms"`
		GrantMs  float64 `json:"first_grant_ms"`
		HeapMB   float64 `json:"heap_mb"`
		SweptMs  float64 `json:"swept_ms"`
	} `json:"restarts"`
}

// stretch is a part of the time about a window's edge.
type stretch struct {
	Commits float64 `json:"commits_per_second"`
	Grants  float64 `json:"grants_per_second"`
	P99ms   float64 `json:"take_p99_ms"`
	Worst   float64 `json:"take_worst_ms"`
}

// words is one of its figures.
type words struct {
	Figure    string `json:"figure"`
	Ours      string `json:"ours"`
	Its       string `json:"its"`
	Yardstick string `json:"yardstick"`
	Ratio     string `json:"ratio"`
	Reach     string `json:"reach"`
	Reached   string `json:"reached"`
	Grows     bool   `json:"grows"`
}

// toldIn is where one reads of it: the README, and what lies beside this.
var toldIn = []string{"../../README.md", "PERFORMANCE.md"}

// tell writes this run and one of grants into the documents, between the marks that are there for
// them. at is the version that was measured.
func (r *report) tell(grantsFile, at string) error {
	var g grants
	if err := load(grantsFile, &g); err != nil {
		return err
	}
	blocks, err := r.blocks(&g, at)
	if err != nil {
		return err
	}
	for _, name := range toldIn {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		filled, err := fill(string(text), blocks)
		if err != nil {
			return fmt.Errorf("fill %s: %w", name, err)
		}
		if err := os.WriteFile(name, []byte(filled), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func load(file string, into any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	return nil
}

// fill replaces what stands between <!-- name --> and <!-- /name --> for every block that has such
// marks.
func fill(text string, blocks map[string]string) (string, error) {
	for name, block := range blocks {
		open, shut := "<!-- "+name+" -->\n", "<!-- /"+name+" -->\n"
		before, rest, there := strings.Cut(text, open)
		if !there {
			continue
		}
		_, after, there := strings.Cut(rest, shut)
		if !there {
			return "", fmt.Errorf("block %q has no end", name)
		}
		text = before + open + "\n" + block + "\n" + shut + after
	}
	return text, nil
}

// blocks are the texts, by the names of their marks.
func (r *report) blocks(g *grants, at string) (map[string]string, error) {
	m := r.Machine
	day := r.When.UTC().Format(time.DateOnly)
	machine := fmt.Sprintf("%s, %d x %s, %s %s/%s", day, m.CPUs, strings.TrimSuffix(m.CPU, " Processor"), m.Go, m.OS, m.Arch)
	speed, err := r.speed(g)
	if err != nil {
		return nil, err
	}
	return map[string]string{
		"speed": speed + fmt.Sprintf("\nMeasured %s, with Postgres %s on the same machine, at %s. Each row is\nof one run: medians of %d rounds in turns, and of the last row one measurement each.\n",
			machine, major(g.Machine.Postgres), at, min(r.Rounds, g.Rounds)),
		"takes":   fmt.Sprintf("%s, clock %s, load %s; medians of %d rounds of %s, at %s.\n", machine, m.Clock, m.Load, r.Rounds, r.Span, at),
		"figures": markdown(r.figureTable()),
		"one key": markdown(r.pivot("1 key")), "many keys": markdown(r.pivot("100k keys")), "memory": markdown(r.memoryTable()),
		"ledger": g.how(at) + "\n" + markdown(g.table(false)),
		"growth": strings.Join([]string{g.how(at), markdown(g.table(true)), markdown(g.growthTable()), markdown(g.edgeTable()), markdown(g.restartTable())}, "\n"),
	}, nil
}

// how says what the figures are of.
func (g *grants) how(at string) string {
	return fmt.Sprintf("%s, Postgres %s (%s),\nload %s; medians of %d rounds of %s, at %s.\n", g.When.UTC().Format(time.DateOnly), g.Machine.Postgres,
		g.Machine.Settings, g.Machine.Load, g.Rounds, g.Span, at)
}

func major(version string) string {
	number, _, _ := strings.Cut(version, ".")
	return number
}

// shown are the figures of the README.
var shown = []struct {
	figure, scene, as string // scene: of a decision; empty: of the ledger, by the beginning of its name
}{
	{"take by handle", "1 key, 1 goroutine", "a decision by a handle"},
	{"one hot key, 64 goroutines, by handle", "1 key, 64 goroutines", "one hot key, 64 goroutines"},
	{"take by strings, 100k keys", "100k keys, 2 goroutines", "a decision of 100,000 keys, two goroutines"},
	{"grants on one hot key, 256 askers", "", "durable grants on one hot key"},
	{"grants over 10,000 keys, 256 askers", "", "durable grants over 10,000 keys"},
	{"Postgres CPU a grant, one hot key", "", "Postgres CPU a grant"},
	{"p50 of a lone grant", "", "a lone grant, p50"},
	{"exact lane, 64 callers on one key", "", "exact decisions, 64 callers on one key"},
	{"rate limit service, server CPU a decision", "", "Envoy's rate limit service, CPU a decision"},
	{"takes by gRPC, 64 a call, server CPU", "", "takes by gRPC, 64 a call, CPU a decision"},
	{"transactions at ", "", ""}, // on the same keys, as many decisions as the machine made
}

// speed is the table of the README.
func (r *report) speed(g *grants) (string, error) {
	t := table{Columns: []string{"", "ours", "beside", "its", "ratio"}}
	decisions := r.verdictRows()
	for _, s := range shown {
		i := slices.IndexFunc(decisions, func(v verdictRow) bool { return v.Name == s.figure && v.Scene == s.scene })
		j := slices.IndexFunc(g.Words, func(w words) bool { return strings.HasPrefix(w.Figure, s.figure) })
		switch {
		case s.scene != "" && i >= 0:
			v := decisions[i]
			t.Rows = append(t.Rows, []string{s.as, v.Ours, v.Yardstick, v.Its, v.Ratio})
		case s.scene == "" && j >= 0:
			w := g.Words[j]
			t.Rows = append(t.Rows, []string{cmp.Or(s.as, w.Figure), w.Ours, w.Yardstick, w.Its, w.Ratio})
		default:
			return "", fmt.Errorf("tell of %q: it was not measured", s.figure)
		}
	}
	return markdown(t), nil
}
