package oracle

import (
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// adjusted takes in what an operator did, and reports that the record is one of that.
func (o *Oracle) adjusted(m Moment, g ledger.Grant) bool {
	a := o.account(g.Account)
	switch g.Kind {
	case ledger.KindCredit:
		a.credit += int64(g.Amount)
	case ledger.KindRelease:
		a.freed += int64(g.Amount)
		if g.Amount > g.Asked {
			o.Break(m.At, Released, "%s: %d held units were released, %d were to be", g.Account, g.Amount, g.Asked)
		}
	default:
		return false
	}
	return true
}

// authorised holds an allowance for an outage to its pot: whatever was authorised and is not known
// as unspent counts, whoever has it. An agent has one at a time.
func (o *Oracle) authorised(m Moment, g ledger.Grant) {
	a := o.account(g.Account)
	terms, ok := o.look(g.Account)
	if e := a.sum.emergency; !ok || e > int64(terms.Pot) {
		o.Break(m.At, Potted, "%s: an allowance of %d made %d authorised, the pot is %d", g.Account, g.Amount, e, terms.Pot)
	}
	if had, ok := o.grants[a.allowances[g.Agent]]; ok && had.row.State == ledger.Live {
		o.Break(m.At, Potted, "%s: agent %s has two allowances, %s and %s", g.Account, short(g.Agent), short(had.row.ID), short(g.ID))
	}
	if a.allowances == nil {
		a.allowances = map[ledger.ID]ledger.ID{}
	}
	a.allowances[g.Agent] = g.ID
}

// stated holds a statement to the books, revision by revision.
func (o *Oracle) stated(m Moment, s ledger.Statement) {
	a := o.account(s.Account)
	if s.Revision != a.stated.Revision+1 || s.At.Before(a.stated.At) {
		o.Break(m.At, Stated, "%s: revision %d of %s follows revision %d of %s", s.Account, s.Revision, clock(s.At), a.stated.Revision, clock(a.stated.At))
	}
	if a.stated.Final() && !s.Final() {
		o.Break(m.At, Stated, "%s: revision %d is not final, revision %d was", s.Account, s.Revision, a.stated.Revision)
	}
	if s.At.Before(s.Account.Window.End) || m.Suspect && s.Revision == 1 {
		o.Break(m.At, Stated, "%s: closed at %s, before its end or while the clocks disagree", s.Account, clock(s.At))
	}
	a.stated = s
}

// statedNow compares the latest statement of a window that was closed with the books.
func (o *Oracle) statedNow(m Moment, a *account) {
	s, x := &a.stated, &a.sum
	if a.row.ClosedAt.IsZero() {
		return
	}
	open := x.outstanding + x.held + x.uncertain + x.emergency - x.extended
	switch {
	case int64(s.Billable) != x.settled() || int64(s.Held) != x.held || int64(s.Uncertain) != x.uncertain ||
		int64(s.Outstanding) != x.outstanding || int64(s.Emergency) != x.emergency-x.extended || int64(s.Credit) != a.credit:
		o.Break(m.At, Stated, "%s: revision %d says billable %d, held %d, uncertain %d, outstanding %d, emergency %d, credit %d; the grants say %+v, credits %d",
			a.row.ID, s.Revision, s.Billable, s.Held, s.Uncertain, s.Outstanding, s.Emergency, s.Credit, *x, a.credit)
	case !s.Final() && open == 0:
		o.Break(m.At, Stated, "%s: nothing is open, and revision %d is not final", a.row.ID, s.Revision)
	case s.Final() && open != 0 && a.stated.FinalAt.Before(a.row.ID.Window.End.Add(a.row.FinalAfter)) && !a.settledOnce:
		o.Break(m.At, Stated, "%s: revision %d is final while %d are open", a.row.ID, s.Revision, open)
	}
	a.settledOnce = a.settledOnce || open == 0
}

// Billed says that every window is over for long enough to have its final statement.
func (o *Oracle) Billed(m Moment) {
	for _, id := range o.order() {
		a := o.accounts[id]
		if o.fault != nil || id.Window.Endless() || a.row.Kind != quota.Period {
			continue
		}
		if a.row.ClosedAt.IsZero() || a.row.FinalAt.IsZero() || !a.stated.Final() {
			o.Break(m.At, Stated, "%s: at %s it has revision %d, closed %v, final %v", id, clock(m.Ledger), a.stated.Revision, !a.row.ClosedAt.IsZero(), !a.row.FinalAt.IsZero())
		}
	}
}
