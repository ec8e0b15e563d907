package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/quotalease/quotalease/controlplane"
	"github.com/quotalease/quotalease/sim/world"
)

type simFlags struct {
	seeds   int
	first   uint64
	seed    uint64
	replay  bool // --seed was given
	events  int
	workers int

	scenario   scenarioFlags
	exhaustive exhaustiveFlags
}

func newSimCommand(sh *shell) *cobra.Command {
	f := simFlags{}
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Simulate the lease protocol under faults, many times over",
		Long: `Run the real ledger rules, the real control plane and the real agent core under virtual
clocks and a hostile network: messages lost, repeated, delayed and cut; agents, replicas and
the database crashing; commits of unknown outcome; clocks that drift and jump; policies that
change. What callers were really allowed is counted and held against every promise after
each event. A seed decides everything, so a history that breaks a promise can be run again:
the command for it is printed, with the shortest history that still breaks the promise.

With --scenario a described course of demand and trouble is run instead, beside simpler ways to
enforce the same limit, and what it cost and gave is reported.

With --exhaustive every state that a small world can reach is visited instead: two or three
agents, a limit of a few units, and budgets of callers and faults.`,
		Example: `  quotalease sim --seeds 2000
  quotalease sim --seed 1234
  quotalease sim --list
  quotalease sim --scenario fleet-512 --set agents=32 --report fleet.html
  quotalease sim --exhaustive --world crash`,
		Args: arguments(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.replay = cmd.Flags().Changed("seed")
			if err := f.check(); err != nil {
				return err
			}
			switch {
			case f.exhaustive.on:
				return sh.exploreWorlds(cmd.Context(), f.exhaustive)
			case f.scenario.list:
				return sh.listScenarios()
			case f.scenario.name != "":
				var seed *uint64
				if f.replay {
					seed = &f.seed
				}
				return sh.runScenario(cmd.Context(), f.scenario, seed)
			}
			if f.replay {
				return sh.simulateOne(cmd.Context(), f)
			}
			return sh.simulate(cmd.Context(), f)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&f.seeds, "seeds", 200, "how many seeds to run")
	flags.Uint64Var(&f.first, "first", 1, "the first of them")
	flags.Uint64Var(&f.seed, "seed", 0, "run this one seed and print its history")
	flags.IntVar(&f.events, "events", world.DefaultEvents, "events of each seed, at least")
	flags.IntVar(&f.workers, "workers", runtime.GOMAXPROCS(0), "seeds that run at the same time")
	f.scenario.add(cmd)
	f.exhaustive.register(flags)
	return cmd
}

func (f simFlags) check() error {
	if err := errors.Join(f.scenario.check(), f.exhaustive.check()); err != nil {
		return err
	}
	if f.exhaustive.on && (f.scenario.name != "" || f.scenario.list || f.replay) {
		return misuse("--exhaustive: allowed only without --scenario, --list and --seed")
	}
	for _, n := range []struct {
		flag  string
		value int
	}{{"seeds", f.seeds}, {"events", f.events}, {"workers", f.workers}} {
		if n.value < 1 {
			return misuse("--%s: %d; allowed: 1 or more", n.flag, n.value)
		}
	}
	return nil
}

// again is the command that replays a seed.
func (f simFlags) again(seed uint64) string {
	s := fmt.Sprintf("quotalease sim --seed %d", seed)
	if f.events != world.DefaultEvents {
		s += fmt.Sprintf(" --events %d", f.events)
	}
	return s
}

type troubleView struct {
	Kind  string `json:"kind"`
	Seeds int    `json:"seeds"`
	Times int    `json:"times"`
}

type brokenView struct {
	Seed    uint64   `json:"seed"`
	Promise string   `json:"promise"`
	What    string   `json:"what"`
	AtMS    int64    `json:"at_ms"`
	Replay  string   `json:"replay"`
	History []string `json:"history,omitempty"`
}

type simView struct {
	Seeds   int           `json:"seeds"`
	Events  int64         `json:"events"`
	Broken  []brokenView  `json:"broken"`
	Trouble []troubleView `json:"trouble"`
	Missing []string      `json:"never_fired"`
}

func (f simFlags) broken(r world.Result) brokenView {
	return brokenView{Seed: r.Script.Seed, Promise: string(r.Fault.Promise), What: r.Fault.What,
		AtMS: r.Fault.At.Milliseconds(), Replay: f.again(r.Script.Seed)}
}

