package ledger

import (
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Spend is one item of the exact lane: recorded before it is allowed, idempotent by id,
// void after NotAfter (ledger time as the agent estimates it; 3.14).
type Spend struct {
	ID       ID
	Account  AccountID
	Agent    ID
	Region   string
	Cost     Units
	NotAfter time.Time // zero: no limit
}

// Spend decides on one item. Items of one batch are decided in the order given; one that
// does not fit leaves room for smaller ones behind it.
func (b *Book) Spend(s Spend, terms Terms) (Answer, error) {
	if s.Cost < 1 {
		return Answer{}, refuse(CodeInvalid, s.ID, "cost", "1 or more")
	}
	if terms.Kind == quota.Concurrency {
		return Answer{}, refuse(CodeInvalid, s.ID, "key", "a key that is spent: slots are leased, also one by one")
	}
	if g, ok := b.grants[s.ID]; ok {
		return b.repeat(g.Grant, s.sameTerms(g.Grant))
	}
	a, _, err := b.decidable(s.ID, s.Account, terms)
	if err != nil {
		return Answer{}, err
	}
	return b.enterSpend(s, a, b.whyNotSpend(s, a, s.Cost))
}

// sameTerms reports that a record is one of this item.
func (s Spend) sameTerms(g *Grant) bool {
	same := g.Kind == KindSpend && g.Account.Key == s.Account.Key && g.Agent == s.Agent && g.Asked == s.Cost
	return same || g.State == Withdrawn && g.Agent == s.Agent
}

// whyNotSpend says what keeps an item from being spent if it takes sum from its account;
// quota.Allowed if nothing does.
func (b *Book) whyNotSpend(s Spend, a *page, sum Units) quota.Reason {
	switch {
	case !s.NotAfter.IsZero() && b.nowAt(a.Account).After(s.NotAfter):
		return quota.Stale
	case sum <= a.spendable():
		return quota.Allowed
	}
	return b.whyNot(a, sum)
}

// enterSpend records what was decided on an item.
func (b *Book) enterSpend(s Spend, a *page, reason quota.Reason) (Answer, error) {
	b.see(b.interestOf(a), s.Agent, s.Region, 0, a.Terms)
	before := *a.Account
	g := Grant{
		ID: s.ID, Account: s.Account, Kind: KindSpend, State: Denied, Class: a.Class, Agent: s.Agent,
		Region: s.Region, Asked: s.Cost, Need: s.Cost, Generation: a.Generation,
		PolicyVersion: a.PolicyVersion, IssuedAt: b.nowAt(a.Account),
	}
	switch reason {
	case quota.Allowed:
		g.State, g.Amount, g.Taken = Final, s.Cost, s.Cost
	case quota.Stale, quota.Cancelled:
		g.Reason = reason
	default:
		b.deny(a, &g, reason)
	}
	return b.enter(a, before, g)
}

// refund takes a spend back, once, however often it is asked for.
func (b *Book) refund(g *entry) error {
	if g.State != Final || g.Refunded == g.Taken {
		return nil
	}
	if !g.of.locked {
		return ErrNotLocked
	}
	after := *g.Grant
	after.Refunded = after.Taken
	after.normalise()
	return b.change(g.of, after)
}
