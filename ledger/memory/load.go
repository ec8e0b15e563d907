package memory

import (
	"cmp"
	"slices"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// load reads what a scope names, as copies. Grants come oldest decision first: that is the
// order in which the rules move held units.
func (s *Store) load(scope ledger.Scope) ledger.Loaded {
	l := ledger.Loaded{
		Now: quota.At(s.now()), ClockSuspect: s.clockSuspect,
		PolicyVersion: s.policyVersion, Retention: s.retention,
	}
	seen := map[ledger.ID]bool{}
	take := func(r *record) {
		if !seen[r.grant.ID] {
			seen[r.grant.ID] = true
			l.Grants = append(l.Grants, r.grant)
		}
	}
	keys, within := map[quota.Key]bool{}, seenWithin
	ids := slices.SortedFunc(slices.Values(scope.Accounts), ledger.CompareAccounts)
	for _, id := range slices.Compact(ids) {
		keys[id.Key] = true
		a, ok := s.accounts[id]
		if !ok {
			l.Accounts = append(l.Accounts, ledger.Account{ID: id})
			continue
		}
		l.Accounts = append(l.Accounts, a.row)
		within = max(within, a.row.TTL+a.row.Grace)
		s.loadGrants(a, scope, l, take)
	}
	for key := range keys {
		l.Participants = append(l.Participants, s.participantsOf(key, l.Now.Add(-within))...)
	}
	for _, id := range scope.Grants {
		if r, ok := s.grants[id]; ok {
			take(r)
		}
	}
	slices.SortFunc(l.Grants, func(x, y ledger.Grant) int {
		return cmp.Or(x.IssuedAt.Compare(y.IssuedAt), ledger.CompareIDs(x.ID, y.ID))
	})
	known := map[ledger.ID]bool{}
	for _, id := range scope.Agents {
		if inc, ok := s.incarnations[id]; ok && !known[id] {
			known[id] = true
			l.Incarnations = append(l.Incarnations, cloned(inc))
		}
	}
	return l
}

func (s *Store) loadGrants(a *account, scope ledger.Scope, l ledger.Loaded, take func(*record)) {
	held := ledger.HeldBatch
	if scope.Held {
		held = ledger.ReleaseBatch
	}
	for _, r := range a.held.list[:min(len(a.held.list), held)] {
		take(r)
	}
	now := l.Now
	if a.row.Clock.After(now) {
		now = a.row.Clock // what is due is due by the account's own, ratcheted clock
	}
	for _, r := range a.live.list[:min(len(a.live.list), ledger.DueBatch)] {
		if r.grant.ClosesAt.After(now) {
			break
		}
		take(r)
	}
	for _, r := range a.ending.list[:min(len(a.ending.list), ledger.DueBatch)] {
		if r.grant.EndsAt.After(now) {
			break
		}
		take(r)
	}
	for _, agent := range scope.Agents {
		if of, ok := a.ofAgent[agent]; ok {
			for _, r := range of.list {
				take(r)
			}
		}
	}
	if scope.Live {
		for _, r := range a.live.list {
			take(r)
		}
	}
	if !scope.FoldOld.IsZero() {
		for _, r := range a.old.list[:min(len(a.old.list), ledger.FoldBatch)] {
			if !r.grant.UpdatedAt.Before(scope.FoldOld) {
				break
			}
			take(r)
		}
	}
}

// seenWithin is how far back participants are loaded, if no lease of the key lives longer.
const seenWithin = time.Hour

// participantsOf lists a key's participants that count now or soon. Older ones wait for Prune.
func (s *Store) participantsOf(key quota.Key, since time.Time) []ledger.Participant {
	of := s.participants[key]
	list := make([]ledger.Participant, 0, len(of))
	for _, p := range of {
		if p.LastSeen.After(since) {
			list = append(list, p)
		}
	}
	return list
}
