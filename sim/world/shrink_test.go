package world

import (
	"testing"
	"time"

	"github.com/quotalease/quotalease/sim/oracle"
)

// failing is a history that breaks a promise if an agent crashes after a link was cut, however
// much happens beside that.
func failing(s Script) Result {
	cut := false
	for _, a := range s.Actions {
		cut = cut || a.Kind == Cut
		if a.Kind == CrashAgent && cut && a.Agent < s.Setup.Agents {
			return Result{Script: s, Fault: &oracle.Fault{Promise: oracle.Accounted, At: a.At}}
		}
	}
	return Result{Script: s}
}

func TestAFailureShrinksToWhatItNeeds(t *testing.T) {
	t.Parallel()
	setup := Setup{Agents: 4, Replicas: 3, Trouble: 300}
	script := Script{Seed: 1, Setup: setup, Asks: everyAsk(setup)}
	for g := newGenerator(1, setup); len(script.Actions) < 3000; {
		script.Actions = append(script.Actions, g.action())
	}
	script.Busy = time.Hour
	whole := failing(script)
	if whole.Fault == nil {
		t.Fatal("the history does not fail")
	}
	s := shrinker{ctx: t.Context(), best: whole, run: failing, tried: func(int, int) {}}
	s.shrink()
	got := s.best.Script
	if len(got.Actions) != 2 || got.Actions[0].Kind != Cut || got.Actions[1].Kind != CrashAgent {
		t.Errorf("left are %v, want one cut and one crash", got.Actions)
	}
	if len(got.Asks) != 0 || got.Setup.Replicas != 1 || got.Busy >= time.Hour {
		t.Errorf("left are %d asks, %d replicas, %s: want 0, 1 and less than an hour", len(got.Asks), got.Setup.Replicas, got.Busy)
	}
	if s.runs > 400 {
		t.Errorf("%d histories were run for it, want a few hundred at most", s.runs)
	}
}

func TestAShrinkEnds(t *testing.T) {
	t.Parallel()
	setup := Setup{Agents: 2, Replicas: 1, Trouble: 100}
	script := Script{Seed: 1, Setup: setup, Busy: time.Hour}
	for g := newGenerator(2, setup); len(script.Actions) < 5000; {
		script.Actions = append(script.Actions, g.action())
	}
	all := func(s Script) Result { // every action is needed
		if len(s.Actions) < 5000 {
			return Result{Script: s}
		}
		return Result{Script: s, Fault: &oracle.Fault{Promise: oracle.Works, At: time.Hour}}
	}
	s := shrinker{ctx: t.Context(), best: all(script), run: all, tried: func(int, int) {}}
	s.shrink()
	if s.runs > mostShrinks || len(s.best.Script.Actions) != 5000 {
		t.Errorf("%d runs left %d actions, want at most %d runs and all 5000", s.runs, len(s.best.Script.Actions), mostShrinks)
	}
}
