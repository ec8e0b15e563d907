package controlplane

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// part names what can keep a replica from serving.
type part string

const (
	partPolicy part = "policy"
	partDir    part = "policy directory"
	partLedger part = "ledger"
	partClock  part = "clock"
	partLoops  part = "replica"
)

// health holds what is wrong with a replica now, by part.
type health struct {
	mu     sync.Mutex // guards faults and notes
	faults map[part]error
	notes  map[part]error
}

// newHealth begins with everything that a replica has to see once before it may serve.
func newHealth(policyDir bool) *health {
	h := &health{faults: map[part]error{}, notes: map[part]error{}}
	h.faults[partLoops] = errors.New("not started")
	h.faults[partPolicy] = errors.New("not loaded yet")
	h.faults[partLedger] = errors.New("not reached yet")
	if policyDir {
		h.faults[partDir] = errors.New("not read yet")
	}
	return h
}

// set records a fault of a part, or that there is none.
func (h *health) set(p part, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.notes, p)
	if err == nil {
		delete(h.faults, p)
		return
	}
	h.faults[p] = err
}

// setDir records what a reading of the policy directory gave. Before the first good reading a
// bad file keeps the replica from serving, so that a rollout stops at it. Afterwards the last
// good policy goes on, and the fault is a note: one typo must not take a whole fleet away.
func (h *health) setDir(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, unread := h.faults[partDir]
	switch {
	case err == nil:
		delete(h.faults, partDir)
		delete(h.notes, partDir)
	case unread:
		h.faults[partDir] = err
	default:
		h.notes[partDir] = err
	}
}

func (h *health) ready() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return joined(h.faults)
}

func (h *health) noted() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return joined(h.notes)
}

func joined(faults map[part]error) error {
	var errs []error
	for p, err := range faults {
		errs = append(errs, fmt.Errorf("%s: %w", p, err))
	}
	slices.SortFunc(errs, func(x, y error) int { return strings.Compare(x.Error(), y.Error()) })
	return errors.Join(errs...)
}
