package door

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/agent/local"
	"github.com/quotalease/quotalease/ledger/quota"
)

// Agent decides. *agent.Agent is one.
type Agent interface {
	Take(ctx context.Context, tenant, dimension string, cost int64) (agent.Decision, error)
	TakeHeld(tenant, dimension string, cost int64) (agent.Decision, bool)
	TakeOnce(ctx context.Context, id, tenant, dimension string, cost int64) (agent.Decision, error)
	TakeAll(ctx context.Context, tenant string, takes []core.DimensionCost) (agent.Decision, error)
	TakeAllOnce(ctx context.Context, id, tenant string, takes []core.DimensionCost) (agent.Decision, error)
	TakeOperation(ctx context.Context, tenant, operation string, times int64) (agent.Decision, error)
	TakeInTurn(ctx context.Context, ticket, tenant, operation string, times int64) (agent.Decision, error)
	LeaveTurn(ctx context.Context, ticket, tenant, operation string) error
	TakeOperationOnce(ctx context.Context, id, tenant, operation string, times int64) (agent.Decision, error)
	Reserve(ctx context.Context, tenant, dimension string, estimate int64, maximum bool) (agent.Reservation, error)
	ReserveOnce(ctx context.Context, id, tenant, dimension string, estimate int64, maximum bool) (agent.Reservation, error)
	Settle(id string, actual int64) error
	ReservedBy(id string) (tenant string)
	Acquire(ctx context.Context, r agent.Acquire) (agent.Permit, error)
	Renew(tenant, id string) (time.Duration, error)
	Release(tenant, id string) error
}

// Request says what to take: of a dimension, of several, or what an operation draws on.
type Request struct {
	ID        *string // of a request that may be repeated
	Tenant    string
	Dimension string
	Cost      *int64 // of Dimension; nil: 1
	Takes     []core.DimensionCost
	Operation string
	Times     *int64 // of Operation; nil: 1
	Caller    local.Caller
	Ticket    string // of Operation: of a caller who waits its turn; a repeat is known by it, and ID is not looked at
}

// Peek reports a request that asks and charges nothing.
func (r *Request) Peek() bool { return r.Cost != nil && *r.Cost == 0 }

// Key names the request in an answer that names no key itself.
func (r *Request) Key() quota.Key {
	k := quota.Key{Tenant: r.Tenant, Dimension: r.Dimension}
	switch {
	case r.Operation != "":
		k.Dimension = r.Operation
	case len(r.Takes) > 0:
		k.Dimension = r.Takes[0].Dimension
	}
	return k
}

// Validate refuses what no agent could answer.
func (r *Request) Validate() error {
	if err := quota.ValidateTenant(r.Tenant); err != nil {
		return err
	}
	if err := validateID(r.ID); err != nil {
		return err
	}
	if err := r.Caller.Validate(); err != nil {
		return err
	}
	if r.Ticket != "" && r.Operation == "" {
		return &quota.FieldError{Field: "ticket", Allowed: "only with operation"}
	}
	several := len(r.Takes) > 0
	switch {
	case several && r.Dimension != "", r.Operation != "" && r.Dimension != "":
		return &quota.FieldError{Field: "dimension", Allowed: "one of dimension, takes and operation"}
	case several && r.Operation != "":
		return &quota.FieldError{Field: "takes", Allowed: "one of dimension, takes and operation"}
	case r.Cost != nil && (several || r.Operation != ""):
		return &quota.FieldError{Field: "cost", Allowed: "only with dimension"}
	case r.Times != nil && r.Operation == "":
		return &quota.FieldError{Field: "times", Allowed: "only with operation"}
	case several:
		return validateTakes(r.Takes)
	case r.Operation != "":
		if quota.ValidateDimension(r.Operation) != nil {
			return &quota.FieldError{Field: "operation", Allowed: "one that policy defines"}
		}
		if times := orOne(r.Times); times < 1 || times > agent.MaxCost {
			return &quota.FieldError{Field: "times", Allowed: Whole(1, agent.MaxCost)}
		}
		return nil
	}
	if err := quota.ValidateDimension(r.Dimension); err != nil {
		return err
	}
	return agent.ValidateCost(orOne(r.Cost))
}

func validateTakes(takes []core.DimensionCost) error {
	if len(takes) > agent.MaxTakes {
		return &quota.FieldError{Field: "takes", Allowed: "a list of 1 to " + strconv.Itoa(agent.MaxTakes) + " {dimension, cost}"}
	}
	for i, t := range takes {
		var field *quota.FieldError
		if err := quota.ValidateDimension(t.Dimension); errors.As(err, &field) {
			return &quota.FieldError{Field: fmt.Sprintf("takes[%d].dimension", i), Allowed: field.Allowed}
		}
		if t.Cost < 1 || t.Cost > agent.MaxCost {
			return &quota.FieldError{Field: fmt.Sprintf("takes[%d].cost", i), Allowed: Whole(1, agent.MaxCost)}
		}
	}
	return nil
}

// maxIDBytes is the longest id of a request.
const maxIDBytes = 128

func validateID(id *string) error {
	if id != nil && (*id == "" || len(*id) > maxIDBytes) {
		return &quota.FieldError{Field: "id", Allowed: "1 to " + strconv.Itoa(maxIDBytes) + " bytes"}
	}
	return nil
}

// Whole says in words which numbers are allowed.
func Whole(least, most int64) string {
	return "a whole number from " + strconv.FormatInt(least, 10) + " to " + strconv.FormatInt(most, 10)
}

func orOne(n *int64) int64 {
	if n == nil {
		return 1
	}
	return *n
}

// Take asks the agent for what a request says.
func Take(ctx context.Context, a Agent, r *Request) (agent.Decision, error) {
	if err := r.Validate(); err != nil {
		return agent.Decision{}, err
	}
	ctx = withCaller(ctx, r.Caller)
	switch {
	case r.Ticket != "":
		return a.TakeInTurn(ctx, r.Ticket, r.Tenant, r.Operation, orOne(r.Times))
	case r.Operation != "" && r.ID != nil:
		return a.TakeOperationOnce(ctx, *r.ID, r.Tenant, r.Operation, orOne(r.Times))
	case r.Operation != "":
		return a.TakeOperation(ctx, r.Tenant, r.Operation, orOne(r.Times))
	case len(r.Takes) > 0 && r.ID != nil:
		return a.TakeAllOnce(ctx, *r.ID, r.Tenant, r.Takes)
	case len(r.Takes) > 0:
		return a.TakeAll(ctx, r.Tenant, r.Takes)
	case r.ID != nil:
		return a.TakeOnce(ctx, *r.ID, r.Tenant, r.Dimension, orOne(r.Cost))
	}
	return a.Take(ctx, r.Tenant, r.Dimension, orOne(r.Cost))
}

// withCaller tells the agent for whom a request is made, if it says so.
func withCaller(ctx context.Context, c local.Caller) context.Context {
	if c == (local.Caller{}) {
		return ctx
	}
	return local.WithCaller(ctx, c)
}

// outagePause is what callers are told to wait in an outage whose next attempt is not known.
const outagePause = time.Second

// Outage reports an error that says nothing of the quota and nothing of the request, and when
// to come back.
func Outage(err error) (retryIn time.Duration, ok bool) {
	var away *agent.UnavailableError
	switch {
	case errors.As(err, &away) && away.RetryIn > 0:
		return away.RetryIn, true
	case errors.As(err, &away), errors.Is(err, agent.ErrStopped):
		return outagePause, true
	}
	return 0, false
}
