package agent

import (
	"context"
	"sync"
	"time"

	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/ledger/quota"
)

// How long, and how many at most, ids of allowed takes are remembered. The oldest goes first.
const (
	rememberFor = 5 * time.Minute
	remembered  = 100_000
	maxIDBytes  = 128
)

// repeats remembers takes by the id that their callers gave, so that a caller whose answer
// was lost may ask this agent again and is not charged twice.
type repeats struct {
	mu    sync.Mutex
	byID  map[tenantID]*repeat
	order []*repeat // oldest first
}

// tenantID is a caller's id: one tenant's are not another's.
type tenantID struct{ tenant, id string }

type repeat struct {
	id   tenantID
	key  quota.Key
	cost int64
	at   core.Instant

	done     chan struct{} // closed when the first take was answered
	allowed  bool          // set before done closes
	decision Decision
}

// TakeOnce is Take with an id of 1 to 128 bytes: a repeat of a take that was allowed gets its
// decision again and is not charged, for five minutes, at this agent. A take that was denied
// charged nothing, so its repeat is decided anew. The same id with other terms is refused
// with a *quota.FieldError.
func (a *Agent) TakeOnce(ctx context.Context, id, tenant, dimension string, cost int64) (Decision, error) {
	if id == "" || len(id) > maxIDBytes {
		return Decision{}, &quota.FieldError{Field: "id", Allowed: "1 to 128 bytes"}
	}
	key := quota.Key{Tenant: tenant, Dimension: dimension}
	for {
		r, first := a.repeats.claim(id, key, cost, a.now())
		if r.key != key || r.cost != cost {
			return Decision{}, &quota.FieldError{Field: "id", Allowed: "a repeat of the take that the id was used for, or a new id"}
		}
		if first {
			return a.takeFirst(ctx, r)
		}
		select {
		case <-r.done:
			if r.allowed {
				d := r.decision // as it was, but for the time that has passed
				d.Reset = max(0, d.Reset-max(0, a.now()-r.at))
				return d, nil
			}
		case <-ctx.Done():
			return Decision{}, ctx.Err()
		}
	}
}

// takeFirst decides the take that r is the record of, and settles the record whatever happens.
func (a *Agent) takeFirst(ctx context.Context, r *repeat) (d Decision, err error) {
	allowed := false
	defer func() { a.repeats.settle(r, d, allowed) }()
	d, err = a.Take(ctx, r.key.Tenant, r.key.Dimension, r.cost)
	allowed = err == nil && d.Allowed && r.cost > 0
	return d, err
}

// claim returns the record of an id, and whether the caller is the one to decide it.
func (rs *repeats) claim(id string, key quota.Key, cost int64, now core.Instant) (*repeat, bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.forget(now)
	name := tenantID{key.Tenant, id}
	if r, ok := rs.byID[name]; ok {
		return r, false
	}
	r := &repeat{id: name, key: key, cost: cost, at: now, done: make(chan struct{})}
	if rs.byID == nil {
		rs.byID = map[tenantID]*repeat{}
	}
	rs.byID[name] = r
	return r, true
}

// settle ends the first take of an id. Only an allowed one is remembered.
func (rs *repeats) settle(r *repeat, d Decision, allowed bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r.decision, r.allowed = d, allowed
	if allowed {
		rs.order = append(rs.order, r)
	} else {
		delete(rs.byID, r.id)
	}
	close(r.done)
}

func (rs *repeats) forget(now core.Instant) {
	n := max(0, len(rs.order)-remembered)
	for n < len(rs.order) && now-rs.order[n].at >= rememberFor {
		n++
	}
	for _, r := range rs.order[:n] {
		delete(rs.byID, r.id)
	}
	clear(rs.order[:n])
	rs.order = rs.order[n:]
}
