package ledger

import (
	"fmt"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Difference is one place where the ledger's records do not add up.
type Difference struct {
	Account    AccountID
	Grant      ID // nil: the account's own counter
	Counter    string
	Recorded   Units
	Recomputed Units
}

func (d Difference) String() string {
	what := "account " + d.Account.String()
	if !d.Grant.IsNil() {
		what = "grant " + d.Grant.String() + " of " + d.Account.String()
	}
	return fmt.Sprintf("%s: %s is recorded as %d, recomputed %d", what, d.Counter, d.Recorded, d.Recomputed)
}

// Audit recomputes one account from its grants. Recorded tallies are what the store keeps
// beside the counters as reported; folded is the sum of grants that retention removed.
type Audit struct {
	account Account
	sum     Tally
	found   []Difference
}

// NewAudit starts the audit of an account.
func NewAudit(a Account, folded Tally) *Audit { return &Audit{account: a, sum: folded} }

// Add takes one grant of the account and the tally recorded with it.
func (a *Audit) Add(g Grant, recorded Tally) {
	for _, f := range g.faults() {
		a.found = append(a.found, Difference{Account: g.Account, Grant: g.ID, Counter: f.counter, Recorded: f.recorded, Recomputed: f.wanted})
	}
	t := g.Tally()
	a.compare(g.ID, recorded, t)
	sum, err := a.sum.plus(t, 1)
	if err != nil {
		a.found = append(a.found, Difference{Account: g.Account, Grant: g.ID, Counter: "sum of all grants", Recorded: g.Amount, Recomputed: quota.MaxUnits})
		return
	}
	a.sum = sum
}

// Done compares the account's counters with the sums and returns every difference found.
func (a *Audit) Done() []Difference {
	acc := a.account
	a.compare(ID{}, acc.Tally, a.sum)
	t := acc.Tally
	// Conservation (3.6): every unit ever granted is in exactly one place.
	a.expect("granted", t.Granted, t.Leased+t.Outstanding+t.Expired+t.Revoked+t.Returned)
	if t.Extended > t.Emergency {
		a.expect("extended", t.Extended, t.Emergency)
	}
	for _, f := range acc.bucketFaults() {
		a.expect(f.counter, f.recorded, f.wanted)
	}
	if o := acc.RealisedOvershoot(); o > acc.Overshoot {
		a.expect("overshoot", acc.Overshoot, o)
	}
	return a.found
}

func (a *Audit) expect(counter string, recorded, wanted Units) {
	if recorded != wanted {
		a.found = append(a.found, Difference{Account: a.account.ID, Counter: counter, Recorded: recorded, Recomputed: wanted})
	}
}

func (a *Audit) compare(grant ID, recorded, wanted Tally) {
	names, was, is := TallyNames(), recorded.Values(), wanted.Values()
	for i, name := range names {
		if was[i] != is[i] {
			a.found = append(a.found, Difference{Account: a.account.ID, Grant: grant, Counter: name, Recorded: was[i], Recomputed: is[i]})
		}
	}
}

// Counters is how many a tally has.
const Counters = 12

// TallyNames are the counters' names, as columns and in reports, in the order of Values.
func TallyNames() [Counters]string {
	return [Counters]string{
		"granted", "consumed_reported", "spent", "unleased", "outstanding", "held", "uncertain",
		"expired", "revoked", "returned", "emergency", "extended",
	}
}

// Values are the counters in the order of TallyNames.
func (t Tally) Values() [Counters]Units {
	return [Counters]Units{
		t.Granted, t.Leased, t.Spent, t.Unleased, t.Outstanding, t.Held, t.Uncertain,
		t.Expired, t.Revoked, t.Returned, t.Emergency, t.Extended,
	}
}

type fault struct {
	counter          string
	recorded, wanted Units
}

// faults are the contradictions inside one grant.
func (g *Grant) faults() []fault {
	var found []fault
	check := func(ok bool, counter string, recorded, wanted Units) {
		if !ok {
			found = append(found, fault{counter, recorded, wanted})
		}
	}
	check(g.Amount >= 0, "amount", g.Amount, 0)
	check(g.Taken >= 0, "taken", g.Taken, 0)
	check(g.Refunded >= 0 && g.Refunded <= g.Taken, "refunded", g.Refunded, g.Taken)
	check(g.Back >= 0 && g.Back <= g.Amount, "returned", g.Back, g.Amount)
	if len(found) > 0 {
		return found // the rest would only repeat it
	}
	rest := g.rest()
	check(g.Uncertain >= 0 && g.Uncertain <= rest, "uncertain", g.Uncertain, rest)
	switch g.State {
	case Final:
		check(rest == 0 || g.Kind == KindSlots, "unaccounted for after the final report", rest, 0)
	case Denied, Withdrawn:
		check(g.Amount == 0, "amount", g.Amount, 0)
	}
	if g.Kind == KindSlots {
		return append(found, g.slotFaults()...)
	}
	check(g.Seq == 0, "seq", Units(g.Seq), 0)
	check(g.InUse == 0, "in use", g.InUse, 0)
	if g.Kind == KindSpend && g.State == Final {
		check(g.Taken == g.Amount, "taken", g.Taken, g.Amount)
	}
	return found
}
