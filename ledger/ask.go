package ledger

import (
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
	Need    Units // the smallest lease that would help, 1..Want
}

// Room is what a sizer may hand out.
type Room struct {
	Want     Units
	Need     Units
	Headroom Units // most that this grant can be, after what may move from H to U
	Exposure Units // most that the budget lets out
	Holds    Units // unspent units of this key that the agent has already
	Agents   int   // N
	Budget   quota.Limit
}

// Sizer decides how much of the room a grant takes. It never sees more than may be granted,
// and what it answers above that is cut.
type Sizer func(Room) Units

// Answer is the ledger's decision on an ask or a spend, with the terms of the record and its
// present state. A repeat gets the same decision.
type Answer struct {
	Grant    Grant
	Repeated bool
	Account  Account // as it is now, for what doors tell about limit and remaining
}

// Approved reports whether units were granted or spent.
func (a Answer) Approved() bool { return a.Grant.Amount > 0 }

// Ask decides on a lease (3.1, 3.4, 3.5, 3.10).
func (b *Book) Ask(ask Ask, terms Terms, size Sizer) (Answer, error) {
	if ask.Want < 1 || ask.Need < 1 || ask.Need > ask.Want {
		return Answer{}, refuse(CodeInvalid, ask.ID, "amount", "1 <= need <= want")
	}
	if g, ok := b.grants[ask.ID]; ok {
		same := g.Kind == KindLease && g.Account.Key == ask.Account.Key && g.Agent == ask.Agent &&
			g.Asked == ask.Want && g.Need == ask.Need
		return b.repeat(g, same || g.State == Withdrawn && g.Agent == ask.Agent)
	}
	a, now, err := b.decidable(ask.ID, ask.Account, terms)
	if err != nil {
		return Answer{}, err
	}
	b.See(ask.Account.Key, ask.Agent)
	before := *a
	g := Grant{
		ID: ask.ID, Account: ask.Account, Kind: KindLease, State: Denied, Class: a.Class,
		Agent: ask.Agent, Region: ask.Region, Asked: ask.Want, Need: ask.Need,
		Generation: a.Generation, PolicyVersion: a.PolicyVersion, IssuedAt: now,
	}
	if amount := b.size(a, ask, terms, size); amount >= ask.Need {
		g.State, g.Amount = Live, amount
		g.ExpiresAt = now.Add(terms.TTL)
		if end := ask.Account.Window.End; !end.IsZero() && g.ExpiresAt.After(end) {
			g.ExpiresAt = end
		}
		g.TTL = g.ExpiresAt.Sub(now)
		g.ClosesAt = g.ExpiresAt.Add(terms.Grace)
	} else {
		g.Reason = b.whyNot(a, ask.Need)
		a.Waiting = true
	}
	return b.enter(a, before, g)
}

// repeat answers a request whose id is known with the record as it stands (3.10).
func (b *Book) repeat(g *Grant, sameTerms bool) (Answer, error) {
	if !sameTerms {
		return Answer{}, refuse(CodeTerms, g.ID, "grant_id", "a repeat of the recorded terms, or a new id")
	}
	ans := Answer{Grant: *g, Repeated: true}
	if a, ok := b.accounts[g.Account]; ok {
		ans.Account = *a
	}
	return ans, nil
}

// decidable opens an account for a new decision: current policy, current window, a clock
// that can be trusted, and due leases closed first, so that their units are back in the pool
// before a request is refused for want of them.
func (b *Book) decidable(id ID, account AccountID, terms Terms) (*Account, time.Time, error) {
	if err := b.checkID(id); err != nil {
		return nil, time.Time{}, err
	}
	if b.loaded.ClockSuspect {
		return nil, time.Time{}, ErrClock
	}
	if _, err := b.Open(account, terms); err != nil {
		return nil, time.Time{}, err
	}
	a := b.accounts[account]
	now := b.nowAt(a)
	if !account.Window.Contains(now) {
		return nil, time.Time{}, ErrWindow
	}
	if err := b.Expire(account); err != nil {
		return nil, time.Time{}, err
	}
	return a, now, nil
}

