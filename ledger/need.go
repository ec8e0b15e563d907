package ledger

import (
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// wantedEvery is how often the holders of one account's leases are asked to give back what they
// do not need.
const wantedEvery = 100 * time.Millisecond

// deny gives a decision that found no room its reason. Who was denied waits for growth, and may
// make others give way.
func (b *Book) deny(a *page, g *Grant, reason quota.Reason) {
	g.Reason = reason
	a.Waiting = true
	if b.idleHelps(a, g) {
		b.want(a.Account, Event{Agent: g.Agent, Units: g.Need, Note: string(g.Reason)})
	}
}

// freed asks for slots back that fell idle while someone waits: when all were in use at the
// denial there was nobody to ask, and an agent that keeps them for its next work would not know.
func (b *Book) freed(a *Account, before Account) {
	if a.Kind == quota.Concurrency && a.Waiting && a.Outstanding > before.Outstanding {
		b.want(a, Event{Units: a.Outstanding, Note: "slots fell idle"})
	}
}

// want records that holders are to give back what they do not need, at most every so often.
func (b *Book) want(a *Account, e Event) {
	now := b.nowAt(a)
	if !a.WantedAt.IsZero() && now.Sub(a.WantedAt) < wantedEvery {
		return
	}
	a.WantedAt = now
	e.Kind, e.Account, e.Generation = EventWanted, a.ID, a.Generation
	b.record(e)
}

// idleHelps reports that a denial is due to units in the hands of others: they would serve it
// if they came back. Of a rate key that is so if time does not bring what is missing sooner.
func (b *Book) idleHelps(a *page, g *Grant) bool {
	if a.Outstanding-b.holds(a, g.Agent) < 1 {
		return false
	}
	switch g.Reason {
	case quota.LeasedOut:
		return true
	case quota.ExactLane:
		return a.Exposure() < g.Need
	case quota.Exhausted:
		wait := a.retryIn(g.Need)
		return a.metered() && (wait == 0 || wait > wantedEvery)
	}
	return false
}

// drained records that a grant or a spend took the last of an account that others use too. It
// happens once a generation: there is more only when something grows. A rate key's bucket
// fills by itself, so it is never drained. Who was told so does not ask any more, so that growth
// is news to them as it is to those who were denied.
func (b *Book) drained(a *page) {
	if a.Kind == quota.RateLimit || a.spendable() > 0 || b.interestOf(a).count(b.countedSince(a.Terms)) < 2 {
		return
	}
	a.Waiting = true
	b.record(Event{Kind: EventDrained, Account: a.ID, Generation: a.Generation, Note: string(b.whyNot(a, 1))})
}

// growthHelps reports that growth is worth a notice to those who were denied: something is to be
// had. That reports turn what was outstanding into use leaves more room in the budget, and of a
// quota that is spent still nothing.
func (a *Account) growthHelps() bool {
	movable := a.Class == quota.Bounded && !a.metered() && a.Held > 0 && a.Exposure() > 0
	return a.Headroom() > 0 || movable
}
