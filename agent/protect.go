package agent

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/agent/local"
	"github.com/quotalease/quotalease/ledger/quota"
)

// A request that local limits are about is taken from them first, and from what is leased only
// if they let it pass. If that denies, what they gave goes back.

// localRoom is how many local limits a request may be under without allocating.
const localRoom = 4

// localPlan returns the local limits in force. Before the first policy, when nobody can say which
// there are, it waits for the answer to the first Sync, as whoever asks for units does.
func (a *Agent) localPlan(ctx context.Context, tenant, what string) (*local.Plan, error) {
	if p := a.local.Plan(); p != nil {
		return p, nil
	}
	if err := (quota.Key{Tenant: tenant, Dimension: what}).Validate(); err != nil {
		return nil, err
	}
	timer := time.NewTimer(spendPatience)
	defer timer.Stop()
	select {
	case <-a.met:
	case <-timer.C:
	case <-a.stopped:
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.Canceled) {
			return nil, ctx.Err()
		}
	}
	if p := a.local.Plan(); p != nil {
		return p, nil
	}
	_, err := a.outcome(quota.Key{Tenant: tenant, Dimension: what}, 1, core.Outcome{Unavailable: true})
	return nil, err
}

// chargesOf adds the local limits that several takes, done times over, are under.
func chargesOf(p *local.Plan, charges []local.Charge, tenant, operation string, takes []core.DimensionCost, times int64) []local.Charge {
	if operation != "" {
		charges = p.Operation(charges, tenant, operation, times)
	}
	for _, t := range takes {
		charges = p.Dimension(charges, quota.Key{Tenant: tenant, Dimension: t.Dimension}, t.Cost*min(times, math.MaxInt64/max(t.Cost, 1)), times)
	}
	return charges
}

// guard decides a request: by its local limits, and then as leased says. The answer waits for its
// turn where one of them shapes traffic.
func (a *Agent) guard(ctx context.Context, p *local.Plan, charges []local.Charge, leased func() (Decision, error)) (Decision, error) {
	d, _, err := a.guarded(ctx, p, charges, leased)
	return d, err
}

// guarded is guard that also says which of the charges decided, -1 if none did. Without leased the
// local limits decide alone.
func (a *Agent) guarded(ctx context.Context, p *local.Plan, charges []local.Charge, leased func() (Decision, error)) (_ Decision, decided int, _ error) {
	if local.NeedsSlots(charges) {
		return Decision{}, -1, needsSlots("dimension")
	}
	v, err := a.enter(ctx, charges, 0)
	if err != nil {
		return Decision{}, -1, err
	}
	if v.Denied != nil {
		return a.localDenial(p, &v), v.At, nil
	}
	if leased == nil {
		return localDecision(p, &v), v.At, a.turn(ctx, v.Delay)
	}
	kept := false
	defer a.giveBackUnless(&kept, charges)
	d, err := leased()
	if err != nil || !d.Allowed {
		return d, -1, err
	}
	kept = true
	return d, -1, a.turn(ctx, v.Delay)
}

func needsSlots(field string) error {
	return &quota.FieldError{Field: field, Allowed: "one without a concurrency limit: slots are acquired and released"}
}

// giveBackUnless gives back what local limits gave a request that did not pass, even if its
// goroutine is on its way out.
func (a *Agent) giveBackUnless(kept *bool, charges []local.Charge) {
	if !*kept {
		a.local.GiveBack(a.now(), charges)
	}
}

// enter takes from the local limits, all or none, and waits in line for their slots for at most
// patience.
func (a *Agent) enter(ctx context.Context, charges []local.Charge, patience time.Duration) (local.Verdict, error) {
	if err := local.ValidateTenants(charges); err != nil {
		return local.Verdict{}, err
	}
	caller := local.CallerOf(ctx)
	if err := caller.Validate(); err != nil {
		return local.Verdict{}, err
	}
	left := patienceOf(ctx)
	v, err := a.local.Take(a.now(), &caller, charges, left)
	if err != nil || v.Denied != nil || !local.NeedsSlots(charges) {
		return v, err
	}
	s, err := a.local.Enter(ctx, a.stopped, a.now, &caller, charges, min(left, patience))
	if err == nil && s.Denied == nil {
		return v, nil
	}
	a.local.GiveBack(a.now(), charges)
	select {
	case <-a.stopped: // which may be why nobody was served
		return local.Verdict{}, ErrStopped
	default:
		return s, err
	}
}

// patienceOf is how long a caller waits.
func patienceOf(ctx context.Context) time.Duration {
	if at, ok := ctx.Deadline(); ok {
		return max(time.Until(at), 0)
	}
	return math.MaxInt64
}

// turn waits until it is the caller's turn. What was taken stays taken if it leaves.
func (a *Agent) turn(ctx context.Context, delay time.Duration) error {
	if delay <= 0 {
		return nil
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-a.stopped:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
}

// localDenial is the denial of a local limit, which it names as its dimension: to the caller it is
// a quota like any other that is spent for now.
func (a *Agent) localDenial(p *local.Plan, v *local.Verdict) Decision {
	if v.Denied == nil {
		return Decision{}
	}
	d := localDecision(p, v)
	a.seen.denied(d.Dimension, d.Reason, d.RetryIn)
	return d
}

// localDecision is what a local limit says: the one that denied, or the tightest.
func localDecision(p *local.Plan, v *local.Verdict) Decision {
	l := v.Denied
	if l == nil {
		l = v.Tightest
	}
	d := Decision{Allowed: v.Denied == nil, Dimension: l.Name, Limit: quota.LimitOf(l.Most()), Remaining: v.Answer.Left,
		Window: l.Window(), PolicyVersion: p.Version}
	if d.Allowed {
		return d
	}
	d.Reason, d.RetryIn = quota.Exhausted, v.Answer.RetryIn
	if v.Outcome == local.TooLarge && l.Most() > 0 {
		d.Reason, d.Largest = quota.TooLarge, l.Most()
	}
	return d
}

// TakeLocal charges a local limit that policy defines, and nothing else. It is never leased.
func (a *Agent) TakeLocal(ctx context.Context, tenant, name string, cost int64) (Decision, error) {
	if err := ValidateCost(cost); err != nil {
		return Decision{}, err
	}
	p, err := a.localPlan(ctx, tenant, name)
	if err != nil {
		return Decision{}, err
	}
	var room [localRoom]local.Charge
	charges, ok := p.Limit(room[:0], tenant, name, nil, cost)
	if !ok {
		return Decision{}, errNoLocal
	}
	if local.NeedsSlots(charges) {
		return Decision{}, needsSlots("local")
	}
	return a.guard(ctx, p, charges, nil)
}

var errNoLocal = &quota.FieldError{Field: "local", Allowed: "a local limit that policy defines"}

// sweepLoop drops the idle keys of local limits.
func (a *Agent) sweepLoop(ctx context.Context) {
	for ctx.Err() == nil {
		a.local.Sweep(a.now())
		pause(ctx, nil, sweepEvery)
	}
}

const sweepEvery = 30 * time.Second