func (sh *shell) simulate(ctx context.Context, f simFlags) error {
	var progress world.Progress
	var report world.Report
	line := func() string {
		return fmt.Sprintf("%s of %s seeds, %s events", controlplane.Grouped(progress.Seeds.Load()), controlplane.Grouped(int64(f.seeds)), controlplane.Grouped(progress.Events.Load()))
	}
	defer spareCollector(simGC)()
	_ = sh.narrate(line, func() error {
		report = world.RunSeeds(ctx, world.Plan{First: f.first, Seeds: f.seeds, Events: f.events, Workers: f.workers}, &progress)
		return nil
	})
	if err := ctx.Err(); err != nil && len(report.Failures) == 0 {
		return fmt.Errorf("simulate: %w", err)
	}
	view := simView{Seeds: report.Seeds, Events: report.Events, Broken: []brokenView{}, Missing: []string{}}
	for _, c := range report.Trouble {
		view.Trouble = append(view.Trouble, troubleView{Kind: c.Kind.String(), Seeds: c.Seeds, Times: c.Times})
	}
	for _, k := range report.Missing() {
		view.Missing = append(view.Missing, k.String())
	}
	for i, r := range report.Failures {
		b := f.broken(r)
		if i == 0 {
			b.History = sh.shortest(ctx, r)
		}
		view.Broken = append(view.Broken, b)
	}
	if err := sh.show(view, view.write); err != nil {
		return err
	}
	if len(view.Broken)+len(view.Missing) > 0 {
		return found()
	}
	return nil
}

// shortest returns the history that is left of a failing one, line by line.
func (sh *shell) shortest(ctx context.Context, r world.Result) []string {
	var tries, left atomic.Int64
	line := func() string {
		return fmt.Sprintf("shrink the history of seed %d: %s tries, %s actions left", r.Script.Seed, controlplane.Grouped(tries.Load()), controlplane.Grouped(left.Load()))
	}
	var history bytes.Buffer
	_ = sh.narrate(line, func() error {
		short := world.Shrink(ctx, r, func(n, actions int) {
			tries.Store(int64(n))
			left.Store(int64(actions))
		})
		last := world.Replay(short.Script, &history)
		fmt.Fprintf(&history, "broken: %v", last.Fault)
		return nil
	})
	return strings.Split(history.String(), "\n")
}

// write shows a run to people.
func (v simView) write(w io.Writer) error {
	t := newTable(text("TROUBLE"), number("SEEDS"), number("TIMES"))
	for _, c := range v.Trouble {
		t.add(c.Kind, controlplane.Grouped(int64(c.Seeds)), controlplane.Grouped(int64(c.Times)))
	}
	if err := t.write(w); err != nil {
		return err
	}
	fmt.Fprintf(w, "\n%s seeds, %s events: ", controlplane.Grouped(int64(v.Seeds)), controlplane.Grouped(v.Events))
	switch {
	case len(v.Broken) > 0:
		fmt.Fprintf(w, "%s broken\n", count(len(v.Broken), "promise"))
	case len(v.Missing) > 0:
		fmt.Fprintf(w, "no promise broken, but no seed ever saw: %s\n", strings.Join(v.Missing, ", "))
	default:
		fmt.Fprintln(w, "no promise broken")
	}
	for _, b := range v.Broken {
		fmt.Fprintf(w, "\nseed %d: %s: %s\nto replay it: %s\n", b.Seed, b.Promise, b.What, b.Replay)
		if len(b.History) > 0 {
			fmt.Fprintf(w, "the shortest history that breaks the same promise:\n%s\n", strings.Join(b.History, "\n"))
		}
	}
	return nil
}

// simulateOne prints the history of a seed, as it happens.
func (sh *shell) simulateOne(ctx context.Context, f simFlags) error {
	out := sh.out
	if sh.format == formatJSON {
		out = nil
	}
	r := world.Run(f.seed, f.events, out)
	view := simView{Seeds: 1, Events: int64(r.Events), Broken: []brokenView{}, Trouble: []troubleView{}, Missing: []string{}}
	for _, k := range world.Trouble() {
		if n := r.Fired[k]; n > 0 {
			view.Trouble = append(view.Trouble, troubleView{Kind: k.String(), Seeds: 1, Times: n})
		}
	}
	if r.Fault != nil {
		b := f.broken(r)
		b.History = sh.shortest(ctx, r)
		view.Broken = append(view.Broken, b)
	}
	if err := sh.show(view, view.write); err != nil {
		return err
	}
	if r.Fault != nil {
		return found()
	}
	return nil
}
