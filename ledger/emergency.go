package ledger

import (
	"math"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// anyTimeAhead: an allowance for the next window may be taken at any time in the present one,
// because an outage that lasts into it may begin at any time. Which window is the next is the
// calendar's to say.
const anyTimeAhead = time.Duration(math.MaxInt64)

// askEmergency decides on an allowance for an outage: units that its agent may use, up to the
// end of the window, while the ledger cannot be reached (section 6). It comes from the pot that
// policy gives each window and needs no headroom. All that is authorised and not confirmed
// unspent stays charged to the pot, whoever died with it, so that E is at most the pot however
// many agents ask, however long outages last and however often they come.
func (b *Book) askEmergency(ask Ask, terms Terms) (Answer, error) {
	if ask.Account.Window.Endless() {
		return Answer{}, refuse(CodeInvalid, ask.ID, "emergency", "only for a key whose window ends")
	}
	a, now, err := b.decidableAhead(ask.ID, ask.Account, terms, anyTimeAhead)
	if err != nil {
		return Answer{}, err
	}
	interest := b.interestOf(a)
	b.see(interest, ask.Agent, ask.Region, 0, terms)
	before := *a.Account
	g := Grant{
		ID: ask.ID, Account: ask.Account, Kind: KindEmergency, State: Denied, Class: a.Class,
		Agent: ask.Agent, Region: ask.Region, Asked: ask.Want, Need: ask.Need,
		Generation: a.Generation, PolicyVersion: a.PolicyVersion, IssuedAt: now,
	}
	amount := min(ask.Want, terms.Pot/Units(interest.count(b.countedSince(terms))), terms.Pot-a.Emergency)
	switch {
	case b.hasAllowance(a, ask.Agent):
		g.Reason = quota.LeasedOut
	case amount < ask.Need:
		g.Reason = quota.Exhausted
	default:
		g.State, g.Amount = Live, amount
		g.StartsAt, g.ExpiresAt = startsAt(ask.Account.Window, now), ask.Account.Window.End
		g.TTL = g.ExpiresAt.Sub(now)
		g.ClosesAt = g.ExpiresAt.Add(terms.Grace)
	}
	return b.enter(a, before, g)
}
