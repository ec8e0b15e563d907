package agent

import (
	"context"
	"fmt"
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
	field string // what callers call the id

	mu    sync.Mutex
	byID  map[tenantID]*repeat
	order []*repeat // oldest first
}

// tenantID is a caller's id: one tenant's are not another's.
type tenantID struct{ tenant, id string }

type repeat struct {
	id    tenantID
	terms terms
	at    core.Instant

	done    chan struct{} // closed when the first take was answered
	allowed bool          // set before done closes
	answer  Reservation
}

// terms are what a repeat has to be a repeat of.
type terms struct {
	what string
	cost int64
}

// TakeOnce is Take with an id of 1 to 128 bytes: a repeat of a take that was allowed gets its
// decision again and is not charged, for five minutes, at this agent. A take that was denied
// charged nothing, so its repeat is decided anew. The same id with other terms is refused
// with a *quota.FieldError.
func (a *Agent) TakeOnce(ctx context.Context, id, tenant, dimension string, cost int64) (Decision, error) {
	r, err := a.once(ctx, id, tenant, terms{"take " + dimension, cost}, func() (r Reservation, err error) {
		r.Decision, err = a.Take(ctx, tenant, dimension, cost)
		return r, err
	})
	return r.Decision, err
}

// TakeAllOnce is TakeAll with an id, as TakeOnce is Take with one.
func (a *Agent) TakeAllOnce(ctx context.Context, id, tenant string, takes []core.DimensionCost) (Decision, error) {
	r, err := a.once(ctx, id, tenant, terms{fmt.Sprint("takes ", takes), 1}, func() (r Reservation, err error) {
		r.Decision, err = a.TakeAll(ctx, tenant, takes)
		return r, err
	})
	return r.Decision, err
}

// TakeOperationOnce is TakeOperation with an id.
func (a *Agent) TakeOperationOnce(ctx context.Context, id, tenant, operation string, times int64) (Decision, error) {
	r, err := a.once(ctx, id, tenant, terms{"operation " + operation, times}, func() (r Reservation, err error) {
		r.Decision, err = a.TakeOperation(ctx, tenant, operation, times)
		return r, err
	})
	return r.Decision, err
}

// ReserveOnce is Reserve with an id of the caller's: a repeat gets the same reservation.
func (a *Agent) ReserveOnce(ctx context.Context, id, tenant, dimension string, estimate int64, maximum bool) (Reservation, error) {
	return a.once(ctx, id, tenant, terms{fmt.Sprintf("reserve %s, maximum %v", dimension, maximum), estimate}, func() (Reservation, error) {
		return a.Reserve(ctx, tenant, dimension, estimate, maximum)
	})
}

func (a *Agent) once(ctx context.Context, id, tenant string, ts terms, decide func() (Reservation, error)) (Reservation, error) {
	return a.onceOf(ctx, &a.repeats, id, tenant, ts, decide)
}

// onceOf decides what an id was given for, or repeats the answer.
func (a *Agent) onceOf(ctx context.Context, rs *repeats, id, tenant string, ts terms, decide func() (Reservation, error)) (Reservation, error) {
	if id == "" || len(id) > maxIDBytes {
		return Reservation{}, &quota.FieldError{Field: rs.field, Allowed: "1 to 128 bytes"}
	}
	for {
		r, first := rs.claim(tenantID{tenant, id}, ts, a.now())
		if r.terms != ts {
			return Reservation{}, &quota.FieldError{Field: rs.field, Allowed: "a repeat of the take that the id was used for, or a new id"}
		}
		if first {
			return rs.first(r, decide)
		}
		select {
		case <-r.done:
			if r.allowed {
				again := r.answer // as it was, but for the time that has passed
				again.Reset = max(0, again.Reset-max(0, a.now()-r.at))
				return again, nil
			}
		case <-ctx.Done():
			return Reservation{}, ctx.Err()
		}
	}
}

// first decides the take that r is the record of, and settles the record whatever happens. A
// peek is nothing to remember.
func (rs *repeats) first(r *repeat, decide func() (Reservation, error)) (answer Reservation, err error) {
	allowed := false
	defer func() { rs.settle(r, answer, allowed) }()
	answer, err = decide()
	allowed = err == nil && answer.Allowed && r.terms.cost > 0
	return answer, err
}

// claim returns the record of an id, and whether the caller is the one to decide it.
func (rs *repeats) claim(name tenantID, ts terms, now core.Instant) (*repeat, bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.forget(now)
	if r, ok := rs.byID[name]; ok {
		return r, false
	}
	r := &repeat{id: name, terms: ts, at: now, done: make(chan struct{})}
	if rs.byID == nil {
		rs.byID = map[tenantID]*repeat{}
	}
	rs.byID[name] = r
	return r, true
}

// settle ends the first take of an id. Only an allowed one is remembered.
func (rs *repeats) settle(r *repeat, answer Reservation, allowed bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r.answer, r.allowed = answer, allowed
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
