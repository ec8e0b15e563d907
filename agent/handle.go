package agent

import (
	"context"
	"sync/atomic"

	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/agent/local"
	"github.com/quotalease/quotalease/ledger/quota"
)

// Handle takes from one key and remembers where it is: a caller that takes from the same key
// again and again saves the search. Its methods are safe for concurrent use, and it needs no
// closing: a key that the agent dropped since is found anew.
type Handle struct {
	a     *Agent
	id    quota.Key
	found atomic.Pointer[located]
}

// located is where a key without local limits was found, under one plan of those.
type located struct {
	plan *local.Plan
	key  *core.Key
}

// Handle returns a handle on a key, which need not be in use yet.
func (a *Agent) Handle(tenant, dimension string) (*Handle, error) {
	id := quota.Key{Tenant: tenant, Dimension: dimension}
	if err := id.Validate(); err != nil {
		return nil, err
	}
	return &Handle{a: a, id: id}, nil
}

// Take is Agent.Take for the handle's key.
func (h *Handle) Take(ctx context.Context, cost int64) (Decision, error) {
	// Only units are believed of a key that was remembered: those that a dropped key held are
	// sealed, but what it knew of denials may be over.
	if f := h.found.Load(); f != nil && cost > 0 && cost <= MaxCost && f.plan == h.a.local.Plan() {
		if t := f.key.Take(h.a.now(), cost); t.Allowed {
			h.a.noteFast(f.key, &t, cost)
			return decision(h.id.Dimension, &t), nil
		}
	}
	d, err := h.a.Take(ctx, h.id.Tenant, h.id.Dimension, cost)
	h.find()
	return d, err
}

// find remembers where the key is, unless local limits have to be asked first.
func (h *Handle) find() {
	p, k := h.a.local.Plan(), h.a.table.Find(h.id)
	if p == nil || k == nil || p.Limits(h.id.Dimension) {
		h.found.Store(nil)
		return
	}
	if f := h.found.Load(); f == nil || f.plan != p || f.key != k {
		h.found.Store(&located{plan: p, key: k})
	}
}
