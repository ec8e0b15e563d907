package memory

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/quotalease/quotalease/ledger"
)

// Verify implements ledger.Keeper. The store is locked all the while: that is its snapshot.
func (s *Store) Verify(
	ctx context.Context, found func(ledger.Difference), progress func(accounts, grants int),
) (ledger.Verified, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var v ledger.Verified
	for _, id := range slices.SortedFunc(maps.Keys(s.accounts), ledger.CompareAccounts) {
		if err := ctx.Err(); err != nil {
			return v, err
		}
		a := s.accounts[id]
		audit := ledger.NewAudit(a.row, a.folded)
		for _, r := range a.all {
			audit.Add(r.grant, r.tally)
			v.Grants++
		}
		for _, d := range audit.Done() {
			v.Differences++
			found(d)
		}
		v.Accounts++
		progress(v.Accounts, v.Grants)
	}
	return v, nil
}

// Foldable implements ledger.Keeper.
func (s *Store) Foldable(
	ctx context.Context, before time.Time, after ledger.ID, limit int,
) ([]ledger.AccountID, ledger.ID, error) {
	if err := ctx.Err(); err != nil {
		return nil, ledger.ID{}, err
	}
	if limit <= 0 {
		limit = defaultLimit
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	from, met := slices.BinarySearchFunc(s.byID.list, after, func(r *record, id ledger.ID) int {
		return ledger.CompareIDs(r.grant.ID, id)
	})
	if met {
		from++
	}
	young := ledger.LowestID(before)
	var accounts []ledger.AccountID
	var next ledger.ID
	for i, r := range s.byID.list[from:] {
		if ledger.CompareIDs(r.grant.ID, young) >= 0 {
			break
		}
		if r.grant.Foldable(s.accounts[r.grant.Account].row.Kind) && r.grant.UpdatedAt.Before(before) {
			accounts = append(accounts, r.grant.Account)
		}
		if i+1 == limit {
			next = r.grant.ID
			break
		}
	}
	slices.SortFunc(accounts, ledger.CompareAccounts)
	return slices.Compact(accounts), next, nil
}

// Prune implements ledger.Keeper.
func (s *Store) Prune(ctx context.Context, recordsBefore, accountsBefore time.Time) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var n int64
	kept := slices.DeleteFunc(s.events, func(e ledger.Event) bool { return e.At.Before(recordsBefore) })
	n += int64(len(s.events) - len(kept))
	s.events = kept
	for id, inc := range s.incarnations {
		if inc.LastSeen.Before(recordsBefore) {
			delete(s.incarnations, id)
			n++
		}
	}
	for key, of := range s.participants {
		n += int64(of.prune(recordsBefore))
		if len(of.list) == 0 {
			delete(s.participants, key)
		}
	}
	for id, a := range s.accounts {
		over := !id.Window.Endless() && id.Window.End.Before(accountsBefore)
		if !over && (len(a.live.list) > 0 || !a.row.Forgettable(accountsBefore)) {
			continue
		}
		for grant := range a.all {
			s.drop(grant)
			n++
		}
		delete(s.accounts, id)
		delete(s.unstated, id)
		n++
	}
	return n, nil
}

// Tamper changes an account behind the rules' back, so that tests can see it being found.
func (s *Store) Tamper(id ledger.AccountID, change func(*ledger.Account)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a, ok := s.accounts[id]; ok {
		change(&a.row)
	}
}
