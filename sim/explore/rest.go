package explore

// mostCalm is how many steps a world takes at most, once nothing disturbs it, to come to rest.
const mostCalm = 1000

// end lets a world come to rest after its horizon, and looks at what is then in the books.
func (e *expansion) end(rs *replicas, s *state) {
	for range mostCalm {
		steps := s.steps()
		if len(steps) == 0 {
			e.rest = true
			s.checkRest()
			e.fault = s.fault
			return
		}
		s.do(rs, steps[0])
		if e.steps++; s.fault != "" {
			e.fault = s.fault
			return
		}
	}
	e.fault = "the world does not come to rest"
}
