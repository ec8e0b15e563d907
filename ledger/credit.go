package ledger

import (
	"github.com/quotalease/quotalease/ledger/quota"
)

// Adjustment is an operator's decision on one account, done once under its id.
type Adjustment struct {
	ID      ID // a UUIDv7, chosen by the operator
	Account AccountID
	Units   Units // 1 or more
	Who     string
	Why     string
}

func (x Adjustment) note() string { return x.Who + ": " + x.Why }

// Credit adds units to the limit of a window. What is spent stays spent. After the window's end
// it changes nothing but the window's statement.
func (b *Book) Credit(x Adjustment) (Answer, error) {
	return b.adjust(x, KindCredit, func(a *page) (Units, error) {
		if a.Kind != quota.Period {
			return 0, refuse(CodeInvalid, x.ID, "dimension", "a dimension of kind period")
		}
		if a.Limit.Unlimited {
			return 0, refuse(CodeInvalid, x.ID, "credit", "a window that has a limit")
		}
		if most := quota.MaxUnits - a.InForce().Units; x.Units > most {
			return 0, refuse(CodeOverflow, x.ID, "credit", "at most %d, so that the limit stays within int64", most)
		}
		a.Credit += x.Units
		if b.nowAt(a.Account).Before(a.ID.Window.End) {
			a.enlarge()
		}
		note := "credit of " + formatUnits(x.Units) + ", " + x.note()
		b.limited(a.Account, note)
		b.explain(a.Account, note)
		return x.Units, nil
	})
}

// ReleaseHeld moves up to so many held units to uncertain, those of the oldest leases first:
// nothing else frees what a hard key holds (3.7). What is moved may have been used. Grants with
// held units have to be in the book (Scope.Held).
func (b *Book) ReleaseHeld(x Adjustment) (Answer, error) {
	return b.adjust(x, KindRelease, func(a *page) (Units, error) {
		if a.Kind == quota.RateLimit {
			return 0, refuse(CodeInvalid, x.ID, "dimension", "a dimension of kind period or concurrency: held units of a rate limit nothing")
		}
		left := x.Units
		for _, g := range a.grants {
			part := min(left, g.Tally().Held)
			if part <= 0 {
				continue
			}
			after := *g.Grant
			after.Uncertain += part
			if err := b.replace(a, after); err != nil {
				return 0, err
			}
			left -= part
		}
		moved := x.Units - left
		a.Released += moved
		b.explain(a.Account, "released "+formatUnits(moved)+", "+x.note())
		return moved, nil
	})
}

// adjust records an operator's decision. apply changes the account and says by how much.
func (b *Book) adjust(x Adjustment, kind GrantKind, apply func(*page) (Units, error)) (Answer, error) {
	if x.Units < 1 {
		return Answer{}, refuse(CodeInvalid, x.ID, "units", "1 or more")
	}
	if g, ok := b.grants[x.ID]; ok {
		return b.repeat(g.Grant, g.Kind == kind && g.Account == x.Account && g.Asked == x.Units)
	}
	if err := b.checkID(x.ID); err != nil {
		return Answer{}, err
	}
	if b.loaded.ClockSuspect {
		return Answer{}, ErrClock
	}
	a, err := b.opened(x.Account)
	if err != nil {
		return Answer{}, err
	}
	before := *a.Account
	changed, err := apply(a)
	if err != nil {
		return Answer{}, err
	}
	if err := b.replace(a, Grant{
		ID: x.ID, Account: a.ID, Kind: kind, State: Final, Class: a.Class, Asked: x.Units, Need: x.Units,
		Amount: changed, Taken: changed, Generation: a.Generation, PolicyVersion: a.PolicyVersion, IssuedAt: b.nowAt(a.Account),
	}); err != nil {
		return Answer{}, err
	}
	b.touched(a, before)
	b.record(Event{Kind: eventOf(kind), Account: a.ID, Grant: x.ID, Units: changed, Generation: a.Generation, Note: x.note()})
	return Answer{Grant: *b.grants[x.ID].Grant, Account: *a.Account}, nil
}

func eventOf(kind GrantKind) EventKind {
	if kind == KindCredit {
		return EventCredit
	}
	return EventReleased
}

// enlarge keeps the largest step of use that the window's limits allow in one report (3.13).
func (a *Account) enlarge() {
	q := a.largestStep()
	a.Largest.Unlimited = a.Largest.Unlimited || q.Unlimited
	a.Largest.Units = max(a.Largest.Units, q.Units)
}
