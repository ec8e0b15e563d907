package ledger

import "github.com/quotalease/quotalease/ledger/quota"

// Expire closes the account's leases whose expires_at + grace has passed, and ends slots whose
// longest run is over. Where the rest of a lease goes is its class's to say: hard and bounded
// hold it, best_effort gives it back (3.2). While the clocks disagree nothing expires (4.1).
func (b *Book) Expire(id AccountID) error {
	a, ok := b.locked(id)
	if !ok {
		return ErrNotLocked
	}
	return b.expire(a)
}

func (b *Book) expire(a *page) error {
	if a.expired || b.loaded.ClockSuspect {
		return nil
	}
	a.expired = true
	before, now := *a.Account, b.nowAt(a.Account)
	changed := false
	for _, g := range a.grants {
		after := *g.Grant
		if after.State == Live && !after.ClosesAt.After(now) {
			after.close()
		}
		if after.ended(now) {
			after.State = Final
		}
		if after.State == g.State {
			continue
		}
		after.normalise()
		if err := b.replace(a, after); err != nil {
			return err
		}
		changed = true
	}
	if changed {
		b.touched(a, before)
	}
	return nil
}

// Revoke marks a live lease as revoked and tells its agent through an event. Its units stay
// outstanding until the agent's final report or the close: what is out stays spendable
// until then (3.4). It reports whether the lease was live.
func (b *Book) Revoke(id ID, note string) (bool, error) {
	g, ok := b.grants[id]
	if !ok || g.State != Live || !g.RevokedAt.IsZero() {
		return false, nil
	}
	a := g.of
	if !a.locked {
		return false, ErrNotLocked
	}
	before, after := *a.Account, *g.Grant
	after.RevokedAt = b.nowAt(a.Account)
	if err := b.replace(a, after); err != nil {
		return false, err
	}
	b.record(Event{Kind: EventRevoked, Account: a.ID, Grant: id, Agent: g.Agent, Units: g.Tally().Outstanding, Note: note})
	b.touched(a, before)
	return true, nil
}

// Recall revokes every live lease at hand of an account whose limit was cut below what is
// charged: agents stop and say so before the ledger frees units. Of slots that is what is idle:
// work that runs goes on. Allowances for outages are outside the limit.
func (b *Book) Recall(id AccountID, note string) (int, error) {
	a, ok := b.locked(id)
	if !ok {
		return 0, ErrNotLocked
	}
	if a.Headroom() >= 0 {
		return 0, nil
	}
	n := 0
	for _, g := range a.grants {
		if g.Kind == KindEmergency {
			continue
		}
		revoked, err := b.Revoke(g.ID, note)
		if err != nil {
			return n, err
		}
		if revoked {
			n++
		}
	}
	return n, nil
}

// Cancel withdraws an ask or a spend by id. Of a lease that was granted all that is not
// reported as used comes back; an unknown id is recorded as a denial, so that an ask that
// arrives after it gets nothing (3.12).
func (b *Book) Cancel(id ID, account AccountID, agent ID) error {
	g, ok := b.grants[id]
	if !ok {
		a, err := b.opened(account)
		if err != nil {
			return err
		}
		record, err := b.withdrawn(id, a.Account, agent)
		if err != nil {
			return err
		}
		return b.change(a, record)
	}
	if g.Agent != agent {
		return refuse(CodeForeign, id, "agent", "the agent that asked")
	}
	if g.Kind == KindSpend {
		return b.refund(g)
	}
	if g.State != Live && g.State != Closed {
		return nil
	}
	a := g.of
	if !a.locked {
		return ErrNotLocked
	}
	after := *g.Grant
	if after.Kind == KindSlots {
		after.withdrawIdle()
	} else {
		after.State = Final
		after.normalise()
	}
	return b.change(a, after)
}

// opened is a locked account in which something was decided before.
func (b *Book) opened(id AccountID) (*page, error) {
	a, ok := b.locked(id)
	if !ok {
		return nil, ErrNotLocked
	}
	if a.Kind == 0 {
		return nil, ErrNotOpened
	}
	return a, nil
}

// withdrawn is the record of an id that will never be granted.
func (b *Book) withdrawn(id ID, a *Account, agent ID) (Grant, error) {
	if err := b.checkID(id); err != nil {
		return Grant{}, err
	}
	return Grant{
		ID: id, Account: a.ID, Kind: a.leaseKind(), State: Withdrawn, Class: a.Class, Agent: agent,
		Reason: quota.Cancelled, Generation: a.Generation, PolicyVersion: a.PolicyVersion, IssuedAt: b.nowAt(a),
	}, nil
}

// movableHeld is the part of a grant that may go from H to U: what a hard lease holds stays
// held, whatever class the key has since.
func (g *Grant) movableHeld() Units {
	if g.State != Closed || g.Class != quota.Bounded {
		return 0
	}
	return g.Tally().Held
}

// makeRoom moves from H to U what a grant or spend took beyond the headroom, oldest lease
// first, as a recorded event (3.2). The caller has checked that it may.
func (b *Book) makeRoom(a *page) error {
	short := -a.Headroom()
	if short <= 0 || a.Kind == quota.RateLimit {
		return nil
	}
	b.record(Event{Kind: EventMoved, Account: a.ID, Units: short})
	for short > 0 && a.cleared < len(a.grants) {
		g := a.grants[a.cleared]
		part := min(short, g.movableHeld())
		if part <= 0 {
			a.cleared++
			continue
		}
		after := *g.Grant
		after.Uncertain += part
		if err := b.replace(a, after); err != nil {
			return err
		}
		short -= part
	}
	return nil
}
