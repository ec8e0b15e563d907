package oracle

import (
	"slices"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// rate judges rate limits (DESIGN 3.9): use in any interval t is at most burst + rate*t + B. A
// bucket of burst + B that fills at rate and never runs dry says the same of every interval at
// once. It fills as the account's clock goes, which is the ledger's, or as an agent's does, with
// what that may be off, whichever is faster: a trickle goes by the latter. What the exact lane spends is used when the
// ledger decides it, and what passes without a lease is not in it.
type rate struct {
	level float64 // of the bucket; below zero only as far as time since the last transaction goes
	at    time.Duration
	olds  []capacity // of terms that leases in use may have come from
	spent int64      // of the account's grants, when last looked
}

// capacity is burst + B, for as long as leases of that time are used.
type capacity struct {
	units int64
	until time.Duration
}

// longestUse is how long after a change of terms a lease from before it may be used.
const longestUse = 10 * time.Second

// horizon is how far ahead of its bucket a trickle may reach.
const horizon = 2 * time.Second

func (r *rate) capacity(m Moment, row *ledger.Account) int64 {
	most := int64(row.Limit.Units) + int64(row.Budget.Units)
	r.olds = slices.DeleteFunc(r.olds, func(c capacity) bool { return c.until < m.At })
	for _, c := range r.olds {
		most = max(most, c.units)
	}
	return most
}

// fills is what comes into a bucket under terms.
func fills(t ledger.Terms, d time.Duration) float64 {
	if t.Rate.Per <= 0 || d <= 0 {
		return 0
	}
	return float64(t.Rate.Units) * float64(d) / float64(t.Rate.Per)
}

// changed is a change of burst: what is spent stays spent. A cut takes nothing from what is out
// under leases of before.
func (r *rate) changed(by, outstanding float64) {
	r.level = max(r.level+by, min(r.level, outstanding))
}

func (r *rate) committed(o *Oracle, m Moment, a *account, before ledger.Account, news []ledger.Grant) {
	row := &a.row
	if before.Kind != quota.RateLimit {
		r.level = float64(row.Limit.Units) + float64(row.Budget.Units)
	} else {
		if before.Terms != row.Terms {
			r.olds = append(r.olds, capacity{int64(before.Limit.Units) + int64(before.Budget.Units), m.At + longestUse})
		}
		since := m.At - r.at
		r.level += fills(before.Terms, max(row.Clock.Sub(before.Clock), since+o.drifted(since)))
		r.changed(float64(row.Limit.Units-before.Limit.Units), float64(a.sum.outstanding))
	}
	r.at = m.At
	r.level -= float64(a.sum.spent - r.spent)
	r.spent = a.sum.spent
	r.level = min(r.level, float64(r.capacity(m, row)))
	r.used(o, m, a)
	terms, known := o.look(row.ID)
	for _, g := range news {
		switch {
		case g.Amount > 0 && !known:
			o.Break(m.At, InForce, "%s: units were granted, policy version %d has no such key", row.ID, o.version)
		case g.Amount > 0:
			r.granted(o, m, a, terms, g)
		case len(news) == 1:
			r.denied(o, m, a, g)
		}
	}
}

// granted looks at the room of an approval.
func (r *rate) granted(o *Oracle, m Moment, a *account, terms ledger.Terms, g ledger.Grant) {
	row := &a.row
	if terms.Limit != row.Limit || terms.Budget != row.Budget || terms.Class != row.Class || terms.Rate != row.Rate {
		o.Break(m.At, InForce, "%s: decided under %s %s %s, policy version %d says %s %s %s", row.ID,
			row.Class, words(row.Limit), words(row.Budget), o.version, terms.Class, words(terms.Limit), words(terms.Budget))
	}
	owed := row.Bucket.Spent - row.Limit.Units
	switch {
	case g.Kind == ledger.KindSpend && owed > 0:
		o.Break(m.At, Headroom, "%s: a spend of %d left the bucket %d below zero", row.ID, g.Amount, owed)
	case float64(owed) > fills(row.Terms, horizon)+1:
		o.Break(m.At, Headroom, "%s: a lease of %d left the bucket %d below zero, more than comes in %s", row.ID, g.Amount, owed, horizon)
	case owed > 0 && g.Delay+g.Drip <= 0:
		o.Break(m.At, Headroom, "%s: a lease of %d left the bucket %d below zero, and all of it may be used at once", row.ID, g.Amount, owed)
	}
	if b := int64(row.Budget.Units); g.Kind == ledger.KindLease && (a.sum.outstanding > b || row.Class == quota.Exact) {
		o.Break(m.At, Exposed, "%s: a lease made outstanding %d, the budget of class %s is %d", row.ID, a.sum.outstanding, row.Class, b)
	}
}

func (r *rate) denied(o *Oracle, m Moment, a *account, g ledger.Grant) {
	if g.State != ledger.Denied {
		return
	}
	level := a.row.Limit.Units - a.row.Bucket.Spent
	wrong := false
	switch g.Reason {
	case quota.Exhausted:
		wrong = g.Need <= level
	case quota.TooLarge:
		wrong = g.Need <= a.row.Limit.Units
	case quota.ExactLane:
		wrong = g.Kind == ledger.KindSpend
	case quota.Stale, quota.Cancelled:
	default:
		wrong = true
	}
	if wrong {
		o.Break(m.At, Reasoned, "%s: %d were denied as %q with %d in a bucket of %d", a.row.ID, g.Need, g.Reason, level, a.row.Limit.Units)
	}
}

func (r *rate) took(units int64) { r.level -= float64(units) }

func (r *rate) used(o *Oracle, m Moment, a *account) {
	o.accounted(m, a)
	if a.row.Limit.Unlimited || a.row.Budget.Unlimited || a.row.Kind != quota.RateLimit {
		return
	}
	since := m.At - r.at
	if now := r.level + fills(a.row.Terms, since+o.drifted(since)); now < -float64(a.use.Copied)-0.001 {
		o.Break(m.At, WithinInterval, "%s: %.3f more were used in some interval than burst %d, budget %d and %d in %s allow (copied %d)",
			a.row.ID, -now, a.row.Limit.Units, a.row.Budget.Units, a.row.Rate.Units, a.row.Rate.Per, a.use.Copied)
	}
}

func (r *rate) rest(o *Oracle, m Moment, a *account) { o.rested(m, a) }
