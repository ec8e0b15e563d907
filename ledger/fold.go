package ledger

import (
	"slices"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Fold forgets the account's settled grants that nobody has touched since before: their
// tallies are summed into the account's folded tally, which Verify adds to what remains. A
// grant with units in O, H or U is never folded (3.10), nor one whose id would be accepted
// as a new one, nor unleased use, whose id serves as long as its window: those are few and go
// with their account. It returns how many went.
func (b *Book) Fold(id AccountID, before time.Time) (int, error) {
	a, ok := b.locked(id)
	if !ok {
		return 0, ErrNotLocked
	}
	n := 0
	sum := b.foldedTallies[id]
	for _, g := range a.grants {
		if !g.Foldable(a.Kind) || !g.UpdatedAt.Before(before) || !b.forgettable(g.ID) {
			continue
		}
		next, err := sum.plus(g.Tally(), 1)
		if err != nil {
			return n, err
		}
		sum = next
		g.folded = true
		b.folded = append(b.folded, g.ID)
		delete(b.grants, g.ID)
		n++
	}
	if n > 0 {
		b.foldedTallies[id] = sum
		a.grants = slices.DeleteFunc(a.grants, func(g *entry) bool { return g.folded })
		a.cleared = 0
	}
	return n, nil
}

// Foldable reports that nothing of a grant in an account of a kind is outstanding, held or
// uncertain and that it may go. What time has yet to end stays: slots in use of a closed lease,
// and an allowance for an outage without its final report. What a closed lease of a rate key did
// not confirm is spent, and stays in the sum: the account lasts for ever, and would keep one for
// each agent that ever vanished.
func (g *Grant) Foldable(kind quota.Kind) bool {
	t := g.Tally()
	waits := g.State == Closed && (g.Kind == KindSlots || g.Kind == KindEmergency)
	return g.State != Live && g.Kind != KindUnleased && !waits &&
		(kind == quota.RateLimit || t.Outstanding == 0 && t.Held == 0 && t.Uncertain == 0)
}

// Forgettable reports that an account, of which nothing changed since before, knows no more than
// a new one would: a rate key whose bucket was full again by then, a concurrency key of which no
// slot is in use, held or uncertain. Their windows never end, so this is when they go; a
// period key without an end is a quota for life, and stays. No lease of it may be live. An account
// without a clock was only ever written by readings that cannot be trusted: how old it is, nobody
// knows.
func (a *Account) Forgettable(before time.Time) bool {
	if !a.ID.Window.Endless() || a.Clock.IsZero() || !a.Clock.Before(before) || a.Outstanding != 0 {
		return false
	}
	switch a.Kind {
	case quota.RateLimit:
		return !a.metered() || a.Refilled(before).Bucket.Spent <= 0
	case quota.Concurrency:
		return a.charged()+a.Uncertain == 0
	}
	return false
}
