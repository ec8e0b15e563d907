package explore

// mostCalm is how many steps a world takes at most, once nothing disturbs it, to come to rest.
const mostCalm = 1000

// end lets a world come to rest after its horizon.
func (e *expansion) end(rs *replicas, s *state) {
	e.steps = s.rest(rs, nil)
	e.fault, e.rest = s.fault, s.fault == ""
}

// rest lets a world come to rest, and looks at what is then in the books. It counts the steps.
func (s *state) rest(rs *replicas, t *teller) int {
	do := t.or(s)
	for n := range mostCalm {
		steps := s.steps()
		if len(steps) == 0 {
			s.checkRest()
			return n
		}
		if do(rs, steps[0]); s.fault != "" {
			return n + 1
		}
	}
	s.broken("the world does not come to rest")
	return mostCalm
}

// quiet reports that nothing is on its way or due, in a state whose fate is not yet settled.
func (s *state) quiet() bool {
	for _, a := range s.agents {
		if len(a.callers) > 0 || len(a.inbox) > 0 || a.calls != [lanes]*call{} {
			return false
		}
	}
	return len(s.strays) == 0 && s.back == 0 && s.followed() && !s.busy() && !s.due()
}

// free is what the current window has for new callers. What a crashed agent held of a hard key is
// not free, nor is what another agent has.
func (s *state) free() int64 {
	now := s.ledgerClock()
	for _, row := range s.books.accounts {
		if row.ID.Window.Contains(now) {
			return int64(row.Headroom())
		}
	}
	return s.world.limitAt(s.version)
}

// probe lets a caller ask at each agent of a quiet state with free units.
func (e *expansion) probe(rs *replicas, s *state) {
	if !s.quiet() || s.free() < 1 {
		return
	}
	for i := range s.agents {
		e.probes++
		if e.fault = s.copy().insist(rs, i, nil); e.fault != "" {
			e.asker = i
			return
		}
	}
}

// insist lets a caller ask again and again: if nothing disturbs, one that asks long enough for every
// lease to end has to be served. It returns what went wrong.
func (s *state) insist(rs *replicas, i int, t *teller) string {
	s.left = Budget{Takes: 1}
	free, before := s.free(), s.truth.used
	do := t.or(s)
	for end := s.tick + 2*(s.world.TTL+s.world.Grace); s.tick <= end && s.fault == ""; {
		if s.truth.used != before {
			return ""
		}
		if len(s.agents[i].callers) == 0 && s.left.Takes > 0 {
			do(rs, step{take, uint8(i)})
			continue
		}
		next := s.undisturbed()
		if next.act == pass {
			s.left.Takes = 1 // one call a tick
		}
		do(rs, next)
	}
	if s.fault == "" {
		s.broken("%d units are free, and a caller who asks agent %d again and again is never served", free, i+1)
	}
	return s.fault
}

// undisturbed is the step that comes when nothing disturbs.
func (s *state) undisturbed() step {
	if list := s.ordinary(); len(list) > 0 {
		return list[0]
	}
	return step{pass, 0}
}
