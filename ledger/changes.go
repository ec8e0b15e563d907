package ledger

import (
	"maps"
	"slices"
)

// Changes is what a store has to write.
type Changes struct {
	Accounts     []Account
	NewGrants    []Grant
	Grants       []Grant // changed ones
	Folded       []ID    // settled grants to delete, their tallies now in FoldedTally
	FoldedTally  map[AccountID]Tally
	Participants []Participant
	Incarnations []Incarnation
	Events       []Event
	Limits       []LimitChange // in the order in which they happened
	Statements   []Statement   // at most one revision an account
}

// Changes returns what the rules changed, in a stable order.
func (b *Book) Changes() Changes {
	accounts := make([]*Account, len(b.dirtyPages))
	for i, p := range b.dirtyPages {
		accounts[i] = p.Account
	}
	var participants []*Participant
	for _, n := range b.interests {
		for i := range n.changed {
			participants = append(participants, &n.changed[i].Participant)
		}
	}
	incarnations := make([]*Incarnation, 0, len(b.dirtyIncarnations))
	for id := range b.dirtyIncarnations {
		incarnations = append(incarnations, b.incarnations[id])
	}
	return Changes{
		Accounts:    sorted(accounts, func(x, y *Account) int { return CompareAccounts(x.ID, y.ID) }),
		NewGrants:   kept(b.newGrants),
		Grants:      kept(b.dirtyGrants),
		Folded:      slices.SortedFunc(slices.Values(b.folded), CompareIDs),
		FoldedTally: b.foldedTallies,
		Participants: sorted(participants, func(x, y *Participant) int {
			if x.Key != y.Key {
				return compareKeys(x.Key, y.Key)
			}
			return CompareIDs(x.Agent, y.Agent)
		}),
		Incarnations: sorted(incarnations, func(x, y *Incarnation) int { return CompareIDs(x.ID, y.ID) }),
		Events:       b.events,
		Limits:       b.limits,
		Statements: slices.SortedFunc(maps.Values(b.statements), func(x, y Statement) int {
			return CompareAccounts(x.Account, y.Account)
		}),
	}
}

// kept copies grants in the order of their ids, those that were folded left out.
func kept(entries []*entry) []Grant {
	grants := make([]*Grant, 0, len(entries))
	for _, g := range entries {
		if !g.folded {
			grants = append(grants, g.Grant)
		}
	}
	return sorted(grants, func(x, y *Grant) int { return CompareIDs(x.ID, y.ID) })
}

// sorted copies what is listed in order.
func sorted[T any](list []*T, compare func(x, y *T) int) []T {
	slices.SortFunc(list, compare)
	copies := make([]T, len(list))
	for i, x := range list {
		copies[i] = *x
	}
	return copies
}
