package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quotalease/quotalease/controlplane"
	"github.com/quotalease/quotalease/ledger/quota"
	page "github.com/quotalease/quotalease/sim/report"
	"github.com/quotalease/quotalease/sim/scenario"
)

// scenarioFlags are those of quotalease sim that have to do with scenarios.
type scenarioFlags struct {
	name   string
	list   bool
	set    []string
	report string
}

func (f *scenarioFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.name, "scenario", "", "run a scenario: a name that --list shows, or a file")
	flags.BoolVar(&f.list, "list", false, "list the scenarios that come with the program")
	flags.StringArrayVar(&f.set, "set", nil, "set a parameter of the scenario, like agents=32")
	flags.StringVar(&f.report, "report", "", "write the scenario's report with charts to this HTML file")
}

func (f *scenarioFlags) check() error {
	if f.name == "" && (len(f.set) > 0 || f.report != "") {
		return misuse("--set and --report: allowed: only with --scenario")
	}
	if f.name != "" && f.list {
		return misuse("--list: allowed: only without --scenario")
	}
	return nil
}

type listedScenario struct {
	Name        string            `json:"name"`
	Description string            `json:"description"`
	Params      map[string]string `json:"params"`
}

// listScenarios shows what there is.
func (sh *shell) listScenarios() error {
	var views []listedScenario
	for _, name := range scenario.Names() {
		s, err := scenario.Builtin(name)
		if err != nil {
			return err
		}
		v := listedScenario{Name: name, Description: strings.Join(strings.Fields(s.Description), " "), Params: map[string]string{}}
		for _, p := range s.Params {
			v.Params[p.Name] = p.Value
		}
		views = append(views, v)
	}
	return list(sh, views, "scenarios", 0, func(views []listedScenario) *table {
		t := newTable(text("SCENARIO"), text("PARAMETERS"), text("SHOWS"))
		for _, v := range views {
			var params []string
			for _, name := range slices.Sorted(maps.Keys(v.Params)) {
				params = append(params, name+"="+v.Params[name])
			}
			t.add(v.Name, strings.Join(params, " "), firstSentence(v.Description))
		}
		return t
	})
}

func firstSentence(s string) string {
	if first, _, more := strings.Cut(s, ". "); more {
		return first + "."
	}
	return s
}

// runScenario runs one scenario and shows what came of it.
func (sh *shell) runScenario(ctx context.Context, f scenarioFlags, seed *uint64) error {
	var set []scenario.Param
	for _, s := range f.set {
		name, value, ok := strings.Cut(s, "=")
		if !ok {
			return misuse("--set: %q; allowed: name=value", s)
		}
		set = append(set, scenario.Param{Name: name, Value: value})
	}
	s, err := scenario.Load(f.name, set...)
	if err != nil {
		var faults scenario.Faults
		if errors.As(err, &faults) {
			return misuse("%v", faults)
		}
		return misuse("--scenario: %v; allowed: a file, or one of: %s", err, strings.Join(scenario.Names(), ", "))
	}
	if seed != nil {
		s.Seed = *seed
	}
	defer spareCollector(simGC)()
	var progress scenario.Progress
	line := func() string {
		method := ""
		if m := progress.Model.Load(); m != nil {
			method = *m
		}
		return fmt.Sprintf("%s with %s: %d %% of %s, %s requests", s.Name, method, progress.Permille.Load()/10, controlplane.Lasting(s.Duration), controlplane.Grouped(progress.Requests.Load()))
	}
	var done *scenario.Report
	if err := sh.narrate(line, func() error {
		done, err = scenario.Run(ctx, s, &progress)
		return err
	}); err != nil {
		return err
	}
	if f.report != "" {
		if err := writeReport(f.report, func(w io.Writer) error { return page.Write(w, done) }); err != nil {
			return err
		}
	}
	view := viewScenario(done)
	if err := sh.show(view, view.write); err != nil {
		return err
	}
	if slices.ContainsFunc(view.Expected, func(e expectedView) bool { return !e.Met }) {
		return found()
	}
	return nil
}

