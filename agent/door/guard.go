package door

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/agent/identity"
	"github.com/quotalease/quotalease/ledger/quota"
)

// Guard stands before handlers of a program that the agent is part of. There the program says
// whose a request is and what it takes, so that neither can be a caller's fault.
type Guard struct {
	Agent        Agent
	PassInOutage bool // else an outage refuses, unless policy says otherwise
	Logger       *slog.Logger
}

// Admit takes what r says of the tenant's quota, and reports whether the request may go on: if
// the decision is Allowed. What costs nothing goes on, whatever is left. looked is the error
// with which the program looked for the tenant; a caller is told no words of it but those of
// package identity. The error is *identity.RefusedError, an outage (see Outage), ctx's, or a fault
// of the program, which is logged and which its caller can do nothing about.
func (g *Guard) Admit(ctx context.Context, tenant string, looked error, r *Request) (agent.Decision, error) {
	nobody := &identity.RefusedError{}
	if errors.As(looked, &nobody) || looked != nil || quota.ValidateTenant(tenant) != nil {
		return agent.Decision{}, nobody
	}
	asked := *r
	asked.Tenant = tenant
	d, err := Take(ctx, g.Agent, &asked)
	_, outage := Outage(err)
	var field *quota.FieldError
	switch {
	case err == nil:
		d.Allowed = d.Allowed || asked.Peek()
		return d, nil
	case outage && (g.PassInOutage || asked.Peek()):
		return agent.Decision{Allowed: true, Dimension: asked.Key().Dimension, Reason: quota.Unavailable}, nil
	case errors.As(err, &field):
		if g.Logger != nil {
			g.Logger.Error("a request asks for what cannot be taken", "takes", asked.Key().Dimension, "cause", err)
		}
		return agent.Decision{}, fmt.Errorf("take %s: %s", asked.Key().Dimension, err) // not %w: no caller's bad input
	}
	return agent.Decision{}, err
}

// Waiter takes when it can. *agent.Agent is one.
type Waiter interface {
	Wait(ctx context.Context, tenant, dimension string, cost int64) error
	WaitAll(ctx context.Context, tenant string, takes []core.DimensionCost) error
	WaitOperation(ctx context.Context, tenant, operation string, times int64) error
}

// Wait takes what a request says when it can be had.
func Wait(ctx context.Context, w Waiter, r *Request) error {
	if err := r.Validate(); err != nil {
		return err
	}
	switch {
	case r.Operation != "":
		return w.WaitOperation(ctx, r.Tenant, r.Operation, orOne(r.Times))
	case len(r.Takes) > 0:
		return w.WaitAll(ctx, r.Tenant, r.Takes)
	}
	return w.Wait(ctx, r.Tenant, r.Dimension, orOne(r.Cost))
}
