package memory

import "errors"

// Outcome is how a commit ends. Tests and simulations choose it with OnCommit.
type Outcome int

// Outcomes of a commit.
const (
	Committed Outcome = iota
	Conflict          // nothing is written, and the batch is submitted again
	Unknown           // all is written, but nobody hears of it: the batch is submitted again
	Broken            // nothing is written, and Update returns ErrBroken
)

// ErrBroken is what Update returns for a commit that was made to fail.
var ErrBroken = errors.New("the store was told to break")

// OnCommit sets what decides how each commit ends; nil restores commits that succeed. choose
// is called with the store locked and must not use it.
func (s *Store) OnCommit(choose func() Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onCommit = choose
}

func (s *Store) outcome() Outcome {
	if s.onCommit == nil {
		return Committed
	}
	return s.onCommit()
}
