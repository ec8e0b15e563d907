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
	a  *Agent
	id quota.Key

	key  atomic.Pointer[core.Key]   // where it was found, for its units alone
	free atomic.Pointer[local.Plan] // under which no local limit is about it
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
func (h *Handle) Take(ctx context.Context, cost int64) (d Decision, err error) {
	// Only units are believed of a key that was remembered: those that a dropped key held are
	// sealed, but what it knew of denials may be over.
	k, free := h.key.Load(), h.free.Load()
	if k != nil && free != nil && free == h.a.local.Plan() && cost > 0 && cost <= MaxCost && h.a.spend(k, cost, &d) {
		return d, nil
	}
	d, err = h.a.Take(ctx, h.id.Tenant, h.id.Dimension, cost)
	h.find()
	return d, err
}

// find remembers where the key is, and the plan, unless local limits have to be asked first.
func (h *Handle) find() {
	if p := h.a.local.Plan(); p != nil && !p.Limits(h.id.Dimension) && h.free.Load() != p {
		h.free.Store(p)
	}
	if k := h.a.table.Find(h.id); k != nil && h.key.Load() != k {
		h.key.Store(k)
	}
}
