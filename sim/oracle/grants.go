package oracle

import (
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// places is where units are, as the grants say: the oracle's own sums.
type places struct {
	granted, leased, spent, unleased   int64
	outstanding, held, uncertain, back int64
	emergency, extended                int64 // authorised for outages, and of that used
	expired, revoked, returned         int64 // the same by cause, as the audit counters say it
}

func (p *places) add(q places, sign int64) {
	p.granted += sign * q.granted
	p.leased += sign * q.leased
	p.spent += sign * q.spent
	p.unleased += sign * q.unleased
	p.outstanding += sign * q.outstanding
	p.held += sign * q.held
	p.uncertain += sign * q.uncertain
	p.back += sign * q.back
	p.expired += sign * q.expired
	p.revoked += sign * q.revoked
	p.returned += sign * q.returned
	p.emergency += sign * q.emergency
	p.extended += sign * q.extended
}

// settled is S.
func (p *places) settled() int64 { return p.leased + p.spent + p.unleased + p.extended }

// charged is S + O + H.
func (p *places) charged() int64 { return p.settled() + p.outstanding + p.held }

// grant is what the oracle knows of one id.
type grant struct {
	row      ledger.Grant
	at       places
	starts   time.Duration // true time before which no holder may spend it, nor by the ledger's clock
	ends     time.Duration // true time after which no holder may spend it
	grace    time.Duration // by the policy at the decision
	offset   time.Duration // of the ledger's clock to true time then
	made     time.Duration // slots: true time of the grant or the last renewal
	clock    time.Time     // the ledger's then
	settling int64         // what a spend was settled with
	late     bool          // it was to be taken back, and was too old for that
	told     bool          // a caller was told of this spend
}

// Commit tells of a transaction that was committed: what the ledger wrote.
func (o *Oracle) Commit(m Moment, c ledger.Changes) {
	if o.fault != nil {
		return
	}
	var news []ledger.Grant
	o.denials = false
	for _, g := range c.NewGrants {
		o.newGrant(m, g)
		o.denials = o.denials || g.State == ledger.Denied && g.Reason != quota.Cancelled
		if o.adjusted(m, g) {
			continue
		}
		if g.Amount > 0 || g.State == ledger.Denied {
			news = append(news, g)
		}
	}
	for _, g := range c.Grants {
		o.changed(m, g)
	}
	for _, id := range c.Folded {
		o.folded(m, o.grants[id])
	}
	for _, s := range c.Statements {
		o.stated(m, s)
	}
	for i := range c.Accounts {
		o.committed(m, &c.Accounts[i], news)
	}
}

// folded takes in that the ledger forgot a record. What a rate key's leases did not confirm is
// spent, and the bucket knows of it.
func (o *Oracle) folded(m Moment, r *grant) {
	g, p := &r.row, &r.at
	if o.account(g.Account).row.Kind != quota.RateLimit && p.outstanding+p.held+p.uncertain != 0 {
		o.Break(m.At, Kept, "the record of %s was folded with %d units outstanding, %d held and %d uncertain", short(g.ID), p.outstanding, p.held, p.uncertain)
	}
	// The id of work without a lease serves as long as its agent runs: it comes again.
	if g.Kind == ledger.KindSlots && g.Amount == 0 && g.State == ledger.Final {
		delete(o.grants, g.ID)
	}
}

func (o *Oracle) newGrant(m Moment, g ledger.Grant) {
	if was, ok := o.grants[g.ID]; ok {
		o.Break(m.At, SameAnswer, "id %s was recorded twice, as %s and as %s", short(g.ID), was.row.State, g.State)
		return
	}
	r := &grant{offset: offset(m), made: m.At, clock: g.IssuedAt}
	o.grants[g.ID] = r
	if g.Kind == ledger.KindCredit || g.Kind == ledger.KindRelease {
		r.row = g
		return
	}
	if g.Amount > 0 {
		o.decided(m, g)
		// A holder's clock may run slow; the ledger's own jumps do not concern it.
		r.ends = m.At + g.TTL + o.drifted(g.TTL)
		if !g.StartsAt.IsZero() {
			r.starts = o.begins(m, g.StartsAt.Sub(g.IssuedAt))
		}
		if terms, ok := o.look(g.Account); ok {
			r.grace = terms.Grace
		}
	}
	if o.dead[g.Agent] || o.refused[g.ID] {
		o.account(g.Account).lossy = true
	}
	o.doubled(g)
	o.place(m, r, g)
}

// decided holds an approval to the policy in force and to its window.
func (o *Oracle) decided(m Moment, g ledger.Grant) {
	if m.Suspect {
		o.Break(m.At, Trusted, "%s was granted while the clocks disagreed", short(g.ID))
	}
	if g.PolicyVersion != o.version {
		o.Break(m.At, InForce, "%s was decided under policy version %d, version %d is in force", short(g.ID), g.PolicyVersion, o.version)
	}
	w, from := g.Account.Window, g.IssuedAt
	if ahead := g.StartsAt.Sub(g.IssuedAt); g.Kind == ledger.KindLease && !g.StartsAt.IsZero() && ahead > g.TTL {
		o.Break(m.At, InWindow, "%s was granted %s before its window begins, and lives %s", short(g.ID), ahead, g.TTL)
	}
	if g.StartsAt.After(from) {
		from = g.StartsAt
	}
	if !w.Contains(from) || g.Kind != ledger.KindSpend && !w.Endless() && g.ExpiresAt.After(w.End) {
		o.Break(m.At, InWindow, "%s was granted in %s for %s to %s", short(g.ID), w, clock(from), clock(g.ExpiresAt))
	}
	if g.Kind == ledger.KindLease && g.TTL > g.ExpiresAt.Sub(g.IssuedAt) {
		o.Break(m.At, InWindow, "%s lives %s, its terms say %s", short(g.ID), g.ExpiresAt.Sub(g.IssuedAt), g.TTL)
	}
}

// changed holds a record to what may change in it.
func (o *Oracle) changed(m Moment, g ledger.Grant) {
	r, ok := o.grants[g.ID]
	if !ok {
		o.Break(m.At, SameAnswer, "%s was changed before it was made", short(g.ID))
		return
	}
	was := r.row
	if g.Kind == ledger.KindSlots {
		o.slotsChanged(m, r, g)
	} else if !g.ExpiresAt.Equal(was.ExpiresAt) {
		o.Break(m.At, SameAnswer, "%s expires at %s and expired at %s", short(g.ID), clock(g.ExpiresAt), clock(was.ExpiresAt))
	}
	if g.Amount != was.Amount || g.Account != was.Account || g.Kind != was.Kind || g.Agent != was.Agent ||
		g.Reason != was.Reason || g.Generation != was.Generation {
		o.Break(m.At, SameAnswer, "the decision on %s changed from %d %q to %d %q", short(g.ID), was.Amount, was.Reason, g.Amount, g.Reason)
	}
	if g.Taken < was.Taken || g.Refunded < was.Refunded || g.Back < was.Back {
		o.Break(m.At, Cumulative, "counters of %s fell: taken %d to %d, refunded %d to %d, returned %d to %d",
			short(g.ID), was.Taken, g.Taken, was.Refunded, g.Refunded, was.Back, g.Back)
	}
	if g.State != was.State {
		o.moved(m, was, g)
	}
	if g.Kind == ledger.KindSpend && g.Refunded > was.Refunded {
		switch {
		case r.told:
			o.toldWrong(m, r, "was taken back after its caller was told that it passed")
		case o.shared[g.ID]: // and one of the two has settled it
			o.account(g.Account).use.Copied += r.settling
		}
	}
	o.place(m, r, g)
}

// moved holds a change of state to the life of a grant.
func (o *Oracle) moved(m Moment, was, g ledger.Grant) {
	switch {
	case was.State == ledger.Live && g.State == ledger.Closed:
		if m.Suspect {
			o.Break(m.At, Trusted, "lease %s was closed while the clocks disagreed", short(g.ID))
		}
		now, grace := o.ratcheted(m, g.Account), o.grants[g.ID].grace
		if g.Kind == ledger.KindSlots {
			grace = was.ClosesAt.Sub(was.ExpiresAt)
		}
		if now.Before(was.ExpiresAt.Add(grace)) {
			o.Break(m.At, Closes, "lease %s expires at %s and was closed at %s, the grace is %s", short(g.ID), clock(g.ExpiresAt), clock(now), grace)
		}
	case (was.State == ledger.Live || was.State == ledger.Closed) && g.State == ledger.Final:
	case g.Kind == ledger.KindSlots && g.State == ledger.Closed && g.InUse > 0: // work that goes on after its end
	default:
		o.Break(m.At, SameAnswer, "%s went from %s to %s", short(g.ID), was.State, g.State)
	}
}

// place puts a grant's units where its record says, and holds it to having one place for each.
func (o *Oracle) place(m Moment, r *grant, g ledger.Grant) {
	a := o.account(g.Account)
	a.sum.add(r.at, -1)
	was := r.row
	r.row, r.at = g, whereIs(g)
	a.sum.add(r.at, 1)
	p := r.at
	if g.Kind != ledger.KindSpend && g.Kind != ledger.KindEmergency && g.Amount > 0 && (g.Kind != ledger.KindSlots || g.State != ledger.Final) {
		if all := p.leased + p.outstanding + p.held + p.uncertain + p.back; all != int64(g.Amount) || p.outstanding < 0 || p.held < 0 || p.uncertain < 0 {
			o.Break(m.At, Conserved, "of the %d units of %s: used %d, outstanding %d, held %d, uncertain %d, returned %d",
				g.Amount, short(g.ID), p.leased, p.outstanding, p.held, p.uncertain, p.back)
		}
		grew := g.Uncertain - was.Uncertain
		if grew > 0 { // by an operator, as far as one said so
			by := min(int64(grew), a.freed)
			a.freed -= by
			grew -= ledger.Units(by)
		}
		switch {
		case grew > 0 && g.Class == quota.Hard:
			o.Break(m.At, Released, "%d units of %s, a hard lease, were given back unconfirmed", g.Uncertain, short(g.ID))
		case grew > 0 && g.Class == quota.Bounded:
			a.moved += int64(grew)
		}
	}
	if g.State == ledger.Final && p.outstanding+p.held+p.uncertain != 0 {
		o.Break(m.At, Sealed, "%s is final with %d units unaccounted for", short(g.ID), p.outstanding+p.held+p.uncertain)
	}
}

// whereIs reads one record.
func whereIs(g ledger.Grant) places {
	use, amount := int64(g.Taken-g.Refunded), int64(g.Amount)
	if g.Kind == ledger.KindSlots {
		use = int64(g.InUse)
	}
	if g.Kind == ledger.KindSpend {
		if g.State == ledger.Denied || g.State == ledger.Withdrawn {
			return places{unleased: use}
		}
		return places{spent: use}
	}
	p := places{granted: amount, back: int64(g.Back)}
	p.leased = min(use, amount-p.back)
	if g.Kind == ledger.KindEmergency {
		return places{extended: p.leased, unleased: use - p.leased, emergency: amount - p.back}
	}
	p.unleased = use - p.leased
	rest := amount - p.back - p.leased
	switch g.State {
	case ledger.Live:
		p.outstanding = rest
	case ledger.Closed:
		p.uncertain = int64(g.Uncertain)
		p.held = rest - p.uncertain
	default: // whatever is left over has no place: of slots, time has ended it
	}
	ended := p.held + p.uncertain
	if g.State == ledger.Final {
		ended = rest
	}
	if g.RevokedAt.IsZero() {
		p.returned, p.expired = p.back, ended
	} else {
		p.revoked = p.back + ended
	}
	return p
}

func (o *Oracle) look(id ledger.AccountID) (ledger.Terms, bool) {
	if o.terms == nil {
		return ledger.Terms{}, false
	}
	return o.terms(id.Key, id.Window)
}

// Answer is what the ledger told an agent of an id.
type Answer struct {
	ID         ledger.ID
	Amount     int64
	Reason     quota.Reason
	TTL        time.Duration
	Generation int64
}

// Answered tells of a decision on its way to an agent: always what the record says.
func (o *Oracle) Answered(m Moment, x Answer) {
	if o.fault != nil {
		return
	}
	r, ok := o.grants[x.ID]
	if !ok {
		o.Break(m.At, SameAnswer, "an answer was given for %s, which was never recorded", short(x.ID))
		return
	}
	g := r.row
	if !g.StartsAt.IsZero() { // a repeat is told how long is left by the ledger's clock as it is now
		r.starts = min(r.starts, o.begins(m, g.StartsAt.Sub(o.ratcheted(m, g.Account))))
	}
	if x.Amount != int64(g.Amount) || x.Reason != g.Reason || x.Generation != g.Generation ||
		x.Amount > 0 && g.Kind != ledger.KindSpend && x.TTL != g.TTL {
		o.Break(m.At, SameAnswer, "%s was decided as %d %q and is told as %d %q", short(x.ID), g.Amount, g.Reason, x.Amount, x.Reason)
	}
}

// begins is the true time before which no holder may begin what is told now to begin after wait.
func (o *Oracle) begins(m Moment, wait time.Duration) time.Duration {
	return m.At + wait - o.drifted(wait)
}

// ratcheted is the ledger's time as an account has it: never less than it was.
func (o *Oracle) ratcheted(m Moment, id ledger.AccountID) time.Time {
	if clock := o.account(id).row.Clock; clock.After(m.Ledger) {
		return clock
	}
	return m.Ledger
}

// drifted is how far an agent's clock may be off true time after d.
func (o *Oracle) drifted(d time.Duration) time.Duration {
	return time.Duration(int64(d)/1_000_000*o.drift) + time.Microsecond
}

func offset(m Moment) time.Duration { return m.Ledger.Sub(epoch) - m.At }

// epoch is far from any duration's end.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func short(id ledger.ID) string { return id.String()[24:] }

func clock(t time.Time) string { return t.Format("15:04:05.000000") }
