package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/quotalease/quotalease/ledger"
)

// bill adds what a transaction wrote for statements, and keeps the list of accounts whose
// statement is not final.
func (s *Store) bill(c ledger.Changes) {
	for _, l := range c.Limits {
		a := s.accounts[l.Account]
		a.limits = append(a.limits, l)
	}
	for _, st := range c.Statements {
		a := s.accounts[st.Account]
		a.statements = append(a.statements, st)
	}
	for _, a := range c.Accounts {
		if at := statementDue(&a); at.IsZero() {
			delete(s.unstated, a.ID)
		} else {
			s.unstated[a.ID] = at
		}
	}
}

// statementDue is when time has something to write for the account's statement; zero: never.
func statementDue(a *ledger.Account) time.Time {
	if a.ID.Window.Endless() || a.Kind == 0 {
		return time.Time{}
	}
	if a.ClosedAt.IsZero() {
		return a.ID.Window.End.Add(a.Grace)
	}
	return a.FinalBy()
}

// Unstated implements ledger.Billing.
func (s *Store) Unstated(ctx context.Context, limit int) ([]ledger.AccountID, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	var due []ledger.AccountID
	for id, at := range s.unstated {
		if !at.After(now) {
			due = append(due, id)
		}
	}
	slices.SortFunc(due, func(x, y ledger.AccountID) int {
		return cmp.Or(s.unstated[x].Compare(s.unstated[y]), ledger.CompareAccounts(x, y))
	})
	return first(due, limit), nil
}

// Statements implements ledger.Billing.
func (s *Store) Statements(ctx context.Context, q ledger.StatementQuery) ([]ledger.Statement, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*account
	for id, a := range s.accounts {
		if len(a.statements) > 0 && matchesStatement(q, &a.row) && ledger.CompareAccounts(id, q.After) > 0 {
			found = append(found, a)
		}
	}
	slices.SortFunc(found, func(x, y *account) int { return ledger.CompareAccounts(x.row.ID, y.row.ID) })
	var list []ledger.Statement
	for _, a := range first(found, q.Limit) {
		from := len(a.statements) - 1
		if q.Revisions {
			from = 0
		}
		list = append(list, a.statements[from:]...)
	}
	return list, nil
}

func matchesStatement(q ledger.StatementQuery, a *ledger.Account) bool {
	key, window := a.ID.Key, a.ID.Window
	switch {
	case q.Tenant != "" && q.Tenant != key.Tenant:
	case q.Dimension != "" && q.Dimension != key.Dimension:
	case !q.From.IsZero() && window.Start.Before(q.From):
	case !q.To.IsZero() && !window.Start.Before(q.To):
	case q.FinalOnly && a.FinalAt.IsZero():
	default:
		return true
	}
	return false
}

// LimitHistory implements ledger.Billing.
func (s *Store) LimitHistory(ctx context.Context, accounts []ledger.AccountID) ([]ledger.LimitChange, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []ledger.LimitChange
	for _, id := range slices.Compact(slices.SortedFunc(slices.Values(accounts), ledger.CompareAccounts)) {
		if a, ok := s.accounts[id]; ok {
			list = append(list, a.limits...)
		}
	}
	return list, nil
}
