package explore

import (
	"slices"
	"time"

	"github.com/quotalease/quotalease/ledger/memory"
)

// database is the real ledger in memory, and the clock that it reads.
type database struct {
	store *memory.Store
	clock func() time.Time // the store's
	shows time.Time
}

func newDatabase() *database {
	db := &database{}
	db.clock = db.now
	db.store = memory.New(db.clock)
	return db
}

func (db *database) now() time.Time { return db.shows }

func (db *database) copy() *database {
	return copyOf(db, func(c *copier, to *database) {
		to.clock = to.now
		replaceFunc(c, &db.clock, &to.clock)
	})
}

func (a *agent) copy() *agent {
	to := copyOf(a, func(*copier, *agent) {})
	for _, c := range to.callers {
		c.waiter.Done = c.hear
	}
	return to
}

// copy returns a state that changes without s. The two share each agent, and the database, until one
// of them is about to change it: most steps touch one or two.
func (s *state) copy() *state {
	s.owns = [maxAgents + 1]bool{}
	to := *s
	to.agents, to.strays = slices.Clone(s.agents), slices.Clone(s.strays)
	return &to
}

// mine is an agent that is about to change.
func (s *state) mine(i int) *agent {
	if !s.owns[i] {
		s.agents[i], s.owns[i] = s.agents[i].copy(), true
	}
	s.agents[i].print = nil
	return s.agents[i]
}

// store is the ledger, for any use: even to read it takes its lock and its clock.
func (s *state) store() *memory.Store {
	if !s.owns[maxAgents] {
		s.db, s.owns[maxAgents] = s.db.copy(), true
	}
	s.db.shows = s.ledgerClock()
	return s.db.store
}
