package world

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestTheSameSeedIsTheSameHistory(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 3; seed++ {
		var first, second bytes.Buffer
		a, b := Run(seed, 2000, &first), Run(seed, 2000, &second)
		if a.Digest != b.Digest || !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Errorf("seed %d: two runs differ", seed)
		}
		if first.Len() == 0 || a.Events < 2000 {
			t.Errorf("seed %d: %d events, %d bytes of history", seed, a.Events, first.Len())
		}
		if silent := Run(seed, 2000, nil); silent.Digest != a.Digest {
			t.Errorf("seed %d: to write the history down changes it", seed)
		}
		if c := Run(seed+1000, 2000, nil); c.Digest == a.Digest {
			t.Errorf("seeds %d and %d make the same history", seed, seed+1000)
		}
	}
}

func TestAScriptReplaysItsRun(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 6; seed++ {
		ran := Run(seed, 2000, nil)
		if again := Replay(ran.Script, nil); again.Digest != ran.Digest || again.Events != ran.Events {
			t.Errorf("seed %d: the script makes another history than the run", seed)
		}
	}
}

func TestSeedsKeepEveryPromise(t *testing.T) {
	t.Parallel()
	plan := Plan{First: 1, Seeds: 24, Events: DefaultEvents, Workers: 2}
	if testing.Short() {
		plan.Seeds = 6
	}
	var progress Progress
	report := RunSeeds(t.Context(), plan, &progress)
	for _, r := range report.Failures {
		t.Errorf("seed %d: %v\nreplay: quotalease sim --seed %d", r.Script.Seed, r.Fault, r.Script.Seed)
	}
	if t.Failed() {
		return
	}
	if report.Seeds != plan.Seeds || report.Events < int64(plan.Seeds*plan.Events) || progress.Seeds.Load() != int64(plan.Seeds) {
		t.Errorf("%d seeds, %d events, progress %d: want %d seeds of at least %d", report.Seeds, report.Events, progress.Seeds.Load(), plan.Seeds, plan.Events)
	}
	if testing.Short() {
		return
	}
	for _, c := range report.Trouble {
		if c.Seeds == 0 {
			t.Errorf("no seed fired %q", c.Kind)
		}
	}
}

func TestWhatNeverFiredIsMissing(t *testing.T) {
	t.Parallel()
	few := Report{Seeds: 99, Trouble: []Count{{Kind: Cut}}}
	many := Report{Seeds: 100, Trouble: []Count{{Kind: Cut}, {Kind: Suspend, Seeds: 1, Times: 1}}}
	if got := few.Missing(); got != nil {
		t.Errorf("99 seeds miss %v, want nothing", got)
	}
	if got := many.Missing(); !slices.Equal(got, []Kind{Cut}) {
		t.Errorf("100 seeds miss %v, want the cut", got)
	}
}

func TestEveryKindHasItsWords(t *testing.T) {
	t.Parallel()
	seen := map[string]Kind{}
	for k := range kinds {
		name := k.String()
		if was, twice := seen[name]; twice || name == "" {
			t.Errorf("kinds %d and %d are both called %q", was, k, name)
		}
		seen[name] = k
		if words := (Action{Kind: k, Mask: 3}).String(); strings.Contains(words, "%!") || words == "" {
			t.Errorf("%s says %q", name, words)
		}
	}
	for _, w := range weights {
		if w.weight < 1 || w.kind <= lastCall {
			t.Errorf("%s has weight %d", w.kind, w.weight)
		}
	}
}

// TestTheWorstLuckIsNoWorse runs worlds of the least size and of nothing but trouble.
func TestTheWorstLuckIsNoWorse(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 3; seed++ {
		setup := Setup{Agents: 1, Replicas: 1, Trouble: 1000, Retention: shortRetention}
		script := Script{Seed: seed, Setup: setup, Asks: everyAsk(setup)}
		for g := newGenerator(seed, setup); len(script.Actions) < 800; {
			script.Actions = append(script.Actions, g.action())
		}
		script.Busy = script.Actions[len(script.Actions)-1].At
		if r := Replay(script, nil); r.Fault != nil {
			t.Errorf("seed %d: %v", seed, r.Fault)
		}
	}
}

// Histories in which the product, or what judges it, was wrong once.
func TestSeedsThatOnceBrokeAPromise(t *testing.T) {
	t.Parallel()
	for seed, was := range map[uint64]string{
		189:   "a repeated answer told of the next window by a nudged clock",
		1011:  "a withdrawal was too old by an untrusted clock, and its ask was granted to nobody",
		1493:  "a cut of burst met a lease of before",
		1587:  "work without a lease was recorded anew",
		2319:  "a copy gave back all slots of a lease, and the original went on to start work on it",
		5808:  "an estimate was refused its settlement by a class that came later",
		6421:  "a copy began work on the slots of before, for a caller whose spend was still out",
		10695: "slots of a shared ask are two copies' to use",
		1122:  "an account of no known age was forgotten",
		8523:  "a reservation was settled twice by two copies",
		11035: "a window's growth was told to an agent for which it had not begun",
		15438: "a copy took a renewal that the original had said before for its own",
		15458: "a copy was told of a spend that the original had sent in time",
		15541: "a renewal while the ledger's clock stood still, then a jump",
		17043: "a spend was too old to be taken back",
		21569: "one of two copies took back what the other one had settled",
		34565: "a forgotten id became young again when the ledger's clock went back",
		45445: "the same, in another window's account",
		56891: "a copy was renamed by one of two Syncs in flight, and taken for renamed by both",
		93468: "a copy of a process that was itself a renamed copy knew nothing of what its callers had lost then",
		97214: "what a caller lost with one name was taken for lost again with the next",
		25597: "a withdrawal found no policy, and its ask came when there was one again",
	} {
		if r := Run(seed, DefaultEvents, nil); r.Fault != nil {
			t.Errorf("seed %d (%s): %v", seed, was, r.Fault)
		}
	}
}
