package door

import (
	"context"
	"time"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/ledger/quota"
)

// Longest times of an acquire, in ms.
const (
	MaxHoldMs = int64(30 * 24 * time.Hour / time.Millisecond) // what a policy may say is no more
	MaxWaitMs = int64(agent.MaxWait / time.Millisecond)
)

// Acquisition asks to start work.
type Acquisition struct {
	Request
	HoldMs, WaitMs int64
}

// Acquire asks the agent for a permit.
func Acquire(ctx context.Context, a Agent, r *Acquisition) (agent.Permit, error) {
	if err := r.Validate(); err != nil {
		return agent.Permit{}, err
	}
	if r.Peek() { // it would hold nothing
		return agent.Permit{}, &quota.FieldError{Field: "cost", Allowed: Whole(1, agent.MaxCost)}
	}
	if r.HoldMs < 0 || r.HoldMs > MaxHoldMs {
		return agent.Permit{}, &quota.FieldError{Field: "hold_ms", Allowed: Whole(0, MaxHoldMs)}
	}
	if r.WaitMs < 0 || r.WaitMs > MaxWaitMs {
		return agent.Permit{}, &quota.FieldError{Field: "wait_ms", Allowed: Whole(0, MaxWaitMs)}
	}
	what := agent.Acquire{Tenant: r.Tenant, Takes: r.Takes, Operation: r.Operation,
		Hold: time.Duration(r.HoldMs) * time.Millisecond, Wait: time.Duration(r.WaitMs) * time.Millisecond}
	if r.ID != nil {
		what.ID = *r.ID
	}
	switch {
	case r.Operation != "":
		what.Times = orOne(r.Times)
	case len(r.Takes) == 0:
		what.Takes = []core.DimensionCost{{Dimension: r.Dimension, Cost: orOne(r.Cost)}}
	}
	return a.Acquire(withCaller(ctx, r.Caller), what)
}

// Renew tells the agent that a permit's work goes on, and returns for how long it may.
func Renew(a Agent, tenant, id string) (time.Duration, error) {
	if err := validatePermit(tenant, id); err != nil {
		return 0, err
	}
	return a.Renew(tenant, id)
}

// Release tells the agent that a permit's work has ended.
func Release(a Agent, tenant, id string) error {
	if err := validatePermit(tenant, id); err != nil {
		return err
	}
	return a.Release(tenant, id)
}

func validatePermit(tenant, id string) error {
	if err := quota.ValidateTenant(tenant); err != nil {
		return err
	}
	return validateID(&id)
}