// size asks the sizer and cuts its answer to what the rules allow.
func (b *Book) size(a *Account, ask Ask, terms Terms, size Sizer) Units {
	most := b.grantable(a)
	if a.Class == quota.Exact || most < 1 {
		return 0
	}
	amount := size(Room{
		Want: ask.Want, Need: ask.Need, Headroom: most, Exposure: max(0, a.Exposure()),
		Holds: b.holds(a.ID, ask.Agent), Agents: b.Agents(ask.Account.Key, terms), Budget: a.Budget,
	})
	return min(amount, most, ask.Want)
}

// grantable is the most that one grant can be: within the headroom and the exposure, after
// the move from H to U that it may cause. A move of m lifts A by m and takes m from the
// exposure (B - O - U), so for an amount x above A: x - A <= exposure/2, and
// x <= exposure - (x - A).
func (b *Book) grantable(a *Account) Units {
	free, room := a.Headroom(), a.Exposure()
	plain := min(free, room)
	move := a.movable(b.heldAtHand(a.ID), false)
	if move == 0 || room <= free {
		return max(0, plain)
	}
	return max(0, plain, min(free+move, (free+room)/2))
}

// whyNot names the reason for a request of n that was not granted. Only a quota that could
// not serve n even if every lease came back is exhausted; what exposure alone refuses goes
// to the exact lane (3.5, section 5).
func (b *Book) whyNot(a *Account, n Units) quota.Reason {
	if q := a.InForce(); !q.Unlimited && n > q.Units {
		if q.Units == 0 {
			return quota.Exhausted
		}
		return quota.TooLarge
	}
	held := b.heldAtHand(a.ID)
	if n <= a.Headroom()+a.movable(held, true) {
		return quota.ExactLane
	}
	// Were every lease back, O would be free, and B - U rather than B - O - U could move.
	free := a.Headroom() + a.Outstanding
	if a.Class == quota.Bounded {
		free += max(0, min(held, a.Exposure()+a.Outstanding))
	}
	if n <= free {
		return quota.LeasedOut
	}
	return quota.Exhausted
}

// Peek says why a cost of n would be denied at this moment; quota.Allowed if it would pass.
func (b *Book) Peek(id AccountID, n Units) quota.Reason {
	a, err := b.opened(id)
	if err != nil {
		return quota.Unavailable
	}
	if reason := b.whyNot(a, n); reason != quota.ExactLane {
		return reason
	}
	return quota.Allowed
}

// holds is what an agent has unspent in an account, older leases included.
func (b *Book) holds(id AccountID, agent ID) Units {
	var sum Units
	for _, g := range b.ofAccount[id] {
		if g.State == Live && g.Agent == agent {
			sum += g.Tally().Outstanding
		}
	}
	return sum
}

// checkID refuses an id that a new record may not have. Its time must be readable: an id is
// forgotten only when it is too old, or a repeat would be decided anew.
func (b *Book) checkID(id ID) error {
	if id.Version() != 7 {
		return refuse(CodeInvalid, id, "id", "a UUID of version 7")
	}
	if b.tooOld(id) {
		return refuse(CodeTooOld, id, "id", "an id of the last %s", b.loaded.Retention)
	}
	return nil
}

// tooOld reports an id from before the ledger's memory.
func (b *Book) tooOld(id ID) bool {
	return b.loaded.Retention > 0 && idTime(id).Before(b.loaded.Now.Add(-b.loaded.Retention))
}

// idTime is the millisecond clock in a UUIDv7.
func idTime(id ID) time.Time {
	var ms int64
	for _, octet := range id[:6] {
		ms = ms<<8 | int64(octet)
	}
	return time.UnixMilli(ms)
}
