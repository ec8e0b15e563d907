package oracle

import (
	"slices"
	"strconv"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// judge holds an account to the promises of its kind. Where kinds agree (conservation, answers,
// ends of leases) the oracle itself does.
type judge interface {
	// committed looks at an account after a transaction with new decisions of its own.
	committed(o *Oracle, m Moment, a *account, before ledger.Account, news []ledger.Grant)
	// took counts what callers were allowed of leases; below zero, gave back.
	took(units int64)
	// used looks at an account after its callers were allowed something.
	used(o *Oracle, m Moment, a *account)
	// rest looks at an account when everything has come to rest.
	rest(o *Oracle, m Moment, a *account)
}

// judgeOf makes the judge of a kind of limit.
func judgeOf(kind quota.Kind) judge {
	switch kind {
	case quota.RateLimit:
		return &rate{}
	case quota.Concurrency:
		return slots{}
	}
	return period{}
}

// committed compares an account as the ledger wrote it with the sums of its grants.
func (o *Oracle) committed(m Moment, row *ledger.Account, news []ledger.Grant) {
	a := o.account(row.ID)
	before := a.row
	a.row = *row
	if row.Kind != before.Kind {
		a.judge = judgeOf(row.Kind)
	}
	s, t := a.sum, row.Tally
	if s.granted != int64(t.Granted) || s.leased != int64(t.Leased) || s.spent != int64(t.Spent) || s.unleased != int64(t.Unleased) ||
		s.outstanding != int64(t.Outstanding) || s.held != int64(t.Held) || s.uncertain != int64(t.Uncertain) ||
		s.emergency != int64(t.Emergency) || s.extended != int64(t.Extended) || s.expired != int64(t.Expired) || s.revoked != int64(t.Revoked) || s.returned != int64(t.Returned) {
		o.Break(m.At, Conserved, "%s: the ledger says %+v, its grants say %+v", row.ID, t, s)
	}
	if a.row.Clock.Before(before.Clock) {
		o.Break(m.At, Ratcheted, "%s: the clock went from %s to %s", row.ID, clock(before.Clock), clock(row.Clock))
	}
	own := news
	if slices.ContainsFunc(news, func(g ledger.Grant) bool { return g.Account != row.ID }) {
		own = nil
		for _, g := range news {
			if g.Account == row.ID {
				own = append(own, g)
			}
		}
	}
	a.judge.committed(o, m, a, before, own)
	o.statedNow(m, a)
}

// period judges quotas of a window (DESIGN 3.1 to 3.8).
type period struct{}

func (p period) committed(o *Oracle, m Moment, a *account, before ledger.Account, news []ledger.Grant) {
	var approved, leased bool
	for _, g := range news {
		if g.Kind == ledger.KindEmergency {
			if g.Amount > 0 {
				o.authorised(m, g)
			}
			continue
		}
		approved = approved || g.Amount > 0
		leased = leased || g.Amount > 0 && g.Kind == ledger.KindLease
	}
	if len(news) > 0 {
		p.decided(o, m, a, approved, leased)
	}
	if !approved { // what is decided after a denial may change what was free before it
		for _, g := range news {
			p.denied(o, m, a, g)
		}
	}
	if !a.row.Limit.Unlimited {
		q := int64(a.row.Limit.Units) + a.credit
		a.overshoot = max(a.overshoot, a.sum.settled()-max(q, a.committed))
		if int64(a.row.Overshoot) < a.overshoot {
			o.Break(m.At, Committed, "%s: overshoot is %d, the ledger recorded %d", a.row.ID, a.overshoot, a.row.Overshoot)
		}
	}
	if b := a.row.Budget; a.moved > 0 && !b.Unlimited && a.sum.outstanding+a.sum.uncertain > int64(b.Units) {
		o.Break(m.At, Released, "%s: %d held units were given back, that made outstanding %d and uncertain %d, the budget is %d",
			a.row.ID, a.moved, a.sum.outstanding, a.sum.uncertain, b.Units)
	}
	a.moved, a.freed = 0, 0
	if int64(a.row.Credit) != a.credit {
		o.Break(m.At, Committed, "%s: credits are %d, the ledger recorded %d", a.row.ID, a.credit, a.row.Credit)
	}
	p.grown(o, m, a, before)
	p.used(o, m, a)
}

// decided looks at the room of approvals: under the policy in force, not under what the ledger
// took for it.
func (period) decided(o *Oracle, m Moment, a *account, approved, leased bool) {
	id, s := a.row.ID, &a.sum
	terms, known := o.look(id)
	if !known {
		if approved {
			o.Break(m.At, InForce, "%s: units were granted, policy version %d has no such key", id, o.version)
		}
		return
	}
	if terms.Limit != a.row.Limit || terms.Budget != a.row.Budget || terms.Class != a.row.Class {
		o.Break(m.At, InForce, "%s: decided under %s %s %s, policy version %d says %s %s %s", id,
			a.row.Class, words(a.row.Limit), words(a.row.Budget), o.version, terms.Class, words(terms.Limit), words(terms.Budget))
	}
	if !approved {
		return
	}
	a.committed = max(a.committed, s.charged())
	if int64(a.row.Committed) != a.committed {
		o.Break(m.At, Committed, "%s: committed is %d, the ledger recorded %d", id, a.committed, a.row.Committed)
	}
	if !terms.Limit.Unlimited {
		if q := int64(terms.Limit.Units) + a.credit; s.charged() > q {
			o.Break(m.At, Headroom, "%s: a grant made settled %d + outstanding %d + held %d, the limit is %d", id, s.settled(), s.outstanding, s.held, q)
		}
		a.largest = max(a.largest, int64(terms.Limit.Units)+a.credit+s.uncertain)
	} else {
		a.largest = int64(quota.MaxUnits)
	}
	if !leased || terms.Budget.Unlimited {
		return
	}
	exposed := s.outstanding
	if terms.Class != quota.Hard {
		exposed += s.uncertain
	}
	if b := int64(terms.Budget.Units); exposed > b || terms.Class == quota.Exact {
		o.Break(m.At, Exposed, "%s: a grant made outstanding %d, uncertain %d, the budget of class %s is %d", id, s.outstanding, s.uncertain, terms.Class, b)
	}
}

// denied holds a denial to its reason: what is free is not refused as used up, nor what is out
// in leases.
func (period) denied(o *Oracle, m Moment, a *account, g ledger.Grant) {
	if g.State != ledger.Denied || a.row.Limit.Unlimited || g.Kind == ledger.KindEmergency {
		return
	}
	q, n, s := int64(a.row.Limit.Units)+a.credit, int64(g.Need), &a.sum
	wrong := false
	switch g.Reason {
	case quota.Exhausted:
		wrong = n <= q-s.settled()-s.held
	case quota.LeasedOut:
		wrong = n <= q-s.charged()
	case quota.TooLarge:
		wrong = n <= q
	case quota.ExactLane:
		wrong = g.Kind == ledger.KindSpend
	case quota.Cancelled: // it would have fitted, but for another one of its group
		wrong = g.Kind != ledger.KindSpend || !o.denials
	case quota.Stale:
	default:
		wrong = true
	}
	if wrong {
		o.Break(m.At, Reasoned, "%s: %d were denied as %q with limit %d, settled %d, outstanding %d, held %d", a.row.ID, n, g.Reason, q, s.settled(), s.outstanding, s.held)
	}
}

// grown holds the ledger to raising the generation whenever more could be granted than before.
func (period) grown(o *Oracle, m Moment, a *account, before ledger.Account) {
	if before.Kind == 0 || a.row.Generation > before.Generation {
		return
	}
	if a.row.Headroom() > before.Headroom() || a.row.Exposure() > before.Exposure() {
		o.Break(m.At, Grown, "%s: headroom went from %d to %d, exposure from %d to %d, the generation stayed %d",
			a.row.ID, before.Headroom(), a.row.Headroom(), before.Exposure(), a.row.Exposure(), a.row.Generation)
	}
}

func (period) took(int64) {}

func (period) used(o *Oracle, m Moment, a *account) {
	real := o.accounted(m, a)
	if a.largest < int64(quota.MaxUnits) && real > a.largest+a.use.Copied {
		o.Break(m.At, WithinLimit, "%s: %d were used of leases and spends, the largest limit and U were %d (copied %d)", a.row.ID, real, a.largest, a.use.Copied)
	}
}

// accounted compares what callers were allowed with the books (3.3). Use without a lease is D
// until it is reported and part of S then: on both sides it cancels out.
func (o *Oracle) accounted(m Moment, a *account) int64 {
	real := a.use.Leased + a.use.Spent
	books := a.sum.charged() - a.sum.extended + a.sum.uncertain - o.reported(a) + a.use.Copied
	if real > books {
		o.Break(m.At, Accounted, "%s: %d were used of leases and spends, the books have settled %d + outstanding %d + held %d + uncertain %d (unleased %d, copied %d)",
			a.row.ID, real, a.sum.settled(), a.sum.outstanding, a.sum.held, a.sum.uncertain, a.sum.unleased, a.use.Copied)
	}
	return real
}

// reported is what the ledger took in as used without a lease. Beyond a copied lease's amount it
// is use of that lease, which callers had from a lease.
func (o *Oracle) reported(a *account) int64 {
	if a.lossy {
		return 0
	}
	return a.sum.unleased
}

func (period) rest(o *Oracle, m Moment, a *account) { o.rested(m, a) }

// rested looks at an account when everything has come to rest.
func (o *Oracle) rested(m Moment, a *account) {
	s := &a.sum
	if s.outstanding != 0 {
		o.Break(m.At, Rests, "%s: %d are still outstanding", a.row.ID, s.outstanding)
	}
	if a.lossy {
		return
	}
	if used := a.use.Total(); s.settled() < used || s.settled() > used+a.over || s.held != 0 || s.uncertain != 0 || s.emergency != s.extended {
		o.Break(m.At, Settled, "%s: %d were used, %d of it without a lease; settled are %d, held %d, uncertain %d",
			a.row.ID, used, a.use.Unleased, s.settled(), s.held, s.uncertain)
	}
}

func words(l quota.Limit) string {
	if l.Unlimited {
		return "unlimited"
	}
	return strconv.FormatInt(int64(l.Units), 10)
}
