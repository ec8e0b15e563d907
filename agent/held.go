package agent

import "github.com/quotalease/quotalease/ledger/quota"

// TakeHeld is Take for a caller who has more to ask and would wait later: it answers what can be
// answered from what this agent holds, an allowance or a denial that it knows of. If it reports
// false nothing was charged, and Take has the answer.
func (a *Agent) TakeHeld(tenant, dimension string, cost int64) (d Decision, ok bool) {
	p := a.local.Plan()
	if p == nil || p.Limits(dimension) || cost < 0 || cost > MaxCost {
		return Decision{}, false
	}
	k := a.table.Find(quota.Key{Tenant: tenant, Dimension: dimension})
	switch {
	case k == nil:
		return Decision{}, false
	case a.spend(k, cost, &d):
		return d, true
	}
	return a.answered(k, dimension, cost)
}
