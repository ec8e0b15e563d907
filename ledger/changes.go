package ledger

import (
	"cmp"
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
	var c Changes
	slices.SortFunc(b.dirtyPages, func(x, y *page) int { return CompareAccounts(x.ID, y.ID) })
	c.Accounts = make([]Account, len(b.dirtyPages))
	for i, p := range b.dirtyPages {
		c.Accounts[i] = *p.Account
	}
	c.NewGrants = inOrder(b.newGrants)
	c.Grants = inOrder(b.dirtyGrants)
	c.Folded = slices.SortedFunc(slices.Values(b.folded), CompareIDs)
	c.FoldedTally = b.foldedTallies
	for _, n := range b.interests {
		for _, p := range n.changed {
			c.Participants = append(c.Participants, p.Participant)
		}
	}
	slices.SortFunc(c.Participants, func(x, y Participant) int {
		return cmp.Or(compareKeys(x.Key, y.Key), CompareIDs(x.Agent, y.Agent))
	})
	for id := range b.dirtyIncarnations {
		c.Incarnations = append(c.Incarnations, *b.incarnations[id])
	}
	slices.SortFunc(c.Incarnations, func(x, y Incarnation) int { return CompareIDs(x.ID, y.ID) })
	c.Events = b.events
	c.Limits = b.limits
	c.Statements = slices.SortedFunc(maps.Values(b.statements), func(x, y Statement) int {
		return CompareAccounts(x.Account, y.Account)
	})
	return c
}

// inOrder copies grants in the order of their ids, those that were folded left out.
func inOrder(entries []*entry) []Grant {
	slices.SortFunc(entries, func(x, y *entry) int { return CompareIDs(x.ID, y.ID) })
	grants := make([]Grant, 0, len(entries))
	for _, g := range entries {
		if !g.folded {
			grants = append(grants, *g.Grant)
		}
	}
	return grants
}
