package oracle

import (
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// slots judges concurrency limits (DESIGN 3.9): what runs is in the books, as long as no run takes
// longer than max_hold.
type slots struct{}

func (s slots) committed(o *Oracle, m Moment, a *account, before ledger.Account, news []ledger.Grant) {
	approved := false
	for _, g := range news {
		approved = approved || g.Amount > 0
		if g.Amount > 0 {
			s.granted(o, m, a, g)
		}
	}
	if !approved {
		for _, g := range news {
			period{}.denied(o, m, a, g)
		}
	}
	if b := a.row.Budget; a.moved > 0 && !b.Unlimited && a.sum.outstanding+a.sum.uncertain > int64(b.Units) {
		o.Break(m.At, Released, "%s: %d held slots were given back, that made outstanding %d and uncertain %d, the budget is %d",
			a.row.ID, a.moved, a.sum.outstanding, a.sum.uncertain, b.Units)
	}
	a.moved, a.freed = 0, 0
	period{}.grown(o, m, a, before)
	s.used(o, m, a)
}

// granted looks at the room of an approval. What is put to use at once needs no budget.
func (slots) granted(o *Oracle, m Moment, a *account, g ledger.Grant) {
	id, sum := a.row.ID, &a.sum
	terms, known := o.look(id)
	if !known {
		o.Break(m.At, InForce, "%s: slots were granted, policy version %d has no such key", id, o.version)
		return
	}
	if terms.Limit != a.row.Limit || terms.Budget != a.row.Budget || terms.Class != a.row.Class || terms.MaxHold != a.row.MaxHold {
		o.Break(m.At, InForce, "%s: decided under %s %s %s, policy version %d says %s %s %s", id,
			a.row.Class, words(a.row.Limit), words(a.row.Budget), o.version, terms.Class, words(terms.Limit), words(terms.Budget))
	}
	if q := int64(terms.Limit.Units); sum.charged() > q {
		o.Break(m.At, Headroom, "%s: a grant made settled %d + outstanding %d + held %d, the limit is %d", id, sum.settled(), sum.outstanding, sum.held, q)
	}
	exposed := sum.outstanding
	if terms.Class != quota.Hard {
		exposed += sum.uncertain
	}
	if idle := g.Amount - g.Need; idle > 0 && (exposed > int64(terms.Budget.Units) || terms.Class == quota.Exact) {
		o.Break(m.At, Exposed, "%s: a grant of %d idle slots made outstanding %d, uncertain %d, the budget of class %s is %d",
			id, idle, sum.outstanding, sum.uncertain, terms.Class, terms.Budget.Units)
	}
	if g.EndsAt.Before(g.ClosesAt.Add(terms.MaxHold)) {
		o.Break(m.At, Closes, "slots %s close at %s and end at %s, the longest run is %s", short(g.ID), clock(g.ClosesAt), clock(g.EndsAt), terms.MaxHold)
	}
}

func (slots) took(int64) {}

func (slots) used(o *Oracle, m Moment, a *account) { o.accounted(m, a) }

// rest: time ends what nobody confirms, whoever was lost.
func (slots) rest(o *Oracle, m Moment, a *account) {
	s := &a.sum
	if a.use.Leased+a.use.Unleased != 0 {
		return // work goes on
	}
	if s.settled() != 0 || s.outstanding != 0 || s.held != 0 || s.uncertain != 0 {
		o.Break(m.At, Rests, "%s: nothing runs; settled are %d, outstanding %d, held %d, uncertain %d", a.row.ID, s.settled(), s.outstanding, s.held, s.uncertain)
	}
}

// Began tells that work began on slots of a lease; of an id without an amount, without one.
func (o *Oracle) Began(m Moment, h Holder, agent, id ledger.ID, in ledger.AccountID, class quota.Class, n int64) {
	if o.fault != nil {
		return
	}
	r, ok := o.grants[id]
	if !ok || r.row.Amount == 0 {
		o.Unleased(m, agent, in, class, n)
		return
	}
	g := &r.row
	if g.Kind != ledger.KindSlots {
		o.Break(m.At, Backed, "work began on %s, which is no lease of slots", short(id))
		return
	}
	x := o.held(h, id)
	x.used += n
	if x.used > int64(g.Amount) || x.used > int64(g.Amount)-x.returned {
		o.Break(m.At, Backed, "%d run on lease %s of %d slots, of which %d were given back", x.used, short(id), g.Amount, x.returned)
	}
	if m.At > r.ends && !o.shared[id] {
		o.Break(m.At, Stops, "work began on lease %s at %s, by true time it ended at %s", short(id), m.At, r.ends)
	}
	a := o.account(g.Account)
	a.use.Leased += n
	a.judge.used(o, m, a)
}

// Ended tells that such work ended, whether or not its agent knows.
func (o *Oracle) Ended(m Moment, h Holder, agent, id ledger.ID, in ledger.AccountID, n int64) {
	if o.fault != nil {
		return
	}
	r, ok := o.grants[id]
	if !ok || r.row.Amount == 0 {
		o.Unleased(m, agent, in, quota.BestEffort, -n)
		return
	}
	o.held(h, id).used -= n
	o.account(r.row.Account).use.Leased -= n
}

// slotsChanged holds a record of slots to what may change in it: a live lease is prolonged, what
// time ends has had its longest run.
func (o *Oracle) slotsChanged(m Moment, r *grant, g ledger.Grant) {
	was := r.row
	now := o.ratcheted(m, g.Account)
	if g.Seq < was.Seq {
		o.Break(m.At, Cumulative, "the sequence of %s fell from %d to %d", short(g.ID), was.Seq, g.Seq)
	}
	if g.ExpiresAt.After(was.ExpiresAt) {
		if was.State != ledger.Live || g.State != ledger.Live || !now.Before(was.ClosesAt) {
			o.Break(m.At, Closes, "slots %s were %s and due to close at %s, and were prolonged at %s", short(g.ID), was.State, clock(was.ClosesAt), clock(now))
		}
		r.made, r.clock = m.At, now
	}
	if g.Seq > was.Seq && g.State == ledger.Live && !g.ExpiresAt.Before(now.Add(g.TTL-time.Microsecond)) { // the clock may stand still
		r.ends = max(r.ends, m.At+g.TTL+o.drifted(g.TTL))
		r.made, r.clock = m.At, now
	}
	if g.ExpiresAt.Before(was.ExpiresAt) || g.EndsAt.Before(was.EndsAt) {
		o.Break(m.At, SameAnswer, "slots %s end sooner than they did", short(g.ID))
	}
	if was.State != ledger.Final && g.State == ledger.Final && g.Back < g.Amount {
		if now.Before(was.EndsAt) {
			o.Break(m.At, Closes, "slots %s end at %s and were ended at %s", short(g.ID), clock(was.EndsAt), clock(now))
		}
		if m.At < r.made+was.EndsAt.Sub(r.clock) { // the ledger's clock ran ahead: what runs on is beyond it
			o.account(g.Account).use.Copied += int64(g.Amount)
		}
	}
}
