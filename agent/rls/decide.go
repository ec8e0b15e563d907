package rls

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/door"
	"github.com/quotalease/quotalease/ledger/quota"
)

// verdict is what a request as a whole is told.
type verdict struct {
	over     bool
	reason   quota.Reason
	decision agent.Decision // of the limit that decided; without a policy version: none did
	rule     string         // its name, if it has one
}

// decide asks the agent. First come the questions that charge nothing, then all that may deny
// together, and what is only watched last: a request that does not pass uses none of it.
func decide(ctx context.Context, a Agent, items []item) (verdict, error) {
	v, err := ask(ctx, a, items)
	if err != nil {
		return v, err
	}
	if !v.over {
		watch(ctx, a, items)
	}
	for i := range items {
		if it := &items[i]; it.counted() && !it.known && it.refused == "" {
			it.decision, it.known = a.Known(it.take)
		}
	}
	return v, nil
}

// ask decides what is enforced, all or none.
func ask(ctx context.Context, a Agent, items []item) (verdict, error) {
	var v verdict
	for i := range items {
		if it := &items[i]; it.enforced() && it.refused != "" {
			return it.deny(agent.Decision{Dimension: it.take.Key.Dimension, Reason: it.refused}), nil
		}
	}
	for i := range items {
		it := &items[i]
		if !it.enforced() || it.back || it.take.Cost > 0 {
			continue
		}
		d, err := peek(ctx, a, it.take)
		switch d, err = settled(d, err, it.take.Key); {
		case err != nil:
			return v, err
		case !d.Allowed:
			return it.deny(d), nil
		}
		it.decision, it.known = d, true
		v.passed(it)
	}
	takes := takesOf(items)
	if len(takes) == 0 {
		return v, nil
	}
	at, d, err := take(ctx, a, takes)
	if d, err = settled(d, err, takes[at].Key); err != nil {
		return v, err
	}
	var denied verdict
	for i := range items {
		it := &items[i]
		switch {
		case !it.takes() || !sameCount(it.take, takes[at]):
		case !d.Allowed:
			denied = it.deny(d)
		default:
			it.decision, it.known = d, true
			v = verdict{}
			v.passed(it)
		}
	}
	if !d.Allowed {
		return denied, nil
	}
	for i := range items { // local limits say what they left
		if it := &items[i]; it.takes() && it.take.Local && !it.known {
			if it.decision, it.known = a.Known(it.take); it.known {
				it.decision.Allowed, it.decision.Reason = true, quota.Allowed // whatever the next is told
				v.passed(it)
			}
		}
	}
	return v, nil
}

// takes reports that an item is taken, and may be denied.
func (it *item) takes() bool { return it.enforced() && !it.back && it.take.Cost > 0 }

// sameCount reports that two takes are of one key, or of one count of a local limit.
func sameCount(x, y agent.KeyTake) bool {
	x.Cost = y.Cost
	return x == y
}

// peek asks what is left. Of a local limit nothing is left when it would deny.
func peek(ctx context.Context, a Agent, t agent.KeyTake) (agent.Decision, error) {
	if !t.Local {
		return a.Take(ctx, t.Key.Tenant, t.Key.Dimension, 0)
	}
	d, ok := a.Known(t)
	if !ok {
		d = agent.Decision{Dimension: t.Key.Dimension, Reason: quota.Unavailable, RetryIn: time.Second}
	}
	return d, nil
}

// passed keeps the tightest limit of a request that passes.
func (v *verdict) passed(it *item) {
	d := it.decision
	if v.decision.PolicyVersion == 0 || !d.Limit.Unlimited && (v.decision.Limit.Unlimited || d.Remaining < v.decision.Remaining) {
		*v = verdict{reason: d.Reason, decision: d, rule: it.rule.Name}
	}
}

// deny marks an item as the one over its limit.
func (it *item) deny(d agent.Decision) verdict {
	it.decision, it.known, it.over = d, d.PolicyVersion != 0, true
	return verdict{over: true, reason: d.Reason, decision: d, rule: it.rule.Name}
}

// takesOf is what enforced items cost, each key once: two of one key are two uses of it.
func takesOf(items []item) []agent.KeyTake {
	var takes []agent.KeyTake
next:
	for i := range items {
		it := &items[i]
		if !it.takes() {
			continue
		}
		for j := range takes {
			if sameCount(takes[j], it.take) {
				takes[j].Cost += it.take.Cost
				continue next
			}
		}
		takes = append(takes, it.take)
	}
	return takes
}

// take takes one key, or several together.
func take(ctx context.Context, a Agent, takes []agent.KeyTake) (int, agent.Decision, error) {
	for i, t := range takes {
		if t.Cost > agent.MaxCost { // of several descriptors together
			return i, agent.Decision{Dimension: t.Key.Dimension, Reason: quota.TooLarge}, nil
		}
	}
	if len(takes) > 1 || takes[0].Local {
		return a.TakeKeys(ctx, takes)
	}
	key := takes[0].Key
	d, err := a.Take(ctx, key.Tenant, key.Dimension, takes[0].Cost)
	return 0, d, err
}

// settled turns what is no decision into one: who would be let past an error is denied. The
// error is that of a caller who has hung up.
func settled(d agent.Decision, err error, key quota.Key) (agent.Decision, error) {
	if err == nil || errors.Is(err, context.Canceled) {
		return d, err
	}
	d = agent.Decision{Dimension: key.Dimension, Reason: quota.Unavailable, RetryIn: time.Second}
	if errors.Is(err, context.DeadlineExceeded) {
		d.Reason = quota.Cold // nobody was asked: there was no time
	} else if retryIn, ok := door.Outage(err); ok {
		d.RetryIn = retryIn
	}
	return d, nil
}

// watch takes what is in shadow, each by itself and side by side: who waits for a lease of one
// keeps none of the others from being counted.
func watch(ctx context.Context, a Agent, items []item) {
	var shadow []*item
	for i := range items {
		it := &items[i]
		if !it.counted() || !it.rule.Shadow || it.back || it.refused != "" {
			it.over = it.over || it.refused != ""
			continue
		}
		shadow = append(shadow, it)
	}
	if len(shadow) == 0 {
		return
	}
	if ctx.Err() != nil { // the enforced ones used up the time
		late, done := context.WithTimeout(context.WithoutCancel(ctx), leastPatience)
		defer done()
		ctx = late
	}
	var wg sync.WaitGroup
	for _, it := range shadow {
		wg.Go(func() { it.watched(ctx, a) })
	}
	wg.Wait()
}

// watched is what an item in shadow would be told.
func (it *item) watched(ctx context.Context, a Agent) {
	d, err := a.TakeShadow(ctx, it.take)
	if err != nil {
		it.decision, it.over = agent.Decision{Dimension: it.take.Key.Dimension, Reason: quota.Unavailable}, true
		return
	}
	it.decision, it.known, it.over = d, true, !d.Allowed
}
