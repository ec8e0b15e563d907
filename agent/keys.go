package agent

import (
	"context"
	"slices"
	"strconv"

	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/agent/local"
	"github.com/quotalease/quotalease/ledger/quota"
)

// MaxKeyTakes is how many keys one TakeKeys may name.
const MaxKeyTakes = 64

// Descriptors returns what policy says of the requests of a rate limit service, or nil while
// no policy is known.
func (a *Agent) Descriptors() *core.Descriptors { return a.core.Descriptors() }

// TakeKeys is TakeAll for keys that may be of several tenants. It returns the key that decided
// with what was decided.
func (a *Agent) TakeKeys(ctx context.Context, takes []core.KeyCost) (quota.Key, Decision, error) {
	if len(takes) < 1 || len(takes) > MaxKeyTakes {
		return quota.Key{}, Decision{}, &quota.FieldError{Field: "takes", Allowed: "1 to " + strconv.Itoa(MaxKeyTakes)}
	}
	for _, t := range takes {
		if err := t.Key.Validate(); err != nil {
			return quota.Key{}, Decision{}, err
		}
		if err := ValidateCost(t.Cost); err != nil || t.Cost == 0 {
			return quota.Key{}, Decision{}, &quota.FieldError{Field: "cost", Allowed: "a whole number from 1 to " + strconv.Itoa(MaxCost)}
		}
	}
	first := takes[0].Key
	p, err := a.localPlan(ctx, first.Tenant, first.Dimension)
	if err != nil {
		return first, Decision{}, err
	}
	decided := first
	leased := func() (d Decision, err error) {
		decided, d, err = a.takeKeys(ctx, takes)
		return d, err
	}
	var charges []local.Charge
	for _, t := range takes {
		charges = p.Dimension(charges, t.Key, t.Cost, 1)
	}
	if len(charges) == 0 {
		d, err := leased()
		return decided, d, err
	}
	d, err := a.guard(ctx, p, charges, leased)
	if err == nil && !d.Allowed && d.Dimension != decided.Dimension { // a local limit's
		decided.Dimension = d.Dimension
	}
	return decided, d, err
}

func (a *Agent) takeKeys(ctx context.Context, takes []core.KeyCost) (quota.Key, Decision, error) {
	if pieces, ok := a.held(takes); ok {
		if key, d, ok := a.takePieces(pieces); ok {
			return key, d, nil
		}
	}
	o, err := a.askAll(ctx, &core.Group{Keys: takes})
	if err != nil {
		return takes[0].Key, Decision{}, err
	}
	if o.Key.Dimension == "" { // nothing was decided on any key
		o.Key = takes[0].Key
	}
	d, err := a.outcome(o.Key, 1, o)
	return o.Key, d, err
}

// held finds the keys of takes, each once, if all are known here.
func (a *Agent) held(takes []core.KeyCost) ([]core.Piece, bool) {
	pieces := make([]core.Piece, 0, len(takes))
	for _, t := range takes {
		k := a.table.Find(t.Key)
		if k == nil || slices.ContainsFunc(pieces, func(p core.Piece) bool { return p.Key == k }) {
			return nil, false
		}
		pieces = append(pieces, core.Piece{Key: k, Cost: t.Cost})
	}
	return pieces, true
}

// TakeShadow is Take for a limit that is only watched: what is allowed is charged, and what is
// denied is counted apart. The Decision is what would be said if it were not watched only.
func (a *Agent) TakeShadow(ctx context.Context, tenant, dimension string, cost int64) (Decision, error) {
	if err := ValidateCost(cost); err != nil {
		return Decision{}, err
	}
	id := quota.Key{Tenant: tenant, Dimension: dimension}
	var o core.Outcome
	if k := a.table.Find(id); k != nil {
		if o.Taken = k.Take(a.now(), cost); o.Low {
			a.low(k)
		}
	}
	if !o.Allowed && !o.Denied {
		var err error
		if o, err = a.ask(ctx, id, cost); err != nil {
			return Decision{}, err
		}
	}
	switch {
	case o.Bad != nil:
		return Decision{}, o.Bad
	case o.Unavailable:
		o.Reason = quota.Unavailable
	case o.Allowed && (o.Reason == quota.OpenMode || o.Reason == quota.Extended):
		a.wentOn(id, o.Reason)
	}
	if !o.Allowed && cost > 0 {
		a.seen.wouldDeny(a.label(dimension), o.Reason)
	}
	d := decision(dimension, &o.Taken)
	d.Shadow = true
	return d, nil
}

// Known is what this agent knows of a key without asking anyone, and charges nothing. It is
// false if that is nothing.
func (a *Agent) Known(id quota.Key) (Decision, bool) {
	k := a.table.Find(id)
	if k == nil {
		return Decision{}, false
	}
	t := k.Known(a.now())
	return decision(id.Dimension, &t), true
}
