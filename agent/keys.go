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

// MaxKeyTakes is how many keys one TakeKeys may name.
const MaxKeyTakes = 64

// Descriptors returns what policy says of the requests of a rate limit service, or nil while
// no policy is known.
func (a *Agent) Descriptors() *core.Descriptors { return a.core.Descriptors() }

// KeyTake is what a request takes of one key or, by itself, of a local limit.
type KeyTake struct {
	core.KeyCost
	Local  bool         // the key's dimension is the name of a local limit
	Caller local.Caller // whom that counts, where it counts by more than the tenant
}

// TakeKeys is TakeAll for keys that may be of several tenants, and for local limits. It returns
// which of the takes decided with what was decided.
func (a *Agent) TakeKeys(ctx context.Context, takes []KeyTake) (at int, d Decision, err error) {
	if err := validateKeyTakes(takes); err != nil {
		return 0, Decision{}, err
	}
	p, err := a.localPlan(ctx, takes[0].Key.Tenant, takes[0].Key.Dimension)
	if err != nil {
		return 0, Decision{}, err
	}
	p = a.planFor(p, takes)
	var charges []local.Charge
	var keys []core.KeyCost
	for i := range takes {
		if charges, err = takes[i].charge(p, charges); err != nil {
			return i, Decision{}, err
		}
		if !takes[i].Local {
			keys = append(keys, takes[i].KeyCost)
		}
	}
	leased := func() (Decision, error) {
		key, d, err := a.takeKeys(ctx, keys)
		at = max(0, slices.IndexFunc(takes, func(t KeyTake) bool { return !t.Local && t.Key == key }))
		return d, err
	}
	switch {
	case len(charges) == 0:
		d, err = leased()
		return at, d, err
	case len(keys) == 0:
		leased = nil
	}
	d, decided, err := a.guarded(ctx, p, charges, leased)
	if decided >= 0 && err == nil {
		at = max(0, slices.IndexFunc(takes, func(t KeyTake) bool {
			own, _ := t.charge(p, nil) // was well a moment ago
			return slices.ContainsFunc(own, func(c local.Charge) bool { return c.Same(&charges[decided]) })
		}))
	}
	return at, d, err
}

func validateKeyTakes(takes []KeyTake) error {
	if len(takes) < 1 || len(takes) > MaxKeyTakes {
		return &quota.FieldError{Field: "takes", Allowed: "1 to " + strconv.Itoa(MaxKeyTakes)}
	}
	for i := range takes {
		t := &takes[i]
		if err := t.Key.Validate(); err != nil {
			return err
		}
		if err := ValidateCost(t.Cost); err != nil || t.Cost == 0 {
			return &quota.FieldError{Field: "cost", Allowed: "a whole number from 1 to " + strconv.Itoa(MaxCost)}
		}
		if err := t.Caller.Validate(); err != nil {
			return err
		}
	}
	return nil
}

// planFor returns p or, if that lacks a local limit that a take names, the one in force when the core
// is at rest: whoever read a rule of a policy that is just being adopted is ahead of its limits.
func (a *Agent) planFor(p *local.Plan, takes []KeyTake) *local.Plan {
	ahead := func(t KeyTake) bool { return t.Local && (p == nil || !p.Has(t.Key.Dimension)) }
	if !slices.ContainsFunc(takes, ahead) {
		return p
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return cmp.Or(a.local.Plan(), p)
}

// charge adds the local limits that a take is under.
func (t *KeyTake) charge(p *local.Plan, charges []local.Charge) ([]local.Charge, error) {
	if !t.Local {
		return p.Dimension(charges, t.Key, t.Cost, 1), nil
	}
	var caller *local.Caller
	if t.Caller != (local.Caller{}) {
		caller = &t.Caller
	}
	charges, ok := p.Limit(charges, t.Key.Tenant, t.Key.Dimension, caller, t.Cost)
	if !ok {
		return charges, errNoLocal
	}
	return charges, nil
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
func (a *Agent) TakeShadow(ctx context.Context, take KeyTake) (Decision, error) {
	if err := ValidateCost(take.Cost); err != nil {
		return Decision{}, err
	}
	var d Decision
	var err error
	if take.Local {
		d, err = a.watchLocal(ctx, &take)
	} else {
		d, err = a.watchLeased(ctx, take.Key, take.Cost)
	}
	if err != nil {
		return Decision{}, err
	}
	if !d.Allowed && take.Cost > 0 {
		name := take.Key.Dimension
		if !take.Local {
			name = a.label(name)
		}
		a.seen.wouldDeny(name, d.Reason)
	}
	d.Shadow = true
	return d, nil
}

func (a *Agent) watchLeased(ctx context.Context, id quota.Key, cost int64) (Decision, error) {
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
	return decision(id.Dimension, &o.Taken), nil
}

// watchLocal waits for no turn: who is only watched passes at once.
func (a *Agent) watchLocal(ctx context.Context, take *KeyTake) (Decision, error) {
	if take.Cost == 0 {
		return a.lookLocal(take)
	}
	p, charges, err := a.chargesOfLocal(take)
	if err != nil {
		return Decision{}, err
	}
	v, err := a.enter(ctx, charges, 0)
	if err != nil {
		return Decision{}, err
	}
	return localDecision(p, &v), nil
}

// Known is what this agent knows of a key or a local limit without asking anyone, and charges
// nothing. It is false if that is nothing.
func (a *Agent) Known(take KeyTake) (Decision, bool) {
	if take.Local {
		d, err := a.lookLocal(&take)
		return d, err == nil
	}
	k := a.table.Find(take.Key)
	if k == nil {
		return Decision{}, false
	}
	t := k.Known(a.now())
	return decision(take.Key.Dimension, &t), true
}

// lookLocal says what a local limit has left, and denies if that is nothing.
func (a *Agent) lookLocal(take *KeyTake) (Decision, error) {
	p, charges, err := a.chargesOfLocal(take)
	if err != nil {
		return Decision{}, err
	}
	v, err := a.local.Look(a.now(), &charges[0])
	if err != nil {
		return Decision{}, err
	}
	return localDecision(p, &v), nil
}

// chargesOfLocal is what a take of a local limit is charged by the limits in force.
func (a *Agent) chargesOfLocal(take *KeyTake) (*local.Plan, []local.Charge, error) {
	p := a.planFor(a.local.Plan(), []KeyTake{*take})
	if p == nil {
		return nil, nil, errNoLocal
	}
	if err := cmp.Or(take.Key.Validate(), take.Caller.Validate()); err != nil {
		return nil, nil, err
	}
	charges, err := take.charge(p, nil)
	if err == nil && local.NeedsSlots(charges) {
		err = needsSlots("local")
	}
	return p, charges, err
}
