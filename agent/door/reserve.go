package door

import (
	"context"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/local"
	"github.com/quotalease/quotalease/ledger/quota"
)

// Reservation asks for an estimate of a cost that is not known yet.
type Reservation struct {
	ID        *string // of a request that may be repeated
	Tenant    string
	Dimension string
	Estimate  int64
	Maximum   bool // no more will be used
	Caller    local.Caller
}

// Reserve asks the agent for a reservation.
func Reserve(ctx context.Context, a Agent, r *Reservation) (agent.Reservation, error) {
	key := quota.Key{Tenant: r.Tenant, Dimension: r.Dimension}
	if err := key.Validate(); err != nil {
		return agent.Reservation{}, err
	}
	if r.Estimate < 1 || r.Estimate > agent.MaxCost {
		return agent.Reservation{}, &quota.FieldError{Field: "estimate", Allowed: Whole(1, agent.MaxCost)}
	}
	if err := validateID(r.ID); err != nil {
		return agent.Reservation{}, err
	}
	if err := r.Caller.Validate(); err != nil {
		return agent.Reservation{}, err
	}
	ctx = withCaller(ctx, r.Caller)
	if r.ID != nil {
		return a.ReserveOnce(ctx, *r.ID, r.Tenant, r.Dimension, r.Estimate, r.Maximum)
	}
	return a.Reserve(ctx, r.Tenant, r.Dimension, r.Estimate, r.Maximum)
}

// Settle tells the agent what a reservation used. Nothing is assumed of an actual that was left
// out: 0 would give everything back.
func Settle(a Agent, id string, actual *int64) error {
	if err := validateID(&id); err != nil {
		return err
	}
	if actual == nil || *actual < 0 || *actual > agent.MaxCost {
		return &quota.FieldError{Field: "actual", Allowed: Whole(0, agent.MaxCost)}
	}
	return a.Settle(id, *actual)
}

// SettleOwn is Settle for a caller who is known to be a tenant. Another's reservation is one that
// does not exist.
func SettleOwn(a Agent, tenant, id string, actual *int64) error {
	if a.ReservedBy(id) != tenant {
		return &agent.UnknownIDError{FieldError: quota.FieldError{Field: "id", Allowed: "that of a reservation of the caller's"}}
	}
	return Settle(a, id, actual)
}
