package controlplane

import (
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

// keyCap is L as an agent is told it: with the policy's lease max applied (0: none), never
// above the limit, and 0 where every take goes to the exact lane.
func keyCap(t ledger.Terms, agents int, leaseMax quota.Units) quota.Units {
	if t.Class == quota.Exact {
		return 0
	}
	most := quota.MaxUnits
	if l := LeaseCap(t.Budget, agents); !l.Unlimited {
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

// SizeLease returns the sizer of a dimension whose leases are at most leaseMax (0: as demand
// needs). A lease is the least of what is wanted, of L less what the agent holds already, of
// leaseMax, and of the headroom's share. An answer below the need is a refusal; the ledger
// names the reason.
func SizeLease(leaseMax quota.Units) ledger.Sizer {
	return func(r ledger.Room) quota.Units {
		amount := min(r.Want, r.Headroom, r.Exposure)
		if l := LeaseCap(r.Budget, r.Agents); !l.Unlimited {
			amount = min(amount, l.Units-r.Holds)
		}
		if leaseMax > 0 {
			amount = min(amount, leaseMax)
		}
		return max(0, min(amount, share(r)))
	}
}

// share keeps one agent from taking the end of a quota: once the headroom is what limits a
// grant, leases shrink to one N-th of it, but not below what the asker needs. While only the
// budget limits, N times L fits into it and there is nothing to share out.
func share(r ledger.Room) quota.Units {
	if r.Headroom >= r.Exposure {
		return quota.MaxUnits
	}
	return max(r.Need, r.Headroom/quota.Units(max(r.Agents, 1)))
}
