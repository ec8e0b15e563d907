package agent

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/agent/local"
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
	p, err := a.localPlan(ctx, tenant, takes[0].Dimension)
	if err != nil {
		return Decision{}, err
	}
	leased := func() (Decision, error) {
		if d, ok := a.takeFast(tenant, takes, 1); ok {
			return d, nil
		}
		return a.awaitAll(ctx, &core.Group{Tenant: tenant, Takes: takes})
	}
	var room [localRoom]local.Charge
	if charges := chargesOf(p, room[:0], tenant, "", takes, 1); len(charges) > 0 {
		return a.guard(ctx, p, charges, leased)
	}
	return leased()
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
	p, err := a.localPlan(ctx, tenant, operation)
	if err != nil {
		return Decision{}, err
	}
	if op == nil { // it may be known by now
		op = a.core.Operation(operation)
	}
	var takes []core.DimensionCost
	if op != nil {
		takes = op.Takes
	}
	leased := func() (Decision, error) {
		if d, ok := a.takeFast(tenant, takes, times); ok {
			return d, nil
		}
		return a.awaitAll(ctx, &core.Group{Tenant: tenant, Operation: operation, Times: times})
	}
	var room [localRoom]local.Charge
	charges := chargesOf(p, room[:0], tenant, operation, takes, times)
	if local.NeedsSlots(charges) {
		return Decision{}, needsSlots("operation")
	}
	if len(charges) > 0 {
		return a.guard(ctx, p, charges, leased)
	}
	return leased()
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
	o, err := a.askAll(ctx, g)
	if err != nil {
		return Decision{}, err
	}
	if o.Key.Dimension == "" { // nothing was decided on any key
		o.Key = quota.Key{Tenant: g.Tenant, Dimension: g.Operation}
	}
	return a.outcome(o.Key, 1, o)
}

// askAll waits for what the core answers.
func (a *Agent) askAll(ctx context.Context, g *core.Group) (core.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return core.Outcome{}, err
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
	if err == nil && g.Exact() && o.Key.Dimension != "" {
		a.seen.served(o.Key.Dimension, a.now()-began)
	}
	return o, err
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
	_, d, ok := a.takePieces(pieces)
	return d, ok
}

// takePieces takes from every key's leases, or from none. The pieces are sorted.
func (a *Agent) takePieces(pieces []core.Piece) (quota.Key, Decision, bool) {
	slices.SortFunc(pieces, func(x, y core.Piece) int {
		return cmp.Or(cmp.Compare(x.Key.Dimension(), y.Key.Dimension()), cmp.Compare(x.Key.ID().Tenant, y.Key.ID().Tenant))
	})
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
		return quota.Key{}, Decision{}, false
	}
	id := pieces[at].Key.ID()
	if t.Denied {
		a.seen.denied(id.Dimension, t.Reason, t.RetryIn)
		return id, decision(id.Dimension, &t), true
	}
	for i := range pieces {
		if pieces[i].Taken.Low {
			a.low(pieces[i].Key)
		}
	}
	return id, decision(id.Dimension, &t), true
}