// writeReport writes the page beside the file first, so that a failure leaves no half of one.
func writeReport(name string, write func(io.Writer) error) error {
	file, err := os.CreateTemp(filepath.Dir(name), ".report-*")
	if err != nil {
		return fmt.Errorf("write report %s: %w", name, err)
	}
	err = errors.Join(write(file), file.Chmod(0o644), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		_ = os.Remove(file.Name())
		return fmt.Errorf("write report %s: %w", name, err)
	}
	return nil
}

// figure is a number that may not exist: null in JSON.
type figure *float64

func figureOf(v float64) figure {
	if math.IsNaN(v) {
		return nil
	}
	return &v
}

type expectedView struct {
	Figure string `json:"figure"`
	Wanted string `json:"wanted"`
	Got    figure `json:"got"`
	Met    bool   `json:"met"`
}

type methodView struct {
	Method              string                  `json:"method"`
	Utilisation         figure                  `json:"utilisation"`
	Overshoot           int64                   `json:"overshoot"`
	OvershootLedger     int64                   `json:"overshoot_ledger"`
	RoundTrips          int64                   `json:"round_trips"`
	TripsMean           float64                 `json:"round_trips_per_agent_window"`
	TripsMost           int64                   `json:"round_trips_max"`
	DenialsWhileFree    int64                   `json:"denials_while_free"`
	DenialsWhileFreeAll int64                   `json:"denials_while_free_all"`
	Requests            int64                   `json:"requests"`
	Calls               int64                   `json:"calls"`
	Allowed             int64                   `json:"allowed"`
	Denials             int64                   `json:"denials"`
	Denied              map[quota.Reason]int64  `json:"denied"`
	Unavailable         int64                   `json:"unavailable"`
	Amplification       float64                 `json:"amplification"`
	PeakLoad            int64                   `json:"peak_load"`
	FeltMS              float64                 `json:"felt_ms"`
	FeltAgents          int64                   `json:"felt_agents"`
	Unfelt              int64                   `json:"unfelt"`
	Demands             []scenario.DemandResult `json:"demands"`
	Regions             []scenario.RegionResult `json:"regions"`
	Windows             []*scenario.Window      `json:"windows"`
	Spans               []scenario.Span         `json:"round_trips_by_window"`
}

type pointView struct {
	Value       string `json:"value"`
	Ours        bool   `json:"ours"`
	Utilisation figure `json:"utilisation"`
	RoundTrips  int64  `json:"round_trips"`
	Overshoot   int64  `json:"overshoot"`
}

// scenarioView has the figures of the product's own method at the top, and the same of all
// methods in the list.
type scenarioView struct {
	Scenario         string            `json:"scenario"`
	Description      string            `json:"description"`
	Params           map[string]string `json:"params"`
	Seed             uint64            `json:"seed"`
	DurationMS       int64             `json:"duration_ms"`
	Utilisation      figure            `json:"utilisation"`
	Overshoot        int64             `json:"overshoot"`
	RoundTrips       int64             `json:"round_trips"`
	DenialsWhileFree int64             `json:"denials_while_free"`
	Expected         []expectedView    `json:"expected"`
	Methods          []methodView      `json:"methods"`
	Curve            []pointView       `json:"curve,omitempty"`
}

