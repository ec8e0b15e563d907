package agent

import (
	"context"

	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/agent/local"
	"github.com/quotalease/quotalease/ledger/quota"
)

// Take charges cost to the key, or charges nothing. A cost of 0 is a peek. Units in hand are
// spent without a lock or a message; a key without units waits as its policy says, and never
// beyond ctx's deadline. The error is *quota.FieldError for a request that makes no sense,
// *UnavailableError for an outage, ErrStopped, or ctx's.
func (a *Agent) Take(ctx context.Context, tenant, dimension string, cost int64) (d Decision, err error) {
	if p := a.local.Plan(); p != nil && !p.Limits(dimension) && cost >= 0 && cost <= MaxCost {
		if k := a.table.Find(quota.Key{Tenant: tenant, Dimension: dimension}); k != nil && a.spend(k, cost, &d) {
			return d, nil
		}
	}
	return a.takeGuarded(ctx, tenant, dimension, cost)
}

// spend takes from units in hand, and writes the answer where the caller will have it: to copy it
// costs as much as the take.
func (a *Agent) spend(k *core.Key, cost int64, d *Decision) bool {
	now := a.now()
	s, ok := k.Spend(now, cost)
	if !ok {
		return false
	}
	if s.Low {
		a.low(k)
	}
	d.Allowed, d.Dimension = true, k.Dimension()
	d.know(s.Answer(now))
	return true
}

// takeGuarded is Take of what is not simply in hand.
func (a *Agent) takeGuarded(ctx context.Context, tenant, dimension string, cost int64) (Decision, error) {
	if err := ValidateCost(cost); err != nil {
		return Decision{}, err
	}
	p, err := a.localPlan(ctx, tenant, dimension)
	if err != nil {
		return Decision{}, err
	}
	var room [localRoom]local.Charge
	if charges := p.Dimension(room[:0], quota.Key{Tenant: tenant, Dimension: dimension}, cost, 1); cost > 0 && len(charges) > 0 {
		return a.guard(ctx, p, charges, func() (Decision, error) { return a.takeLeased(ctx, tenant, dimension, cost) })
	}
	return a.takeLeased(ctx, tenant, dimension, cost)
}

// takeLeased takes from what is leased, or as policy says without a lease.
func (a *Agent) takeLeased(ctx context.Context, tenant, dimension string, cost int64) (Decision, error) {
	id := quota.Key{Tenant: tenant, Dimension: dimension}
	if k := a.table.Find(id); k != nil {
		if d, ok := a.answered(k, dimension, cost); ok {
			return d, nil
		}
	}
	d, _, err := a.await(ctx, id, cost)
	return d, err
}

// answered is a take that needs nobody but the key: it is in hand, or a denial is remembered.
func (a *Agent) answered(k *core.Key, dimension string, cost int64) (Decision, bool) {
	t := k.Take(a.now(), cost)
	if !t.Allowed && !t.Denied {
		return Decision{}, false
	}
	a.noteFast(k, &t, cost)
	return decision(dimension, &t), true
}

// noteFast deals with what a take that was answered without the core leaves to do.
func (a *Agent) noteFast(k *core.Key, t *core.Taken, cost int64) {
	if t.Low {
		a.low(k)
	}
	if t.Denied && cost > 0 { // a peek asked, and was told
		a.seen.denied(k.Dimension(), t.Reason, t.RetryIn)
	}
}

// low hands a key that passed its watermark to the core.
func (a *Agent) low(k *core.Key) {
	a.mu.Lock()
	a.core.Low(a.now(), k)
	a.mu.Unlock()
	kick(a.syncKick)
	kick(a.tickKick)
}
