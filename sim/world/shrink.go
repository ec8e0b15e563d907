package world

import (
	"slices"
	"time"

	"github.com/quotalease/quotalease/sim/oracle"
)

// mostShrinks bounds how many histories a shrink runs.
const mostShrinks = 1500

// Shrink leaves out what a failing history does not need: every action without which the same
// promise is still broken. tried is called after each history that was run.
func Shrink(failed Result, tried func(runs, actions int)) Result {
	s := shrinker{best: failed, promise: failed.Fault.Promise, tried: tried}
	// What was to happen after the fault has no part in it, unless it was found at rest.
	s.without(func(list []Action) []Action {
		return slices.DeleteFunc(list, func(a Action) bool { return a.At > failed.Fault.At })
	})
	for chunk := len(s.best.Script.Actions) / 2; chunk > 0 && s.runs < mostShrinks; {
		if s.pass(chunk) && chunk == 1 {
			continue
		}
		chunk /= 2
	}
	s.simplify()
	return s.best
}

type shrinker struct {
	best    Result
	promise oracle.Promise
	runs    int
	tried   func(runs, actions int)
}

// pass leaves out one chunk after the other, and reports whether any could go.
func (s *shrinker) pass(chunk int) (any bool) {
	for at := 0; at < len(s.best.Script.Actions) && s.runs < mostShrinks; {
		end := min(at+chunk, len(s.best.Script.Actions))
		if s.without(func(list []Action) []Action { return slices.Delete(list, at, end) }) {
			any = true
			continue
		}
		at = end
	}
	return any
}

// without tries a history with fewer or other actions, and keeps it if it still fails alike.
func (s *shrinker) without(change func([]Action) []Action) bool {
	script := s.best.Script
	script.Actions = change(slices.Clone(script.Actions))
	if len(script.Actions) == 0 {
		return false
	}
	s.runs++
	r := Replay(script, nil)
	s.tried(s.runs, len(s.best.Script.Actions))
	if r.Fault == nil || r.Fault.Promise != s.promise {
		return false
	}
	s.best = r
	return true
}

// simplify ends the busy part soon after the last action, and makes costs one.
func (s *shrinker) simplify() {
	script := s.best.Script
	last := script.Actions[len(script.Actions)-1].At
	for after := 500 * time.Millisecond; last+after < script.Busy; after *= 2 {
		short := script
		short.Busy = last + after
		s.runs++
		if r := Replay(short, nil); r.Fault != nil && r.Fault.Promise == s.promise {
			s.best = r
			break
		}
	}
	for i, a := range s.best.Script.Actions {
		if a.Kind == Take && a.Cost > 1 && s.runs < mostShrinks {
			s.without(func(list []Action) []Action { list[i].Cost = 1; return list })
		}
	}
}