func viewScenario(r *scenario.Report) scenarioView {
	s := r.Scenario
	v := scenarioView{Scenario: s.Name, Description: s.Description, Params: map[string]string{}, Seed: s.Seed, DurationMS: s.Duration.Milliseconds(), Expected: []expectedView{}}
	for _, p := range s.Params {
		v.Params[p.Name] = p.Value
	}
	for _, c := range r.Checks() {
		v.Expected = append(v.Expected, expectedView{Figure: c.Metric, Wanted: fmt.Sprintf("%s %g", c.Op, c.Value), Got: figureOf(c.Got), Met: c.Met})
	}
	for _, m := range r.Results {
		v.Methods = append(v.Methods, methodView{
			Method: m.Method, Utilisation: figureOf(m.Utilisation), Overshoot: m.Overshoot, OvershootLedger: m.LedgerOver,
			RoundTrips: m.RoundTrips, TripsMean: m.TripsMean, TripsMost: m.TripsMost, DenialsWhileFree: m.DenialsWhileFree,
			DenialsWhileFreeAll: m.DenialsWhileFreeAll, Requests: m.Requests, Calls: m.Calls, Allowed: m.Allowed, Denials: m.Denials,
			Denied: m.Denied, Unavailable: m.Unavailable, Amplification: m.Amplification, PeakLoad: m.PeakLoad,
			FeltMS: float64(m.Felt) / 1e6, FeltAgents: m.FeltAgents, Unfelt: m.Unfelt,
			Demands: m.Demands, Regions: m.Regions, Windows: m.Windows, Spans: m.Spans,
		})
	}
	for _, p := range r.Curve {
		v.Curve = append(v.Curve, pointView{Value: p.Value, Ours: p.Ours, Utilisation: figureOf(p.Result.Utilisation), RoundTrips: p.Result.RoundTrips, Overshoot: p.Result.Overshoot})
	}
	ours := v.Methods[0]
	v.Utilisation, v.Overshoot, v.RoundTrips, v.DenialsWhileFree = ours.Utilisation, ours.Overshoot, ours.RoundTrips, ours.DenialsWhileFree
	return v
}

func percent(f figure) string {
	if f == nil {
		return ""
	}
	return fmt.Sprintf("%.2f %%", 100**f)
}

// write shows a scenario to people.
func (v scenarioView) write(w io.Writer) error {
	fmt.Fprintf(w, "%s\n\n", v.Description)
	t := newTable(text("METHOD"), number("UTILISATION"), number("OVERSHOOT"), number("ROUND TRIPS"), number("A WINDOW"), number("MOST"),
		number("REQUESTS"), number("ALLOWED"), number("DENIED"), number("WHILE FREE"), number("UNAVAILABLE"), number("SENT A CALL"))
	for _, m := range v.Methods {
		t.add(m.Method, percent(m.Utilisation), controlplane.Grouped(m.Overshoot), controlplane.Grouped(m.RoundTrips), fmt.Sprintf("%.2f", m.TripsMean), controlplane.Grouped(m.TripsMost),
			controlplane.Grouped(m.Requests), controlplane.Grouped(m.Allowed), controlplane.Grouped(m.Denials), controlplane.Grouped(m.DenialsWhileFree), controlplane.Grouped(m.Unavailable), fmt.Sprintf("%.2f", m.Amplification))
	}
	if err := t.write(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	if err := v.waits().write(w); err != nil {
		return err
	}
	if len(v.Curve) > 0 {
		fmt.Fprintln(w)
		if err := v.curve().write(w); err != nil {
			return err
		}
	}
	if len(v.Expected) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	e := newTable(text("EXPECTED"), text("WANTED"), number("GOT"), text("MET"))
	for _, x := range v.Expected {
		got := ""
		if x.Got != nil {
			got = fmt.Sprintf("%.4g", *x.Got)
		}
		e.add(x.Figure, x.Wanted, got, yesNo(x.Met))
	}
	return e.write(w)
}

func (v scenarioView) waits() *table {
	t := newTable(text("METHOD"), text("CALLS OF"), number("COST"), number("CALLS"), number("ALLOWED"), number("P50 WAIT"), number("P99 WAIT"), number("MOST"))
	for _, m := range v.Methods {
		for _, d := range m.Demands {
			for _, c := range d.Costs {
				t.add(m.Method, d.Name, controlplane.Grouped(c.Cost), controlplane.Grouped(c.Calls), fmt.Sprintf("%.1f %%", 100*c.Share),
					fmt.Sprintf("%.1f ms", c.P50), fmt.Sprintf("%.1f ms", c.P99), fmt.Sprintf("%.1f ms", c.Most))
			}
		}
	}
	return t
}

func (v scenarioView) curve() *table {
	t := newTable(text("LEASE SIZE"), number("ROUND TRIPS"), number("UTILISATION"), number("OVERSHOOT"), text("OURS"))
	for _, p := range v.Curve {
		t.add(p.Value, controlplane.Grouped(p.RoundTrips), percent(p.Utilisation), controlplane.Grouped(p.Overshoot), yesNo(p.Ours))
	}
	return t
}
