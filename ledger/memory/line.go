package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// UpdateLine implements ledger.Lines. The mutex is held while fn runs: fn must not use the store.
func (s *Store) UpdateLine(ctx context.Context, id ledger.LineID, fn func(*ledger.Line) error) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if done, err := s.attemptLine(id, fn); done || err != nil {
			return err
		}
	}
}

func (s *Store) attemptLine(id ledger.LineID, fn func(*ledger.Line) error) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := ledger.NewLine(ledger.LoadedLine{
		ID: id, Now: quota.At(s.now()), ClockSuspect: s.clockSuspect, Tickets: slices.Clone(s.lines[id]),
	})
	if err := fn(line); err != nil {
		return true, err
	}
	switch s.outcome() {
	case Conflict:
		return false, nil
	case Broken:
		return true, ErrBroken
	case Unknown:
		s.putLine(id, line)
		return false, nil
	default:
		s.putLine(id, line)
		return true, nil
	}
}

func (s *Store) putLine(id ledger.LineID, line *ledger.Line) {
	if len(line.Tickets()) == 0 {
		delete(s.lines, id)
		return
	}
	s.lines[id] = slices.Clone(line.Tickets())
}

// Lines implements ledger.Lines.
func (s *Store) Lines(ctx context.Context, after ledger.LineID, limit int) ([]ledger.LineState, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []ledger.LineState
	for _, id := range slices.SortedFunc(maps.Keys(s.lines), ledger.CompareLines) {
		if ledger.CompareLines(id, after) > 0 && len(all) < cmp.Or(max(limit, 0), defaultLimit) {
			all = append(all, ledger.StateOfLine(id, s.lines[id]))
		}
	}
	return all, nil
}

// Waiting implements ledger.Lines.
func (s *Store) Waiting(ctx context.Context, q ledger.WaitingQuery) ([]ledger.Waiting, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []ledger.Waiting
	for _, id := range slices.SortedFunc(maps.Keys(s.lines), ledger.CompareLines) {
		if q.Tenant != "" && id.Tenant != q.Tenant || q.Operation != "" && id.Operation != q.Operation {
			continue
		}
		place := 0
		for _, t := range s.lines[id] {
			if t.Lapsed(q.At) {
				continue
			}
			if len(all) == cmp.Or(max(q.Limit, 0), defaultLimit) {
				return all, nil
			}
			all = append(all, ledger.Waiting{Line: id, Place: place, Ticket: t})
			place++
		}
	}
	return all, nil
}
