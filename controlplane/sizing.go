package controlplane

import (
	"iter"
	"math/bits"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// LeaseCap is L = floor(B / N), the most unspent units that one agent may hold of one key.
// Without a budget there is no cap.
func LeaseCap(budget quota.Limit, agents int) quota.Limit {
	if budget.Unlimited {
		return quota.NoLimit
	}
	return quota.LimitOf(budget.Units / quota.Units(max(agents, 1)))
}

// leaseCap is L for an agent of a region. Where the policy gives regions floors and ceilings they
// divide the budget (see regionCap); else every agent has its N-th of it.
func leaseCap(budget quota.Limit, regions []policy.Region, region string, agents int, others iter.Seq2[ledger.Demand, int]) quota.Limit {
	if len(regions) == 0 || budget.Unlimited {
		return LeaseCap(budget, agents)
	}
	at := map[string]int{region: 0}
	shares := []regionShare{{agents: 1}}
	for o, n := range others {
		i, known := at[o.Region]
		if !known {
			i = len(shares)
			at[o.Region] = i
			shares = append(shares, regionShare{})
		}
		shares[i].agents += n
	}
	for i := range shares {
		shares[i].ceiling = budget.Units
	}
	for _, r := range regions {
		if i, active := at[r.Name]; active { // a floor is kept for agents that there are
			shares[i].floor, shares[i].ceiling = r.Floor.Of(budget.Units), r.Ceiling.Of(budget.Units)
		}
	}
	return quota.LimitOf(regionCap(budget.Units, shares, 0))
}

// keyCap is L as an agent is told it: with the policy's lease max applied (0: none), never
// above the limit, and 0 where every take goes to the exact lane.
func keyCap(t ledger.Terms, l quota.Limit, leaseMax quota.Units) quota.Units {
	if t.Class == quota.Exact {
		return 0
	}
	most := quota.MaxUnits
	if !l.Unlimited {
		most = l.Units
	}
	if !t.Limit.Unlimited {
		most = min(most, t.Limit.Units)
	}
	if leaseMax > 0 {
		most = min(most, leaseMax)
	}
	return most
}

// SizeLease returns the sizer of a dimension with these lease terms. A lease is the least of what
// is wanted, of L less what the agent holds already, of the policy's lease max, and of a fair
// share of the headroom. An answer below the need is a refusal; the ledger names the reason.
func SizeLease(lease policy.Lease) ledger.Sizer {
	return func(r ledger.Room) quota.Units {
		amount := min(r.Want, r.Headroom, r.Exposure)
		l := leaseCap(r.Budget, lease.Regions, r.Region, r.Agents, othersOf(r))
		if !l.Unlimited {
			amount = min(amount, l.Units-r.Holds)
		}
		if lease.Max > 0 {
			amount = min(amount, lease.Max)
		}
		return max(0, min(amount, share(r, l)))
	}
}

// share keeps one agent from taking the end of a quota: once the headroom is what limits grants,
// it is divided by what the agents last wanted and do not hold yet. But nobody gets less than they
// need, nor than their callers wait for at this moment: that is used at once, and strands nothing.
// Of an agent whose demand is not known the claim is an equal part: unknown is not zero.
// While all agents together cannot hold more than there is, there is nothing to divide, and nobody
// is given less than an equal part of what they want.
func share(r ledger.Room, l quota.Limit) quota.Units {
	equal := r.Headroom / quota.Units(max(r.Agents, 1))
	if r.Headroom >= r.Exposure || !l.Unlimited && equal >= l.Units || r.Want <= equal {
		return quota.MaxUnits
	}
	claims := []claim{{r.Want, 1}}
	var known []claim
	for o, agents := range othersOf(r) {
		wanted := o.Units
		if !l.Unlimited {
			wanted = min(wanted, l.Units)
		}
		if o.Units == 0 {
			claims = append(claims, claim{equal, agents})
		} else {
			known = append(known, claim{wanted, agents})
		}
	}
	return max(r.Need, r.Waiting, maxMin(r.Headroom, append(claims, unmet(r, known)...), r.Want))
}

func othersOf(r ledger.Room) iter.Seq2[ledger.Demand, int] {
	if r.Others == nil {
		return func(func(ledger.Demand, int) bool) {}
	}
	return r.Others
}

// unmet lowers what others want, all in proportion and rounded up, by what they hold: who has a
// lease has no claim to be kept for. What is out is the budget without what is left of it. It is
// computed in whole units, so that it does not depend on the order in which a store lists others.
func unmet(r ledger.Room, claims []claim) []claim {
	sum := addUpClaims(claims)
	if r.Budget.Unlimited || sum == 0 {
		return claims
	}
	held := max(0, r.Budget.Units-r.Exposure-r.Holds)
	open := uint64(max(0, sum-held))
	for i, c := range claims {
		hi, lo := bits.Mul64(uint64(c.units), open) // open <= sum, so the quotient is no more than the claim
		part, rest := bits.Div64(hi, lo, uint64(sum))
		if rest > 0 {
			part++
		}
		claims[i].units = quota.Units(part)
	}
	return claims
}
