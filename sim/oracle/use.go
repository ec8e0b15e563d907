package oracle

import (
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// Holder is one process that holds leases. A copy of a process is another holder under the same
// incarnation.
type Holder int

type holding struct {
	holder Holder
	grant  ledger.ID
}

// held is what one holder did with one grant.
type held struct {
	used     int64
	taken    int64 // as last reported
	refunded int64
	returned int64
	final    bool
}

// AccountOf is the account of an id that was recorded.
func (o *Oracle) AccountOf(id ledger.ID) ledger.AccountID {
	if r, ok := o.grants[id]; ok {
		return r.row.Account
	}
	return ledger.AccountID{}
}

func (o *Oracle) held(h Holder, id ledger.ID) *held {
	x, ok := o.holders[holding{h, id}]
	if !ok {
		x = &held{}
		o.holders[holding{h, id}] = x
	}
	return x
}

// UsedUpTo is Used with all that was ever taken from the lease, as its holder counts it. It
// returns what came since the last time.
func (o *Oracle) UsedUpTo(m Moment, h Holder, id ledger.ID, total int64) int64 {
	var was int64
	if x, ok := o.holders[holding{h, id}]; ok {
		was = x.used
	}
	if total != was {
		o.Used(m, h, id, total-was)
	}
	return total - was
}

// Used tells that callers were allowed units from a lease; below zero, that they gave some back,
// which they may at any time.
func (o *Oracle) Used(m Moment, h Holder, id ledger.ID, units int64) {
	if o.fault != nil {
		return
	}
	r, ok := o.grants[id]
	if !ok || r.row.Kind != ledger.KindLease && r.row.Kind != ledger.KindEmergency || r.row.Amount == 0 {
		o.Break(m.At, Backed, "%d units were taken from %s, which was never granted", units, short(id))
		return
	}
	x, g := o.held(h, id), &r.row
	x.used += units
	if x.used > int64(g.Amount) {
		o.Break(m.At, Backed, "%d units were taken from lease %s of %d", x.used, short(id), g.Amount)
	}
	a := o.account(g.Account)
	if g.Kind == ledger.KindEmergency {
		a.use.Extended += units
	} else {
		a.use.Leased += units
		a.judge.took(units)
	}
	if units < 0 {
		return
	}
	if x.final {
		o.Break(m.At, Sealed, "lease %s was spent after its final report", short(id))
	}
	if m.At < r.starts && m.Ledger.Before(g.StartsAt) {
		o.Break(m.At, InWindow, "lease %s was spent at %s, it is of a window that begins at %s", short(id), clock(m.Ledger), clock(g.StartsAt))
	}
	switch {
	case o.shared[id]: // each of the two counts from its own first send; all of it is a copy's use
	case m.At > r.ends:
		o.Break(m.At, Stops, "lease %s was spent at %s, by true time it ended at %s", short(id), m.At, r.ends)
	case offset(m) == r.offset && !m.Ledger.Before(g.ClosesAt):
		o.Break(m.At, Stops, "lease %s was spent at %s, the ledger closes it at %s", short(id), clock(m.Ledger), clock(g.ClosesAt))
	}
	a.judge.used(o, m, a)
}

// Spent tells that a caller was allowed units through the exact lane, by the id of its item.
func (o *Oracle) Spent(m Moment, id ledger.ID, units int64) {
	if o.fault != nil {
		return
	}
	r, ok := o.grants[id]
	switch {
	case !ok || r.row.Kind != ledger.KindSpend || int64(r.row.Amount) != units:
		o.Break(m.At, Backed, "a caller was told that %d units were spent as %s, which was never granted", units, short(id))
		return
	case r.told:
		o.toldWrong(m, r, "passed for two callers")
	case r.row.Refunded > 0:
		o.toldWrong(m, r, "passed after it was taken back")
	}
	r.told = true
	a := o.account(r.row.Account)
	a.use.Spent += units
	a.judge.used(o, m, a)
}

// Settled tells that of a spend that a caller was told of less was used in the end. It is spent
// anew and taken back, or it stays charged.
func (o *Oracle) Settled(m Moment, id ledger.ID, units int64) {
	r, ok := o.grants[id]
	if o.fault != nil || !ok {
		return
	}
	if !r.told {
		if !o.dead[r.row.Agent] { // else a copy settled it, too
			o.Break(m.At, Backed, "spend %s was settled, and nobody was told of it", short(id))
		}
		return
	}
	r.told, r.settling = false, units
	a := o.account(r.row.Account)
	a.use.Spent -= int64(r.row.Amount) - units
	a.over += int64(r.row.Amount)
}

// StaysCharged tells of a spend that its agent asks to take back when the ledger may remember it
// no more.
func (o *Oracle) StaysCharged(id ledger.ID) {
	if r, ok := o.grants[id]; ok && r.row.Refunded == 0 && !r.late {
		r.late = true
		o.account(r.row.Account).over += int64(r.row.Amount)
	}
}

// toldWrong is a spend that a caller was told of and that does not count. Only a copy can have
// taken it back: one that was made while the spend was in flight.
func (o *Oracle) toldWrong(m Moment, r *grant, what string) {
	if !o.shared[r.row.ID] {
		o.Break(m.At, SameAnswer, "spend %s %s", short(r.row.ID), what)
		return
	}
	o.account(r.row.Account).use.Copied += int64(r.row.Amount)
}

// Shared tells of an ask or a spend that an agent and its copy both have on their way: both may
// get the lease, and one may take back what the other one was told of.
func (o *Oracle) Shared(id ledger.ID) {
	if o.shared[id] {
		return
	}
	o.shared[id] = true
	if r, ok := o.grants[id]; ok {
		o.doubled(r.row)
	}
}

// IsShared reports an ask or a spend of which Shared told.
func (o *Oracle) IsShared(id ledger.ID) bool { return o.shared[id] }

// doubled is a lease that came of a shared ask: a copy can spend all of it once more, or begin
// work on each of its slots.
func (o *Oracle) doubled(g ledger.Grant) {
	if (g.Kind == ledger.KindLease || g.Kind == ledger.KindSlots) && o.shared[g.ID] {
		o.account(g.Account).use.Copied += int64(g.Amount)
	}
}

// Unleased tells that a caller of an incarnation was allowed units without a lease, by a
// dimension of a class; below zero, that it gave some back.
func (o *Oracle) Unleased(m Moment, agent ledger.ID, id ledger.AccountID, class quota.Class, units int64) {
	if o.fault != nil {
		return
	}
	if units > 0 && (class == quota.Exact || class == quota.Hard) {
		o.Break(m.At, UnleasedOnly, "%s, of class %s, went on without a lease", id.Key, class)
	}
	a := o.account(id)
	a.use.Unleased += units
	a.over += max(0, -units) // it may come too late to be told
	a.without[agent] = true
	a.judge.used(o, m, a)
}

// Lost tells that a process of an incarnation is gone with all that it knew, or is no longer
// the only one: what it had not said may never be known.
func (o *Oracle) Lost(incarnation ledger.ID) {
	o.dead[incarnation] = true
	for _, r := range o.grants {
		if r.row.Agent == incarnation {
			o.account(r.row.Account).lossy = true
		}
	}
	for _, a := range o.accounts {
		a.lossy = a.lossy || a.without[incarnation]
	}
}

// Refused tells of an ask or a spend that policy did not admit: there is no account to record
// that in, so a repeat that arrives when policy admits it again is decided, and nobody waits for it.
func (o *Oracle) Refused(id ledger.ID) { o.refused[id] = true }

// Forgotten tells that what an agent knows of an account is lost although it lives on.
func (o *Oracle) Forgotten(id ledger.AccountID) { o.account(id).lossy = true }

// Copied tells that a process was copied while it ran. What its leases have left can be spent
// by both.
func (o *Oracle) Copied(incarnation ledger.ID, from, to Holder) {
	for id, r := range o.grants {
		if r.row.Agent == incarnation && r.row.Kind == ledger.KindSpend && r.row.Refunded == 0 {
			// What it is settled with is on its way: one takes it back, the other what it replaces.
			o.account(r.row.Account).use.Copied += r.settling
		}
		if r.row.Agent != incarnation || r.row.Kind == ledger.KindSpend || r.row.Amount == 0 {
			continue
		}
		x := *o.held(from, id)
		if r.row.Kind == ledger.KindSlots { // what runs is not doubled, and may end at any time
			x.used = 0
		}
		o.holders[holding{to, id}] = &x
		if !x.final {
			o.account(r.row.Account).use.Copied += int64(r.row.Amount) - x.used
		}
	}
	o.Lost(incarnation)
}

// Report is what a holder says of a grant.
type Report struct {
	ID       ledger.ID
	Taken    int64
	Refunded int64
	Returned int64
	Final    bool
	Unleased bool
	Slots    bool
}

// Sent tells of a report at the moment when it is made.
func (o *Oracle) Sent(m Moment, h Holder, x Report) {
	if o.fault != nil {
		return
	}
	was := o.held(h, x.ID)
	if x.Slots {
		if x.Returned < was.returned || was.used > 0 && x.Final {
			o.Break(m.At, Cumulative, "slots %s are reported as returned %d after %d, %d are in use", short(x.ID), x.Returned, was.returned, was.used)
		}
		was.returned = x.Returned
		if r, ok := o.grants[x.ID]; ok && was.used > int64(r.row.Amount)-x.Returned {
			o.Break(m.At, Cumulative, "slots %s of %d are reported as returned %d while %d are in use", short(x.ID), r.row.Amount, x.Returned, was.used)
		}
		return
	}
	if x.Unleased {
		return // refused as too much at once it is said anew in smaller steps
	}
	if x.Taken < was.taken || x.Refunded < was.refunded || x.Returned < was.returned || was.final && !x.Final {
		o.Break(m.At, Cumulative, "reports on %s fell: taken %d to %d, returned %d to %d, final %v to %v",
			short(x.ID), was.taken, x.Taken, was.returned, x.Returned, was.final, x.Final)
	}
	was.taken, was.refunded, was.returned, was.final = x.Taken, x.Refunded, x.Returned, x.Final
	if x.Taken-x.Refunded != was.used {
		o.Break(m.At, Cumulative, "%s is reported as taken %d less %d, callers were allowed %d of it", short(x.ID), x.Taken, x.Refunded, was.used)
	}
	if r, ok := o.grants[x.ID]; ok && x.Final && (x.Taken+x.Returned < int64(r.row.Amount) || x.Taken-x.Refunded+x.Returned > int64(r.row.Amount)) {
		o.Break(m.At, Sealed, "the final report on %s says taken %d less %d and returned %d of %d", short(x.ID), x.Taken, x.Refunded, x.Returned, r.row.Amount)
	}
}

// Rest says that faults have ended long ago and nobody asks: nothing may be under way any more.
func (o *Oracle) Rest(m Moment) {
	for _, id := range o.order() {
		if a := o.accounts[id]; o.fault == nil && a.row.Kind != 0 {
			a.judge.rest(o, m, a)
		}
	}
}
