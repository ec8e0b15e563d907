package ledger

import (
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// GrantKind says what a record in the grant ledger is. The numbers are stored.
type GrantKind int16

// Kinds of grant.
const (
	KindLease    GrantKind = 1 // units leased to an agent
	KindSpend    GrantKind = 2 // one item of the exact lane
	KindUnleased GrantKind = 3 // zero-amount: use without a lease is reported against it (3.13)
	// KindEmergency is an allowance for an outage (section 6). Its units are in E alone.
	KindEmergency GrantKind = 4
	// KindSlots is a lease of slots: renewed, and reported by what is in use (3.16).
	KindSlots GrantKind = 5
	// KindCredit and KindRelease record what an operator did, so that it is done once under one
	// id. They hold no units of their own.
	KindCredit  GrantKind = 6
	KindRelease GrantKind = 7
)

var kindNames = map[GrantKind]string{
	KindLease: "lease", KindSpend: "spend", KindUnleased: "unleased", KindEmergency: "emergency",
	KindSlots: "slots", KindCredit: "credit", KindRelease: "release",
}

// String is the kind's name, as operators read it.
func (k GrantKind) String() string { return kindNames[k] }

// State says where a grant is in its life. The numbers are stored.
type State int16

// States. Live leases can be spent; Closed ones are past expires_at + grace without a final
// report; Final ones are settled to the last unit, as are all spends.
const (
	Live      State = 1
	Closed    State = 2
	Final     State = 3
	Denied    State = 4
	Withdrawn State = 5 // cancelled before it was decided, or never known (3.12)
)

var stateNames = map[State]string{Live: "live", Closed: "closed", Final: "final", Denied: "denied", Withdrawn: "cancelled"}

func (s State) String() string { return stateNames[s] }

// Grant is one record of the ledger: a lease, a spend or unleased use, approved or denied.
type Grant struct {
	ID      ID
	Account AccountID
	Kind    GrantKind
	State   State
	Class   quota.Class // at the decision: it says where the remainder goes
	Agent   ID          // incarnation
	Region  string

	Asked         Units // terms: amount asked, or the spend's cost
	Need          Units // terms: the smallest amount that would have helped
	Amount        Units // granted; 0 when denied
	Reason        quota.Reason
	Generation    int64 // the account's, at the decision
	PolicyVersion int64
	IssuedAt      time.Time
	TTL           time.Duration
	ExpiresAt     time.Time // IssuedAt + TTL, or the end of the window if that is sooner
	ClosesAt      time.Time // ExpiresAt + grace: when the ledger closes it
	RevokedAt     time.Time // zero unless revoked
	UpdatedAt     time.Time
	StartsAt      time.Time     // of a lease for the next window: when that begins; zero: at once
	EndsAt        time.Time     // slots: when what is unconfirmed no longer counts (3.9)
	Delay         time.Duration // trickle: nothing may be used before, from receipt
	Drip          time.Duration // trickle: from then on, the units come evenly over this; 0: at once

	// Cumulative, as reported, merged by maximum (3.11).
	Taken     Units
	Refunded  Units
	Back      Units // returned
	Uncertain Units // part of a closed lease's remainder that was given back to the pool

	Seq   int64 // slots: of the latest renewal or report
	InUse Units // slots: in use, as that said; before the first of them, what the ask needed
}

// use is what reports say was used, in all; of slots, what is in use.
func (g *Grant) use() Units {
	if g.Kind == KindSlots {
		return g.InUse
	}
	return g.Taken - g.Refunded
}

// consumed splits use into the part inside the amount and the excess, which is unleased.
func (g *Grant) consumed() (inside, excess Units) {
	excess = max(0, g.use()-(g.Amount-g.Back))
	return g.use() - excess, excess
}

// rest is what is neither used nor returned.
func (g *Grant) rest() Units {
	inside, _ := g.consumed()
	return g.Amount - inside - g.Back
}

// Tally says where the grant's units are. Every unit is in exactly one of Leased (or Spent),
// Outstanding, Held, Uncertain and back in the pool (3.6).
func (g *Grant) Tally() Tally {
	if g.Kind == KindCredit || g.Kind == KindRelease {
		return Tally{}
	}
	inside, excess := g.consumed()
	t := Tally{Unleased: excess}
	switch g.Kind {
	case KindSpend:
		t.Spent = inside
		return t
	case KindEmergency:
		t.Extended, t.Emergency = inside, g.Amount-g.Back
		return t
	}
	t.Granted, t.Leased = g.Amount, inside
	var unconfirmed Units
	switch g.State {
	case Live:
		t.Outstanding = g.rest()
	case Closed:
		unconfirmed = g.rest()
		t.Uncertain = min(g.Uncertain, unconfirmed)
		t.Held = unconfirmed - t.Uncertain
	case Final:
		unconfirmed = g.rest() // of slots that ended; anything else has none
	}
	if g.RevokedAt.IsZero() {
		t.Returned, t.Expired = g.Back, unconfirmed
	} else {
		t.Revoked = g.Back + unconfirmed
	}
	return t
}

// normalise restores the invariants of the grant's state after its counters changed.
func (g *Grant) normalise() {
	switch {
	case g.Kind == KindEmergency && g.State != Final:
		// It stays in the pot's charge until it is confirmed unspent.
	case g.State == Final && g.Kind == KindSlots:
		g.InUse, g.Uncertain = 0, 0
	case g.State == Final:
		// What a refund frees on a settled grant goes back to the pool (3.11).
		g.Back += g.rest()
		g.Uncertain = 0
	case g.State == Closed:
		// A late report takes from H first, then U (3.7); best_effort keeps all in U (3.2).
		g.Uncertain = min(g.Uncertain, g.rest())
		if g.Class == quota.BestEffort {
			g.Uncertain = g.rest()
		}
	default:
		g.Uncertain = 0
	}
}
