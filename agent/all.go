package agent

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/ledger/quota"
)

// MaxTakes is how many takes one call may name.
const MaxTakes = 16

// TakeAll charges every dimension its cost, or none of them: a failure at any leaves the
// others as they were, and the Decision names the one that denied. Costs are 1 or more. Takes
// of one dimension are added up. Units in hand are spent without a lock or a message; errors
// are those of Take.
func (a *Agent) TakeAll(ctx context.Context, tenant string, takes []core.DimensionCost) (Decision, error) {
	if err := validateTakes(takes); err != nil {
		return Decision{}, err
	}
	if d, ok := a.takeFast(tenant, takes, 1); ok {
		return d, nil
	}
	return a.awaitAll(ctx, &core.Group{Tenant: tenant, Takes: takes})
}

// TakeOperation charges every dimension that the operation draws on, times over, or none.
// Where policy lets denied callers wait, a denial for want of units has a Ticket, for TakeInTurn.
func (a *Agent) TakeOperation(ctx context.Context, tenant, operation string, times int64) (Decision, error) {
	op, err := a.operation(operation, times)
	switch {
	case err != nil:
		return Decision{}, err
	case op != nil && op.Waits:
		return a.inTurn(ctx, op, &turn{tenant: tenant, operation: operation, times: times})
	}
	return a.takeOperation(ctx, op, tenant, operation, times)
}

// operation finds what an operation is, nil if it is not known, and checks how often it is asked
// for.
func (a *Agent) operation(operation string, times int64) (*core.Operation, error) {
	if operation == "" {
		return nil, &quota.FieldError{Field: "operation", Allowed: "one that policy defines"}
	}
	var takes []core.DimensionCost
	op := a.core.Operation(operation)
	if op != nil {
		takes = op.Takes
	}
	most := int64(MaxCost)
	for _, t := range takes {
		most = min(most, MaxCost/max(t.Cost, 1))
	}
	if times < 1 || times > most {
		return nil, &quota.FieldError{Field: "times", Allowed: "a whole number from 1 to " + strconv.FormatInt(most, 10)}
	}
	return op, nil
}

func (a *Agent) takeOperation(ctx context.Context, op *core.Operation, tenant, operation string, times int64) (Decision, error) {
	var takes []core.DimensionCost
	if op != nil {
		takes = op.Takes
	}
	if d, ok := a.takeFast(tenant, takes, times); ok {
		return d, nil
	}
	return a.awaitAll(ctx, &core.Group{Tenant: tenant, Operation: operation, Times: times})
}

func validateTakes(takes []core.DimensionCost) error {
	if len(takes) < 1 || len(takes) > MaxTakes {
		return &quota.FieldError{Field: "takes", Allowed: "1 to " + strconv.Itoa(MaxTakes)}
	}
	for _, t := range takes {
		if err := ValidateCost(t.Cost); err != nil || t.Cost == 0 {
			return &quota.FieldError{Field: "cost", Allowed: "a whole number from 1 to " + strconv.Itoa(MaxCost)}
		}
	}
	return nil
}

// awaitAll is the slow way: the caller waits for the core's answer.
func (a *Agent) awaitAll(ctx context.Context, g *core.Group) (Decision, error) {
	if err := (quota.Key{Tenant: g.Tenant, Dimension: "takes"}).Validate(); err != nil {
		return Decision{}, err
	}
	if err := ctx.Err(); err != nil {
		return Decision{}, err
	}
	done := make(chan core.Outcome, 1)
	g.Done = func(o core.Outcome) { done <- o }
	a.mu.Lock()
	began := a.now()
	a.core.WantAll(began, g)
	patience := spendPatience
	if !g.Exact() && a.core.PolicyVersion() != 0 {
		patience = g.Patience()
	}
	a.mu.Unlock()
	kick(a.syncKick)
	kick(a.spendKick)
	kick(a.tickKick)
	o, err := a.wait(ctx, several{g}, done, patience)
	if err != nil {
		return Decision{}, err
	}
	if g.Exact() && o.Key.Dimension != "" {
		a.seen.served(o.Key.Dimension, a.now()-began)
	}
	if o.Key.Dimension == "" { // nothing was decided on any key
		o.Key = quota.Key{Tenant: g.Tenant, Dimension: g.Operation}
	}
	return a.outcome(o.Key, 1, o)
}

type several struct{ *core.Group }

func (g several) giveUp(c *core.Core, now core.Instant) (core.Outcome, bool) {
	return c.GiveUpAll(now, g.Group)
}
func (g several) abandon(c *core.Core, now core.Instant) { c.AbandonAll(now, g.Group) }

// fastTakes is how many keys are taken without allocating.
const fastTakes = 4

// takeFast takes from leases in hand, all or none, or finds a remembered denial.
func (a *Agent) takeFast(tenant string, takes []core.DimensionCost, times int64) (Decision, bool) {
	if len(takes) == 0 || len(takes) > fastTakes {
		return Decision{}, false
	}
	var room [fastTakes]core.Piece
	pieces := room[:0]
	for _, t := range takes {
		k := a.table.Find(quota.Key{Tenant: tenant, Dimension: t.Dimension})
		if k == nil || slices.ContainsFunc(pieces, func(p core.Piece) bool { return p.Key == k }) {
			return Decision{}, false
		}
		pieces = append(pieces, core.Piece{Key: k, Cost: t.Cost * times})
	}
	slices.SortFunc(pieces, func(x, y core.Piece) int { return cmp.Compare(x.Key.ID.Dimension, y.Key.ID.Dimension) })
	now := a.now()
	t, at, quiet := core.TakePieces(now, pieces)
	if !quiet {
		a.mu.Lock()
		a.core.Settled(now, pieces)
		a.mu.Unlock()
		kick(a.syncKick)
		kick(a.tickKick)
	}
	if !t.Allowed && !t.Denied {
		return Decision{}, false
	}
	dimension := pieces[at].Key.ID.Dimension
	if t.Denied {
		a.seen.denied(dimension, t.Reason)
		return decision(dimension, &t), true
	}
	for i := range pieces {
		if pieces[i].Taken.Low {
			a.low(pieces[i].Key)
		}
	}
	return decision(dimension, &t), true
}
