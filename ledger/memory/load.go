package memory

import (
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
		PolicyVersion: s.policyVersion, Retention: s.retention, Participants: map[quota.Key][]ledger.Participant{},
	}
	l.Accounts = make([]ledger.Account, 0, len(scope.Accounts))
	l.Incarnations = make([]ledger.Incarnation, 0, len(scope.Agents))
	var taken []*record
	s.loads++
	take := func(r *record) {
		if r.load != s.loads {
			r.load = s.loads
			taken = append(taken, r)
		}
	}
	holders := map[ledger.AccountID][]ledger.ID{}
	for _, h := range scope.Holders {
		holders[h.Account] = append(holders[h.Account], h.Agent)
	}
	ids := slices.SortedFunc(slices.Values(scope.Accounts), ledger.CompareAccounts)
	for _, id := range slices.Compact(ids) {
		if of, ok := s.participants[id.Key]; ok {
			l.Participants[id.Key] = of.list
		}
		a, ok := s.accounts[id]
		if !ok {
			l.Accounts = append(l.Accounts, ledger.Account{ID: id})
			continue
		}
		l.Accounts = append(l.Accounts, a.row)
		s.loadGrants(a, scope, holders[id], l, take)
	}
	for _, id := range scope.Grants {
		if r, ok := s.grants[id]; ok {
			take(r)
		}
	}
	slices.SortFunc(taken, oldestIssued)
	l.Grants = make([]ledger.Grant, len(taken))
	for i, r := range taken {
		l.Grants[i] = r.grant
	}
	for _, id := range slices.Compact(slices.SortedFunc(slices.Values(scope.Agents), ledger.CompareIDs)) {
		if inc, ok := s.incarnations[id]; ok {
			l.Incarnations = append(l.Incarnations, cloned(inc))
		}
	}
	return l
}

func (s *Store) loadGrants(a *account, scope ledger.Scope, holders []ledger.ID, l ledger.Loaded, take func(*record)) {
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
	for _, agent := range holders {
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

// interest is the participants of one key, by agent. A transaction reads the list itself, which
// only its own commit changes.
type interest struct {
	list []ledger.Participant
}

func (c *interest) put(p ledger.Participant) {
	i, ok := slices.BinarySearchFunc(c.list, p.Agent, func(known ledger.Participant, id ledger.ID) int {
		return ledger.CompareIDs(known.Agent, id)
	})
	if !ok {
		c.list = slices.Insert(c.list, i, ledger.Participant{})
	}
	c.list[i] = p
}

// prune removes those not seen since before, and says how many there were.
func (c *interest) prune(before time.Time) int {
	was := len(c.list)
	c.list = slices.DeleteFunc(c.list, func(p ledger.Participant) bool { return p.LastSeen.Before(before) })
	return was - len(c.list)
}
