package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"github.com/quotalease/quotalease/controlplane"
	"github.com/quotalease/quotalease/sim/explore"
)

// exhaustiveFlags are those of sim that explore small worlds instead of running seeds.
type exhaustiveFlags struct {
	on    bool
	world string
	most  int
}

func (f *exhaustiveFlags) register(flags *pflag.FlagSet) {
	flags.BoolVar(&f.on, "exhaustive", false, "visit every state of small worlds instead of running seeds")
	flags.StringVar(&f.world, "world", "", "with --exhaustive: explore this world alone; one of "+strings.Join(worldNames(), ", "))
	flags.IntVar(&f.most, "states", 20_000_000, "with --exhaustive: give a world up at this many states; each takes about 100 bytes")
}

func worldNames() []string {
	var names []string
	for _, w := range explore.Worlds() {
		names = append(names, w.Name)
	}
	return names
}

func (f *exhaustiveFlags) check() error {
	switch {
	case f.world != "" && !f.on:
		return misuse("--world: needs --exhaustive")
	case f.world != "" && !slices.Contains(worldNames(), f.world):
		return misuse("--world: %q; allowed: %s", f.world, strings.Join(worldNames(), ", "))
	case f.most < 1:
		return misuse("--states: %d; allowed: 1 or more", f.most)
	}
	return nil
}

// exploredView is what one world came to.
type exploredView struct {
	World   string   `json:"world"`
	About   string   `json:"about"`
	Made    string   `json:"made_of"`
	States  int      `json:"states"`
	Steps   int      `json:"steps"`
	Depth   int      `json:"depth"`
	Rests   int      `json:"rests"`
	Probes  int      `json:"probes"`
	Seconds float64  `json:"seconds"`
	Closed  bool     `json:"closed"`
	Broken  string   `json:"broken,omitempty"`
	Path    []string `json:"path,omitempty"`
}

// exploreWorlds explores the worlds that were asked for, one after the other.
func (sh *shell) exploreWorlds(ctx context.Context, f exhaustiveFlags) error {
	views, open := []exploredView{}, false
	for _, w := range explore.Worlds() {
		if f.world != "" && w.Name != f.world {
			continue
		}
		view, err := sh.exploreWorld(ctx, w, f.most)
		if err != nil {
			return fmt.Errorf("explore world %q: %w", w.Name, err)
		}
		if sh.format != formatJSON {
			if err := view.write(sh.out); err != nil {
				return err
			}
		}
		views = append(views, view)
		open = open || !view.Closed
	}
	err := sh.show(views, func(io.Writer) error { return nil }) // people saw each at once
	if err == nil && open {
		return found()
	}
	return err
}

func (sh *shell) exploreWorld(ctx context.Context, w *explore.World, most int) (exploredView, error) {
	var states, depth atomic.Int64
	line := func() string {
		return fmt.Sprintf("explore world %q: %s states so far, depth %d", w.Name, controlplane.Grouped(states.Load()), depth.Load())
	}
	began := sh.now()
	var f *explore.Found
	err := sh.narrate(line, func() error {
		var err error
		f, err = explore.Explore(ctx, w, most, func(now explore.Found) {
			states.Store(int64(now.States))
			depth.Store(int64(now.Depth))
		})
		return err
	})
	if err != nil {
		return exploredView{}, err
	}
	return exploredView{World: w.Name, About: w.About, Made: w.String(), States: f.States, Steps: f.Steps, Depth: f.Depth, Rests: f.Rests,
		Probes: f.Probes, Seconds: sh.now().Sub(began).Seconds(), Closed: f.Closed, Broken: f.Fault, Path: f.Path}, nil
}

func (v exploredView) write(w io.Writer) error {
	took := time.Duration(v.Seconds * float64(time.Second)).Round(10 * time.Millisecond)
	end := "no new state appears: every promise is kept in all of them"
	switch {
	case v.Broken != "":
		end = "a promise is broken: " + v.Broken + "\nThe shortest way to it:\n  " + strings.Join(v.Path, "\n  ")
	case !v.Closed:
		end = "given up: there are more states than --states allows"
	}
	_, err := fmt.Fprintf(w, "%s: %s\n  %s\n  %s states, %s steps, depth %d, %s ends at rest, %s probes, in %s\n  %s\n", v.World, v.About, v.Made,
		controlplane.Grouped(int64(v.States)), controlplane.Grouped(int64(v.Steps)), v.Depth, controlplane.Grouped(int64(v.Rests)),
		controlplane.Grouped(int64(v.Probes)), took, end)
	return err
}
