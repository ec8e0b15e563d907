package ledger

import (
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Slots are leased like units, and differ in what a report says: not what was used up, but
// what is in use at that moment (3.9). In one account
//
//	S  is what the report or renewal with the highest sequence says is in use
//	O  is idle in its agent's hands
//	H  and U are slots of closed leases that nobody has confirmed since, in use or not
//
// and all of it ends when the longest run that policy allows would have ended.
//
// What an ask needs is put to use at once, so it is recorded as in use from the grant on and
// the exposure budget holds only what is leased beyond that. An ask that wants no more than it
// needs is therefore the exact lane of slots: nothing is idle, every start is recorded before
// it is allowed. Leases of class exact are all of that sort.
//
// Slots go back to the pool when their agent says that it will not use them: by returned, or
// by an ending that time brings about. A fall of what is in use is not that: the agent may
// have started other work since it sent the report.

// Renewal reports on a lease of slots and asks for another ttl (3.16). A retry repeats it.
type Renewal struct {
	ID       ID
	Account  AccountID
	Agent    ID
	Seq      int64 // 1 or more, rising with each renewal and report of the lease
	InUse    Units
	Returned Units // cumulative: idle slots given back
}

// Renew merges what a renewal reports and prolongs the lease if it may. Slots in use are
// always kept. Idle ones are kept while A >= 0: below that the lease is revoked, and its agent
// gives back what is idle now and what becomes idle (see Grant.Kept). They stay outstanding
// until it says so, because it may be using them by the time that it hears of it.
//
// A renewal whose sequence is not the highest changes nothing and gets the present state, as
// does one of a lease that is closed: its report counts, and the state in the answer tells.
func (b *Book) Renew(r Renewal, terms Terms) (Answer, error) {
	g, a, err := b.renewable(r, terms)
	if err != nil {
		return Answer{}, err
	}
	if r.Seq <= g.Seq {
		return b.repeat(g.Grant, true)
	}
	if err := b.open(a, terms); err != nil {
		return Answer{}, err
	}
	before, now := *a.Account, b.nowAt(a.Account)
	report := Report{ID: r.ID, Account: g.Account, Agent: r.Agent, Seq: r.Seq, InUse: r.InUse, Returned: r.Returned}
	after, err := b.heard(a.Account, *g.Grant, report)
	if err != nil {
		return Answer{}, err
	}
	if err := b.replace(a, after); err != nil {
		return Answer{}, err
	}
	if g.State == Live {
		b.see(b.interestOf(a), r.Agent, g.Region, 0, terms)
		if a.Headroom() < 0 {
			if _, err := b.Revoke(g.ID, "no headroom for idle slots"); err != nil {
				return Answer{}, err
			}
		}
		after = *g.Grant
		after.renew(terms, now)
		if err := b.replace(a, after); err != nil {
			return Answer{}, err
		}
	}
	b.touched(a, before)
	return Answer{Grant: *g.Grant, Account: *a.Account}, nil
}

// renewable finds the lease of a renewal, closed by now if its time is over.
func (b *Book) renewable(r Renewal, terms Terms) (*entry, *page, error) {
	switch {
	case r.Seq < 1:
		return nil, nil, refuse(CodeInvalid, r.ID, "seq", "1 or more")
	case r.InUse < 0:
		return nil, nil, refuse(CodeInvalid, r.ID, "in_use", "0 or more")
	case r.Returned < 0:
		return nil, nil, refuse(CodeInvalid, r.ID, "returned", "0 or more")
	}
	g, known := b.grants[r.ID]
	if !known || g.Kind != KindSlots || g.Amount == 0 || g.Agent != r.Agent || g.Account != r.Account {
		return nil, nil, refuse(CodeForeign, r.ID, "grant_id", "a lease of slots of this agent and key")
	}
	a := g.of
	if !a.locked {
		return nil, nil, ErrNotLocked
	}
	if b.loaded.ClockSuspect {
		return nil, nil, ErrClock
	}
	if terms.Kind != quota.Concurrency {
		return nil, nil, refuse(CodeInvalid, r.ID, "key", "a concurrency key")
	}
	return g, a, b.expire(a)
}

// renew prolongs a live lease that keeps anything. It never shortens one: its agent may hear
// nothing of the answer, and go on under the terms before.
func (g *Grant) renew(terms Terms, now time.Time) {
	if g.Kept() == 0 {
		return
	}
	g.PolicyVersion, g.TTL = terms.PolicyVersion, terms.TTL
	g.ExpiresAt = later(g.ExpiresAt, now.Add(terms.TTL))
	g.ClosesAt = later(g.ClosesAt, g.ExpiresAt.Add(terms.Grace))
	g.EndsAt = later(g.EndsAt, g.ClosesAt.Add(terms.MaxHold))
}

func later(x, y time.Time) time.Time {
	if y.After(x) {
		return y
	}
	return x
}

// Kept is what a live lease of slots leaves to its agent: everything that was not given back,
// or of a revoked one what is in use.
func (g *Grant) Kept() Units {
	inside, _ := g.consumed()
	switch {
	case g.State != Live:
		return 0
	case !g.RevokedAt.IsZero():
		return inside
	}
	return g.Amount - g.Back
}

// reportSlots merges a report on slots, leased or not.
func (b *Book) reportSlots(a *page, was Grant, r Report) (Grant, error) {
	switch {
	case r.Seq < 1:
		return Grant{}, refuse(CodeInvalid, r.ID, "seq", "1 or more, of slots")
	case r.Taken != 0:
		return Grant{}, refuse(CodeContradiction, r.ID, "taken", "0, of slots")
	}
	after, err := b.heard(a.Account, was, r)
	if err != nil {
		return Grant{}, err
	}
	if _, known := b.grants[r.ID]; known && after == was {
		return was, nil
	}
	if err := b.change(a, after); err != nil {
		return Grant{}, err
	}
	return *b.grants[r.ID].Grant, nil
}

// heard is the grant after a report: what was given back is cumulative, what is in use is as
// the highest sequence says.
func (b *Book) heard(a *Account, was Grant, r Report) (Grant, error) {
	after := was
	if after.Amount > 0 {
		if r.Returned > after.Amount {
			return Grant{}, refuse(CodeContradiction, r.ID, "returned", "at most the amount granted, %d", after.Amount)
		}
		after.Back = max(after.Back, r.Returned)
	}
	if r.Seq > after.Seq {
		after.Seq, after.InUse = r.Seq, r.InUse
	}
	if r.Final && (r.InUse != 0 || after.Back != after.Amount) {
		return Grant{}, refuse(CodeContradiction, r.ID, "final", "nothing in use and all %d returned", after.Amount)
	}
	if err := b.checkStep(a, after, was.use()); err != nil {
		return Grant{}, err
	}
	b.place(a, &after)
	after.normalise()
	return after, nil
}

// place brings the state of slots in line with what was heard. Use that goes on without a live
// lease, or after its end, is charged until time ends it: the agent may never speak again.
func (b *Book) place(a *Account, g *Grant) {
	switch {
	case g.InUse > 0 && g.State != Live:
		if g.State != Closed || g.Amount == 0 {
			g.EndsAt = later(g.EndsAt, b.nowAt(a).Add(a.MaxHold))
		}
		g.State = Closed
	case g.InUse == 0 && g.Back == g.Amount && (g.State == Live || g.State == Closed):
		g.State = Final
	}
}

// close ends the life of a lease. Of slots nothing is known from then on: what was in use may
// have ended, what was idle may be in use. Only use beyond the lease stays as it was reported:
// there is no amount that would cover it.
func (g *Grant) close() {
	g.State = Closed
	if _, excess := g.consumed(); excess == 0 {
		g.InUse = 0
	}
}

// ended reports slots of a closed lease whose longest run is over (3.9).
func (g *Grant) ended(now time.Time) bool {
	return g.Kind == KindSlots && g.State == Closed && !g.EndsAt.After(now)
}

// withdrawIdle gives back all that is not in use, as far as its agent ever said: before the
// first report that is everything, since the agent has not heard of the lease.
func (g *Grant) withdrawIdle() {
	if g.Seq == 0 {
		g.InUse = 0
	}
	inside, _ := g.consumed()
	g.Back = g.Amount - inside
	if g.InUse == 0 {
		g.State = Final
	}
	g.normalise()
}

// sizeSlots grants what is needed if it fits, and beyond it, in idle slots, what the sizer says
// within headroom and exposure. Only for what is needed do held slots move to U, as for a spend.
func (b *Book) sizeSlots(a *page, ask Ask, terms Terms, size Sizer) Units {
	free := a.Headroom()
	if ask.Need > a.spendable() {
		return 0
	}
	most := min(free-ask.Need, a.Exposure(), ask.Want-ask.Need)
	if a.Class == quota.Exact || most < 1 {
		return ask.Need
	}
	idle := size(Room{
		Want: ask.Want - ask.Need, Headroom: free - ask.Need, Exposure: a.Exposure(),
		Holds: b.holds(a, ask.Agent), Agents: b.interestOf(a).count(b.countedSince(terms)), Budget: a.Budget,
	})
	return ask.Need + max(0, min(idle, most))
}

// leaseKind is the kind of the leases of an account.
func (a *Account) leaseKind() GrantKind {
	if a.Kind == quota.Concurrency {
		return KindSlots
	}
	return KindLease
}

// unleasedKind is the kind of records of use without a lease: of slots too, time has to end it.
func (a *Account) unleasedKind() GrantKind {
	if a.Kind == quota.Concurrency {
		return KindSlots
	}
	return KindUnleased
}

// forgetEnded lets go of what was promised to slots that have ended: the window of a
// concurrency key never does, so committed is over what is still live, held or uncertain (3.9).
func (a *Account) forgetEnded() {
	if a.Kind == quota.Concurrency {
		a.Committed = min(a.Committed, a.charged()+a.Uncertain)
	}
}

// slotFaults are the contradictions inside a grant of slots.
func (g *Grant) slotFaults() []fault {
	var found []fault
	if g.Taken != 0 {
		found = append(found, fault{"taken", g.Taken, 0})
	}
	if g.InUse < 0 || (g.InUse > 0 && g.State != Live && g.State != Closed) {
		found = append(found, fault{"in use", g.InUse, 0})
	}
	if (g.State == Live || g.State == Closed) && g.EndsAt.Before(g.ClosesAt) {
		found = append(found, fault{"microseconds to the end", Units(g.EndsAt.Sub(g.ClosesAt).Microseconds()), 0})
	}
	return found
}
