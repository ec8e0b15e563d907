package ledger

import (
	"iter"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Ask is an agent's request for a lease. The id and the terms (key, Want, Need, Agent) are
// repeated byte for byte by a retry; the window is the control plane's to compute.
type Ask struct {
	ID      ID
	Account AccountID
	Agent   ID
	Region  string
	Want    Units // what the agent's demand needs, 1 or more
	Need    Units // the smallest lease that would help, 1..Want; slots: what is put to use at once
	Waiting Units // what callers wait for, 0..Want: it will not lie idle

	Emergency bool // an allowance for an outage, from the window's pot (section 6)
}

// Room is what a sizer may hand out.
type Room struct {
	Want     Units
	Need     Units
	Waiting  Units
	Headroom Units // most that this grant can be, after what may move from H to U
	Exposure Units // most that the budget lets out
	Holds    Units // unspent units of this key that the agent has already
	Agents   int   // N
	Budget   quota.Limit
	Region   string                 // of the asker
	Others   iter.Seq2[Demand, int] // of the N agents, all but the asker: how many want what, in any order; nil: none
}

// Sizer decides how much of the room a grant takes. It never sees more than may be granted,
// and what it answers above that is cut.
type Sizer func(Room) Units

// Answer is the ledger's decision on an ask or a spend, with the terms of the record and its
// present state. A repeat gets the same decision.
type Answer struct {
	Grant    Grant
	Repeated bool
	Account  Account       // as it is now, for what doors tell about limit and remaining
	RetryIn  time.Duration // of a denied rate key: when the same would fit; 0: not known
	Last     bool          // approved, and nothing is left beyond it before something grows
}

// Approved reports whether units were granted or spent.
func (a Answer) Approved() bool { return a.Grant.Amount > 0 }

// Ask decides on a lease (3.1, 3.4, 3.5, 3.10).
func (b *Book) Ask(ask Ask, terms Terms, size Sizer) (Answer, error) {
	if ask.Want < 1 || ask.Need < 1 || ask.Need > ask.Want {
		return Answer{}, refuse(CodeInvalid, ask.ID, "amount", "1 <= need <= want")
	}
	if ask.Waiting < 0 || ask.Waiting > ask.Want {
		return Answer{}, refuse(CodeInvalid, ask.ID, "waiting", "0 <= waiting <= want")
	}
	if g, ok := b.grants[ask.ID]; ok {
		same := ask.answeredBy(g.Kind) && g.Account.Key == ask.Account.Key && g.Agent == ask.Agent &&
			g.Asked == ask.Want && g.Need == ask.Need
		return b.repeat(g.Grant, same || g.State == Withdrawn && g.Agent == ask.Agent)
	}
	if ask.Emergency {
		return b.askEmergency(ask, terms)
	}
	a, now, err := b.decidableAhead(ask.ID, ask.Account, terms, terms.TTL/2)
	if err != nil {
		return Answer{}, err
	}
	b.see(b.interestOf(a), ask.Agent, ask.Region, ask.Want, terms)
	before := *a.Account
	g := Grant{
		ID: ask.ID, Account: ask.Account, Kind: a.leaseKind(), State: Denied, Class: a.leaseClass(),
		Agent: ask.Agent, Region: ask.Region, Asked: ask.Want, Need: ask.Need,
		Generation: a.Generation, PolicyVersion: a.PolicyVersion, IssuedAt: now,
	}
	if amount := b.size(a, ask, terms, size); amount >= ask.Need {
		g.State, g.Amount = Live, amount
		g.StartsAt = startsAt(ask.Account.Window, now)
		if a.metered() {
			g.Delay, g.Drip = a.trickle(amount)
		}
		g.ExpiresAt = now.Add(terms.TTL)
		if end := ask.Account.Window.End; !end.IsZero() && g.ExpiresAt.After(end) {
			g.ExpiresAt = end
		}
		g.TTL = g.ExpiresAt.Sub(now)
		g.ClosesAt = g.ExpiresAt.Add(terms.Grace)
		if g.Kind == KindSlots {
			g.InUse, g.EndsAt = ask.Need, g.ClosesAt.Add(terms.MaxHold)
		}
	} else {
		b.deny(a, &g, b.whyNot(a, ask.Need))
	}
	return b.enter(a, before, g)
}

// answeredBy reports whether a record of this kind can be the answer to the ask.
func (ask Ask) answeredBy(k GrantKind) bool {
	if ask.Emergency {
		return k == KindEmergency
	}
	return k == KindLease || k == KindSlots
}

// repeat answers a request whose id is known with the record as it stands (3.10).
func (b *Book) repeat(g *Grant, sameTerms bool) (Answer, error) {
	if !sameTerms {
		return Answer{}, refuse(CodeTerms, g.ID, "grant_id", "a repeat of the recorded terms, or a new id")
	}
	now := &page{Account: &Account{}}
	if a, ok := b.locked(g.Account); ok {
		now = b.present(a)
	}
	ans := b.answer(g, now)
	ans.Repeated = true
	return ans, nil
}

// answer tells of a record, and what its account says to it at this moment.
func (b *Book) answer(g *Grant, a *page) Answer {
	ans := Answer{Grant: *g, Account: *a.Account}
	switch {
	case g.Amount > 0:
		ans.Last = a.Kind != 0 && a.Kind != quota.RateLimit && a.spendable() < 1
	case g.Reason == quota.Exhausted:
		ans.RetryIn = a.retryIn(g.Need)
	}
	return ans
}

// decidable opens an account for a new decision: current policy, current window, a clock
// that can be trusted, and due leases closed first, so that their units are back in the pool
// before a request is refused for want of them.
func (b *Book) decidable(id ID, account AccountID, terms Terms) (*page, time.Time, error) {
	return b.decidableAhead(id, account, terms, 0)
}

// decidableAhead is decidable for what may concern the next window too, if that begins within
// lead.
func (b *Book) decidableAhead(id ID, account AccountID, terms Terms, lead time.Duration) (*page, time.Time, error) {
	if err := b.checkID(id); err != nil {
		return nil, time.Time{}, err
	}
	if b.loaded.ClockSuspect {
		return nil, time.Time{}, ErrClock
	}
	a, ok := b.locked(account)
	if !ok {
		return nil, time.Time{}, ErrNotLocked
	}
	now := b.nowAt(a.Account)
	if !within(account.Window, now, lead) {
		return nil, time.Time{}, ErrWindow
	}
	if err := b.open(a, terms); err != nil {
		return nil, time.Time{}, err
	}
	b.refill(a.Account)
	if err := b.expire(a); err != nil {
		return nil, time.Time{}, err
	}
	return a, now, nil
}

// size asks the sizer and cuts its answer to what the rules allow.
func (b *Book) size(a *page, ask Ask, terms Terms, size Sizer) Units {
	if a.Kind == quota.Concurrency {
		return b.sizeSlots(a, ask, terms, size)
	}
	most := b.grantable(a, ask.Need)
	if a.Class == quota.Exact || most < 1 {
		return 0
	}
	interest, since := b.interestOf(a), b.countedSince(terms)
	amount := size(Room{
		Want: ask.Want, Need: ask.Need, Waiting: ask.Waiting, Headroom: most, Exposure: max(0, a.Exposure()),
		Holds: b.holds(a, ask.Agent), Agents: interest.count(since), Budget: a.Budget,
		Region: ask.Region, Others: b.others(interest, ask.Agent, since),
	})
	return min(amount, most, ask.Want)
}

// grantable is the most that one grant can be: within the headroom and the exposure, after
// the move from H to U that it may cause. A move of m lifts A by m and takes m from the
// exposure (B - O - U), so for an amount x above A: x - A <= exposure/2, and
// x <= exposure - (x - A).
func (b *Book) grantable(a *page, need Units) Units {
	if a.metered() {
		return a.lettable(need)
	}
	free, room := a.Headroom(), a.Exposure()
	plain := min(free, room)
	move := a.movable(a.atHand, false)
	if move == 0 || room <= free {
		return max(0, plain)
	}
	return max(0, plain, min(free+move, (free+room)/2))
}

// whyNot names the reason for a request of n that was not granted. Only a quota that could
// not serve n even if every lease came back is exhausted; what exposure alone refuses goes
// to the exact lane (3.5, section 5).
func (b *Book) whyNot(a *page, n Units) quota.Reason {
	if q := a.InForce(); !q.Unlimited && n > q.Units {
		if q.Units == 0 {
			return quota.Exhausted
		}
		return quota.TooLarge
	}
	if n <= a.spendable() {
		return quota.ExactLane
	}
	if a.metered() {
		return quota.Exhausted
	}
	// Were every lease back, O would be free, and B - U rather than B - O - U could move.
	free := a.Headroom() + a.Outstanding
	if a.Class == quota.Bounded {
		free += max(0, min(a.atHand, a.Exposure()+a.Outstanding))
	}
	if n <= free {
		return quota.LeasedOut
	}
	return quota.Exhausted
}

// spendable is the most that one spend can be, after what it may move from H to U.
func (a *page) spendable() Units { return a.Headroom() + a.movable(a.atHand, true) }

// Peek says why a cost of n would be denied at this moment, quota.Allowed if it would pass, and
// of a rate key when it would; 0: not known.
func (b *Book) Peek(id AccountID, n Units) (quota.Reason, time.Duration) {
	opened, err := b.opened(id)
	if err != nil {
		return quota.Unavailable, 0
	}
	a := b.present(opened)
	switch reason := b.whyNot(a, n); reason {
	case quota.ExactLane:
		return quota.Allowed, 0
	case quota.Exhausted:
		return reason, a.retryIn(n)
	default:
		return reason, 0
	}
}

// checkID refuses an id that a new record may not have. Its time must be readable: an id is
// forgotten only when it is too old, or a repeat would be decided anew. A reading that cannot be
// trusted makes no id too old: an ask whose withdrawal was refused so would be granted later.
func (b *Book) checkID(id ID) error {
	if id.Version() != 7 {
		return refuse(CodeInvalid, id, "id", "a UUID of version 7")
	}
	if b.tooOld(id) {
		if b.loaded.ClockSuspect {
			return ErrClock
		}
		return refuse(CodeTooOld, id, "id", "an id of the last %s", b.loaded.Retention)
	}
	return nil
}

// tooOld reports an id from before the ledger's memory.
func (b *Book) tooOld(id ID) bool {
	return b.loaded.Retention > 0 && idTime(id).Before(b.loaded.Now.Add(-b.loaded.Retention))
}

// forgettable reports an id that will be too old whatever the clock reads next: it may go back by
// as much as it may be wrong, and what was forgotten must not become young again.
func (b *Book) forgettable(id ID) bool {
	return b.loaded.Retention > 0 && idTime(id).Before(b.loaded.Now.Add(-b.loaded.Retention-MaxClockSkew))
}

// idTime is the millisecond clock in a UUIDv7.
func idTime(id ID) time.Time {
	var ms int64
	for _, octet := range id[:6] {
		ms = ms<<8 | int64(octet)
	}
	return time.UnixMilli(ms)
}
