package rls

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/core"
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
			it.decision, it.known = a.Known(it.key)
		}
	}
	return v, nil
}

// ask decides what is enforced, all or none.
func ask(ctx context.Context, a Agent, items []item) (verdict, error) {
	var v verdict
	for i := range items {
		if it := &items[i]; it.enforced() && it.refused != "" {
			return it.deny(agent.Decision{Dimension: it.key.Dimension, Reason: it.refused}), nil
		}
	}
	for i := range items {
		it := &items[i]
		if !it.enforced() || it.back || it.cost > 0 {
			continue
		}
		d, err := a.Take(ctx, it.key.Tenant, it.key.Dimension, 0)
		switch d, err = settled(d, err, it.key); {
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
	key, d, err := take(ctx, a, takes)
	if d, err = settled(d, err, key); err != nil {
		return v, err
	}
	var denied verdict
	for i := range items {
		it := &items[i]
		switch {
		case !it.enforced() || it.back || it.cost == 0 || it.key != key:
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
	return v, nil
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
func takesOf(items []item) []core.KeyCost {
	var takes []core.KeyCost
next:
	for i := range items {
		it := &items[i]
		if !it.enforced() || it.back || it.cost == 0 {
			continue
		}
		for j := range takes {
			if takes[j].Key == it.key {
				takes[j].Cost += it.cost
				continue next
			}
		}
		takes = append(takes, core.KeyCost{Key: it.key, Cost: it.cost})
	}
	return takes
}

// take takes one key, or several together.
func take(ctx context.Context, a Agent, takes []core.KeyCost) (quota.Key, agent.Decision, error) {
	for _, t := range takes {
		if t.Cost > agent.MaxCost { // of several descriptors together
			return t.Key, agent.Decision{Dimension: t.Key.Dimension, Reason: quota.TooLarge}, nil
		}
	}
	if len(takes) > 1 {
		key, d, err := a.TakeKeys(ctx, takes)
		if key == (quota.Key{}) {
			key = takes[0].Key
		}
		return key, d, err
	}
	key := takes[0].Key
	d, err := a.Take(ctx, key.Tenant, key.Dimension, takes[0].Cost)
	return key, d, err
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
	if ctx.Err() != nil { // the enforced ones used up the time
		late, done := context.WithTimeout(context.WithoutCancel(ctx), leastPatience)
		defer done()
		ctx = late
	}
	var wg sync.WaitGroup
	for i := range items {
		it := &items[i]
		if !it.counted() || !it.rule.Shadow || it.back || it.refused != "" {
			it.over = it.over || it.refused != ""
			continue
		}
		wg.Go(func() { it.watched(ctx, a) })
	}
	wg.Wait()
}

// watched is what an item in shadow would be told.
func (it *item) watched(ctx context.Context, a Agent) {
	d, err := a.TakeShadow(ctx, it.key.Tenant, it.key.Dimension, it.cost)
	if err != nil {
		it.decision, it.over = agent.Decision{Dimension: it.key.Dimension, Reason: quota.Unavailable}, true
		return
	}
	it.decision, it.known, it.over = d, true, !d.Allowed
}
