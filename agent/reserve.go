package agent

import (
	"context"
	"strconv"

	"github.com/gofrs/uuid/v5"

	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/agent/local"
	"github.com/quotalease/quotalease/ledger/quota"
)

// Reservation is what Reserve answers. A denial is a value, as with Take.
type Reservation struct {
	ID string // for Settle; empty when denied
	Decision
}

// Reserve takes an estimate of a cost that is not known yet: it counts as taken until Settle
// says what was really used, or for good if nobody does so within core.ReservedFor. maximum
// says that the cost cannot be more than that; hard and exact dimensions accept nothing else.
func (a *Agent) Reserve(ctx context.Context, tenant, dimension string, estimate int64, maximum bool) (Reservation, error) {
	if err := ValidateCost(estimate); err != nil || estimate == 0 {
		return Reservation{}, &quota.FieldError{Field: "estimate", Allowed: "a whole number from 1 to " + strconv.Itoa(MaxCost)}
	}
	id := quota.Key{Tenant: tenant, Dimension: dimension}
	if k := a.table.Find(id); k != nil && !maximum && !k.MayExceed() {
		return Reservation{}, errNoMaximum
	}
	p, err := a.localPlan(ctx, tenant, dimension)
	if err != nil {
		return Reservation{}, err
	}
	var room [localRoom]local.Charge
	charges := p.Dimension(room[:0], id, estimate, 1)
	if len(charges) == 0 {
		return a.reserveLeased(ctx, id, estimate, maximum)
	}
	var made Reservation
	d, err := a.guard(ctx, p, charges, func() (Decision, error) {
		var err error
		made, err = a.reserveLeased(ctx, id, estimate, maximum)
		return made.Decision, err
	})
	return Reservation{ID: made.ID, Decision: d}, err
}

// reserveLeased reserves from what is leased, or as policy says without a lease.
func (a *Agent) reserveLeased(ctx context.Context, id quota.Key, estimate int64, maximum bool) (Reservation, error) {
	d, o, err := a.take(ctx, id, estimate)
	if err != nil || !d.Allowed {
		return Reservation{Decision: d}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	made, ok := a.core.Reserve(now, id, estimate, maximum, o)
	if !ok {
		return Reservation{}, &UnavailableError{Key: id}
	}
	if dim, ok := a.core.Dimension(id.Dimension); ok && !maximum && !dim.MayExceed() {
		_ = a.core.Settle(now, made, 0) // its class was not known before; Settle refuses no 0
		kick(a.syncKick)
		kick(a.spendKick)
		return Reservation{}, errNoMaximum
	}
	return Reservation{ID: made.String(), Decision: d}, nil
}

var errNoMaximum = &quota.FieldError{Field: "maximum", Allowed: "true, where the class is hard or exact"}

// Settle says what was really used of a reservation, once: a repeat with the same actual
// changes nothing. Less than the estimate goes back to where it came from, in the
// reservation's window. More is use without a lease, which only bounded and best_effort
// dimensions know.
func (a *Agent) Settle(id string, actual int64) error {
	made := uuid.FromStringOrNil(id) // what is no UUID was no reservation, nor is Nil
	a.mu.Lock()
	err := a.core.Settle(a.now(), made, actual)
	a.mu.Unlock()
	kick(a.syncKick)
	kick(a.spendKick)
	kick(a.tickKick)
	return err
}

// ReservedBy is the tenant of a reservation that can be settled; empty if there is none.
func (a *Agent) ReservedBy(id string) string {
	made, err := uuid.FromString(id)
	if err != nil {
		return ""
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.core.ReservedBy(a.now(), made)
}

// take is Take with the outcome from which a reservation is made.
func (a *Agent) take(ctx context.Context, id quota.Key, cost int64) (Decision, core.Outcome, error) {
	if k := a.table.Find(id); k != nil {
		if t := k.Take(a.now(), cost); t.Allowed || t.Denied {
			a.noteFast(k, &t, cost)
			return decision(id.Dimension, &t), core.Outcome{Taken: t}, nil
		}
	}
	return a.await(ctx, id, cost)
}
