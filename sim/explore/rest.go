package explore

// look holds a state against what has to come of it.
func (e *expansion) look(rs *replicas, s *state, atEnd bool) {
	if atEnd {
		e.rest = true
		if s.checkRest(); s.fault != "" {
			e.fault = s.fault
		}
		return
	}
	if s.tick > s.world.Horizon+patience {
		e.fault = "the world does not come to rest"
	}
}

// patience is how many ticks after its horizon a world has to be at rest.
const patience = 40
