package policy

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// readOvershoot reads the overshoot of the dimension or of one of its plans, nil if there is
// none. An amount may not be above the limit beside it.
func (d *draft) readOvershoot(o object, limit quota.Limit, limitOK bool) (*Overshoot, bool) {
	f, ok := o.get("overshoot")
	if !ok {
		return nil, true
	}
	if d.exact() {
		f.refuse("class exact has no overshoot", notExact)
		return nil, false
	}
	s, ok := f.overshoot()
	if !ok {
		return nil, false
	}
	if s.Absolute && limitOK && !limit.Unlimited && s.Units > limit.Units {
		f.refuse(fmt.Sprintf("%d is above the limit of %d", s.Units, limit.Units),
			fmt.Sprintf("0 to %d, or a percentage", limit.Units))
		return nil, false
	}
	return &s, true
}

// checkBudget looks at a limit together with the budget that holds under it.
func (d *draft) checkBudget(a amounts, o Overshoot) {
	if !d.budgetOK || !d.classOK || d.Class == quota.Exact {
		return
	}
	limit, budget := a.limit, o.Of(a.limit)
	if limit.Unlimited || !a.at.checkSum(limit.Units, budget.Units) {
		return
	}
	head := fmt.Sprintf("the overshoot budget of %d (%s) is %s", limit.Units, o, unitsOf(budget.Units))
	switch {
	case limit.Units == 0: // denies everything anyway
	case budget.Units == 0:
		a.at.warn(head + ": every take goes to the exact lane")
	case d.sustaining(a) > budget.Units:
		a.at.warn(fmt.Sprintf("%s, less than two round trips (2 x %s) of a steady use of the limit take: leases run dry and callers wait; a budget of %d would do",
			head, short(RoundTrip), d.sustaining(a)))
	case budget.Units < fewUnits:
		a.at.warn(head + ": with more agents than that, every take goes to the exact lane")
	}
}

func unitsOf(n quota.Units) string {
	if n == 1 {
		return "1 unit"
	}
	return fmt.Sprintf("%d units", n)
}

// RoundTrip is the time from an ask to its answer that warnings assume: two regions a
// continent apart, and a commit.
const RoundTrip = 50 * time.Millisecond

// sustaining is the budget that two round trips of a steady use of the whole limit take. All
// agents' leases together are that budget, so it does not matter how many share it. Slots are
// not used up.
func (d *draft) sustaining(a amounts) quota.Units {
	peak := a.rate
	switch {
	case d.Kind == quota.Concurrency || !d.periodOK:
		return 0
	case d.Kind == quota.Period:
		peak = quota.Rate{Units: a.limit.Units, Per: d.Period.Shortest()}
	}
	// At most 2 x 50 ms of what the shortest period holds: the quotient fits.
	hi, lo := bits.Mul64(uint64(peak.Units), uint64(2*RoundTrip))
	lo, carry := bits.Add64(lo, uint64(peak.Per)-1, 0) // rounded up
	hi += carry
	if hi >= uint64(peak.Per) {
		return quota.MaxUnits
	}
	needed, _ := bits.Div64(hi, lo, uint64(peak.Per))
	return quota.Units(min(needed, uint64(quota.MaxUnits)))
}

// checkSum refuses a limit whose bound, limit plus overshoot, is no amount.
func (v value) checkSum(limit, budget quota.Units) bool {
	_, err := limit.Add(budget)
	if err != nil {
		v.refuse(fmt.Sprintf("%d and its overshoot of %d together leave the int64 range", limit, budget),
			"a limit that with its overshoot is at most "+maxInt64Text)
	}
	return err == nil
}

// fewUnits is a budget that a handful of agents use up with leases of one unit.
const fewUnits quota.Units = 10
