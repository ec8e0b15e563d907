package ledger

import (
	"time"

	"github.com/gofrs/uuid/v5"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Units is an amount; see quota.Units.
type Units = quota.Units

// ID identifies a grant, a spend or an incarnation of an agent. Grants and spends carry
// UUIDv7: their time is what retention goes by, and their order keeps indexes narrow.
type ID = uuid.UUID

// AccountID names one account: a key in one window.
type AccountID struct {
	Key    quota.Key
	Window quota.Window
}

func (id AccountID) String() string { return id.Key.String() + " " + id.Window.String() }

// Terms is what policy says of an account at the moment of a decision.
type Terms struct {
	PolicyVersion int64
	Kind          quota.Kind
	Class         quota.Class
	Limit         quota.Limit   // Q without credits; the burst of a rate key
	Budget        quota.Limit   // B, the overshoot budget
	Rate          quota.Rate    // rate keys: what comes back
	MaxHold       time.Duration // concurrency keys: the longest that one run may take
	Pot           Units         // of outage mode extend, for each account; 0: none
	FinalAfter    time.Duration // when a statement is final whatever is open; 0: never
	TTL           time.Duration // of each lease
	Grace         time.Duration // between expires_at and the close of a lease, above 0
}

// Tally says where units are. An account's tally is the sum of its grants' tallies: the
// rules change a grant and the account follows (see Book.replace), so that conservation
// holds by construction, and Verify can recompute every counter.
type Tally struct {
	Granted  Units // ever leased out
	Leased   Units // of those, confirmed as used: consumed_reported
	Spent    Units // used through the exact lane
	Unleased Units // used without a lease, or beyond one

	Outstanding Units // O: unspent part of live leases, as far as reports tell
	Held        Units // H: unconfirmed remainder of closed leases, charged as if used
	Uncertain   Units // U: unconfirmed remainder given back to the pool

	Expired  Units // left a lease by expiry (still unconfirmed)
	Revoked  Units // left a lease that was revoked
	Returned Units // given back by the agent

	Emergency Units // E: allowance authorised for an outage and not confirmed unspent (section 6)
	Extended  Units // of it, confirmed as used: in S too
}

// Settled is S: consumption that reports confirmed, leased, unleased and in an outage.
func (t Tally) Settled() Units { return t.Leased + t.Spent + t.Unleased + t.Extended }

// plus returns t + sign*u, or quota.ErrOverflow if any counter, or the sum that headroom
// needs, leaves the int64 range.
func (t Tally) plus(u Tally, sign Units) (Tally, error) {
	var err error
	add := func(a, b Units) Units {
		sum, e := a.Add(sign * b)
		if e != nil {
			err = e
		}
		return sum
	}
	r := Tally{
		Granted: add(t.Granted, u.Granted), Leased: add(t.Leased, u.Leased),
		Spent: add(t.Spent, u.Spent), Unleased: add(t.Unleased, u.Unleased),
		Outstanding: add(t.Outstanding, u.Outstanding), Held: add(t.Held, u.Held),
		Uncertain: add(t.Uncertain, u.Uncertain), Expired: add(t.Expired, u.Expired),
		Revoked: add(t.Revoked, u.Revoked), Returned: add(t.Returned, u.Returned),
		Emergency: add(t.Emergency, u.Emergency), Extended: add(t.Extended, u.Extended),
	}
	sign = 1
	charged := add(add(add(r.Leased, r.Spent), r.Unleased), r.Extended)
	add(add(add(add(charged, r.Outstanding), r.Held), r.Uncertain), r.Emergency)
	return r, err
}

// Account is the ledger's row for one key in one window.
type Account struct {
	ID AccountID
	Terms
	Tally

	Generation int64       // grows whenever A or B - O - U grows
	Committed  Units       // highest S + O + H that a grant or a spend ever made (3.8)
	Largest    quota.Limit // the largest limit this window had (3.13)
	Overshoot  Units       // highest realised overshoot (3.8)
	Clock      time.Time   // latest reading any decision used: time never goes back (4.1)
	Waiting    bool        // someone was denied at this generation: growth is worth a notice
	WantedAt   time.Time   // when holders were last asked to give back what lies idle

	Bucket   Bucket // rate keys: what was granted and has not come back
	Credit   Units  // what operators added to the limit of this window
	Released Units  // held units that operators moved to U

	Opening  quota.Limit // the limit at the first decision; later ones are in the limit history
	OpenedAt time.Time
	ClosedAt time.Time // when the window's statement was first written; zero: not yet
	FinalAt  time.Time // when the statement became final; zero: not yet
	Revision int64     // of the statement
}

// Bucket is the level of a rate key as the ledger keeps it: Spent units less Part/Per of one
// have been granted and have not come back, as of At.
type Bucket struct {
	Spent Units
	Part  time.Duration
	At    time.Time
}

// charged is S + O + H: what counts against the limit.
func (a *Account) charged() Units { return a.Settled() + a.Outstanding + a.Held }

// InForce is Q: what policy gives and the credits of this window. A sum that would leave the
// int64 range, because policy was raised after the credit, stays at its end.
func (a *Account) InForce() quota.Limit {
	if a.Limit.Unlimited {
		return a.Limit
	}
	sum, err := a.Limit.Units.Add(a.Credit)
	if err != nil {
		sum = quota.MaxUnits
	}
	return quota.LimitOf(sum)
}

// Headroom is A = Q - S - O - H (3.1), of a rate key the level of its bucket as of Bucket.At.
// It may be negative. Without a limit it is what is left of the int64 range.
func (a *Account) Headroom() Units {
	if a.metered() {
		return a.Limit.Units - a.Bucket.Spent
	}
	q := a.InForce()
	if q.Unlimited {
		return quota.MaxUnits - a.charged()
	}
	return q.Units - a.charged()
}

// Exposure is how much more may be outstanding under the budget: B - O for hard and for rate
// keys, B - O - U for bounded and best_effort (3.4). It may be negative after a cut.
func (a *Account) Exposure() Units {
	if a.Budget.Unlimited {
		return quota.MaxUnits - a.Outstanding - a.Uncertain
	}
	if a.Class == quota.Hard || a.Kind == quota.RateLimit {
		return a.Budget.Units - a.Outstanding
	}
	return a.Budget.Units - a.Outstanding - a.Uncertain
}

// OverLimit is how far confirmed use lies above the present limit, which a cut can cause
// without any promise being broken (3.8). Rate keys have no sum to compare with.
func (a *Account) OverLimit() Units {
	q := a.InForce()
	if q.Unlimited || a.Kind == quota.RateLimit {
		return 0
	}
	return max(0, a.Settled()-q.Units)
}

// RealisedOvershoot is max(0, S - max(Q, committed)) now (3.8); for rate keys the interval
// bound replaces it.
func (a *Account) RealisedOvershoot() Units {
	q := a.InForce()
	if q.Unlimited || a.Kind == quota.RateLimit {
		return 0
	}
	return max(0, a.Settled()-max(q.Units, a.Committed))
}

// Bound is the most that can have been used in this window by now, as the ledger knows it:
// S + O + H + U + E, where what was spent of E is in S already (3.3; unleased use that nobody
// has reported yet comes on top).
func (a *Account) Bound() Units { return a.charged() + a.Uncertain + a.Emergency - a.Extended }

// movable is how much of H a grant (half the exposure) or a spend (all of it) may move to U
// (3.2). held is the part of H whose grants are at hand.
func (a *Account) movable(held Units, forSpend bool) Units {
	if a.Class != quota.Bounded || a.Kind == quota.RateLimit {
		return 0
	}
	room := max(0, a.Exposure())
	if !forSpend {
		room /= 2
	}
	return min(held, room)
}
