package world

import (
	"context"
	"slices"
	"time"
)

// mostShrinks bounds how many histories a shrink runs.
const mostShrinks = 1500

// Shrink leaves out what a failing history does not need: whatever without which the same
// promise is still broken. tried is called after each history that was run. When ctx ends, what is
// left by then is the result.
func Shrink(ctx context.Context, failed Result, tried func(runs, actions int)) Result {
	s := shrinker{ctx: ctx, best: failed, tried: tried, run: func(s Script) Result { return Replay(s, nil) }}
	s.shrink()
	return s.best
}

type shrinker struct {
	ctx   context.Context // of the one call that it serves
	best  Result
	runs  int
	run   func(Script) Result
	tried func(runs, actions int)
}

func (s *shrinker) shrink() {
	// What was to happen after the fault has no part in it.
	s.try(func(x *Script) {
		x.Actions = slices.DeleteFunc(x.Actions, func(a Action) bool { return a.At > s.best.Fault.At })
	})
	s.try(func(x *Script) { x.Asks = nil })
	leaveOut(s, func(x *Script) *[]Action { return &x.Actions })
	leaveOut(s, func(x *Script) *[]Ask { return &x.Asks })
	s.fewerNodes()
	s.sooner()
	for i, a := range s.best.Script.Actions {
		if a.Kind == Take && a.Cost > 1 {
			s.try(func(x *Script) { x.Actions[i].Cost = 1 })
		}
	}
}

func (s *shrinker) done() bool { return s.runs >= mostShrinks || s.ctx.Err() != nil }

// try runs a changed script, and keeps it if it still breaks the same promise.
func (s *shrinker) try(change func(*Script)) bool {
	if s.done() {
		return false
	}
	script := s.best.Script
	script.Actions, script.Asks = slices.Clone(script.Actions), slices.Clone(script.Asks)
	change(&script)
	s.runs++
	r := s.run(script)
	s.tried(s.runs, len(s.best.Script.Actions))
	if r.Fault == nil || r.Fault.Promise != s.best.Fault.Promise {
		return false
	}
	s.best = r
	return true
}

// leaveOut leaves out parts of a list, large ones first, until no single one can go.
func leaveOut[T any](s *shrinker, list func(*Script) *[]T) {
	size := func() int { return len(*list(&s.best.Script)) }
	for chunk := max(1, size()/2); ; {
		went := false
		for at := 0; at < size(); {
			end := min(at+chunk, size())
			if s.try(func(x *Script) { *list(x) = slices.Delete(*list(x), at, end) }) {
				went = true
			} else {
				at = end
			}
		}
		if chunk == 1 && !went || s.done() {
			return
		}
		chunk = max(1, chunk/2)
	}
}

// fewerNodes leaves out agents and replicas.
func (s *shrinker) fewerNodes() {
	used := 0
	for _, a := range s.best.Script.Actions {
		used = max(used, a.Agent)
	}
	for _, a := range s.best.Script.Asks {
		used = max(used, a.Agent)
	}
	s.try(func(x *Script) { x.Setup.Agents = used + 1 })
	s.try(func(x *Script) { x.Setup.Replicas = 1 })
}

// sooner ends the busy part soon after the last action.
func (s *shrinker) sooner() {
	last := time.Duration(0)
	if n := len(s.best.Script.Actions); n > 0 {
		last = s.best.Script.Actions[n-1].At
	}
	for after := 500 * time.Millisecond; last+after < s.best.Script.Busy; after *= 2 {
		if s.try(func(x *Script) { x.Busy = last + after }) {
			return
		}
	}
}
