package memory

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

const defaultLimit = 1000

// Due implements ledger.Store.
func (s *Store) Due(ctx context.Context, limit int) ([]ledger.AccountID, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	seen := map[ledger.AccountID]bool{}
	var due []ledger.AccountID
	for closing, ending := s.due.list, s.ending.list; len(due) < limit; {
		next, at := soonest(&closing, &ending)
		if next == nil || at.After(now) {
			break
		}
		if !seen[next.grant.Account] {
			seen[next.grant.Account] = true
			due = append(due, next.grant.Account)
		}
	}
	return due, nil
}

// soonest takes the next of what is to close and what is to end, with its time.
func soonest(closing, ending *[]*record) (*record, time.Time) {
	c, e := *closing, *ending
	switch {
	case len(c) > 0 && (len(e) == 0 || !c[0].grant.ClosesAt.After(e[0].grant.EndsAt)):
		*closing = c[1:]
		return c[0], c[0].grant.ClosesAt
	case len(e) > 0:
		*ending = e[1:]
		return e[0], e[0].grant.EndsAt
	}
	return nil, time.Time{}
}

// Accounts implements ledger.Reader.
func (s *Store) Accounts(ctx context.Context, q ledger.AccountQuery) ([]ledger.Account, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []ledger.Account
	for id, a := range s.accounts {
		if matchesAccount(q, &a.row) && ledger.CompareAccounts(id, q.After) > 0 {
			found = append(found, a.row)
		}
	}
	slices.SortFunc(found, func(x, y ledger.Account) int { return ledger.CompareAccounts(x.ID, y.ID) })
	return first(found, q.Limit), nil
}

func matchesAccount(q ledger.AccountQuery, a *ledger.Account) bool {
	key, window := a.ID.Key, a.ID.Window
	switch {
	case q.Tenant != "" && q.Tenant != key.Tenant:
	case q.Dimension != "" && q.Dimension != key.Dimension:
	case !q.At.IsZero() && !window.Contains(q.At):
	case q.PolicyBefore != 0 && a.PolicyVersion >= q.PolicyBefore:
	case !q.WindowEndedBy.IsZero() && (window.Endless() || window.End.After(q.WindowEndedBy)):
	default:
		return true
	}
	return false
}

// Grants implements ledger.Reader.
func (s *Store) Grants(ctx context.Context, q ledger.GrantQuery) ([]ledger.Grant, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []ledger.Grant
	if !q.ID.IsNil() {
		if r, ok := s.grants[q.ID]; ok && matchesGrant(q, &r.grant) {
			found = append(found, r.grant)
		}
		return found, nil
	}
	for _, r := range s.grants {
		if matchesGrant(q, &r.grant) {
			found = append(found, r.grant)
		}
	}
	slices.SortFunc(found, func(x, y ledger.Grant) int { return ledger.CompareIDs(y.ID, x.ID) })
	return first(found, q.Limit), nil
}

func matchesGrant(q ledger.GrantQuery, g *ledger.Grant) bool {
	key := g.Account.Key
	switch {
	case q.Key.Tenant != "" && q.Key != key:
	case q.Tenant != "" && q.Tenant != key.Tenant:
	case q.Dimension != "" && q.Dimension != key.Dimension:
	case !q.Agent.IsNil() && q.Agent != g.Agent:
	case len(q.States) > 0 && !slices.Contains(q.States, g.State):
	case !q.Before.IsNil() && ledger.CompareIDs(g.ID, q.Before) >= 0:
	default:
		return true
	}
	return false
}

// Incarnations implements ledger.Reader.
func (s *Store) Incarnations(ctx context.Context, seenSince time.Time) ([]ledger.Incarnation, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []ledger.Incarnation
	for _, inc := range s.incarnations {
		if !inc.LastSeen.Before(seenSince) {
			found = append(found, cloned(inc))
		}
	}
	slices.SortFunc(found, func(x, y ledger.Incarnation) int { return ledger.CompareIDs(x.ID, y.ID) })
	return found, nil
}

// Holdings implements ledger.Reader.
func (s *Store) Holdings(ctx context.Context) ([]ledger.Holding, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	byAgent := map[ledger.ID]ledger.Holding{}
	for _, a := range s.accounts {
		for _, r := range a.live.list {
			h := byAgent[r.grant.Agent]
			h.Agent = r.grant.Agent
			h.Leases++
			sum, err := h.Outstanding.Add(r.tally.Outstanding)
			if err != nil {
				sum = quota.MaxUnits
			}
			h.Outstanding = sum
			byAgent[h.Agent] = h
		}
	}
	return slices.SortedFunc(maps.Values(byAgent), func(x, y ledger.Holding) int { return ledger.CompareIDs(x.Agent, y.Agent) }), nil
}

// Events implements ledger.Reader.
func (s *Store) Events(ctx context.Context, after int64, limit int) ([]ledger.Event, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	from, _ := slices.BinarySearchFunc(s.events, after+1, func(e ledger.Event, id int64) int { return int(e.ID - id) })
	return slices.Clone(first(s.events[from:], limit)), nil
}

func first[T any](list []T, limit int) []T {
	if limit <= 0 {
		limit = defaultLimit
	}
	return list[:min(len(list), limit)]
}
