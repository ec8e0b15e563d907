package agent

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/ledger/quota"
)

// DeniedError is a denial that it is no use to wait for: the cost can never pass, nobody knows
// when it will, or that is after the caller's deadline.
type DeniedError struct {
	Tenant string
	Decision
}

func (e *DeniedError) Error() string {
	text := fmt.Sprintf("wait for %s: %s", quota.Key{Tenant: e.Tenant, Dimension: e.Dimension}, e.Reason)
	switch {
	case e.Reason == quota.TooLarge:
		return fmt.Sprintf("%s: the largest cost that can pass is %d", text, e.Largest)
	case e.RetryIn > 0:
		return fmt.Sprintf("%s for another %v, which is after the deadline", text, e.RetryIn)
	}
	return text + ", and nobody knows for how long"
}

// Wait takes cost from the key, 1 or more, when it can be had: it paces calls to a limit, of
// one's own or somebody else's, so that none of them is rejected. Callers for a key are served
// first come first served, so a large cost is not overtaken for ever by small ones. ctx bounds
// the wait, outages included, and a caller who would wait in vain is told at once. The error is
// *DeniedError for a wait that is no use, *UnavailableError for an outage that outlasts the
// deadline, ctx's, and else those of Take. Nothing is charged with an error.
func (a *Agent) Wait(ctx context.Context, tenant, dimension string, cost int64) error {
	if cost == 0 {
		return &quota.FieldError{Field: "cost", Allowed: "more than 0, as there is nothing to wait for"}
	}
	return a.inLine(ctx, tenantID{tenant, "dimension " + dimension}, func() (Decision, error) {
		return a.Take(ctx, tenant, dimension, cost)
	})
}

// WaitAll is Wait for what TakeAll takes. Callers who name the same takes are in one line.
func (a *Agent) WaitAll(ctx context.Context, tenant string, takes []core.DimensionCost) error {
	return a.inLine(ctx, tenantID{tenant, fmt.Sprint("takes ", takes)}, func() (Decision, error) {
		return a.TakeAll(ctx, tenant, takes)
	})
}

// WaitOperation is Wait for what TakeOperation takes. Callers of the same operation are in one
// line.
func (a *Agent) WaitOperation(ctx context.Context, tenant, operation string, times int64) error {
	return a.inLine(ctx, tenantID{tenant, "operation " + operation}, func() (Decision, error) {
		return a.TakeOperation(ctx, tenant, operation, times)
	})
}

// Between two attempts of a line's head. It asks again within a second even if it was told of a
// later moment, because limits grow: until one does, a denial is remembered and costs no message.
const (
	leastPause = time.Millisecond
	mostPause  = time.Second
)

// inLine takes a place in line, and takes when that has come to its head. Only the head of a
// line asks and sleeps; the others wait for the one before them to leave. So a moment at which
// units are to be had wakes one caller, whatever the number of those who wait, and nobody
// overtakes.
func (a *Agent) inLine(ctx context.Context, id tenantID, take func() (Decision, error)) error {
	me, err := a.pacing.join(ctx, id)
	if err != nil {
		return err
	}
	defer a.pacing.leave(id, me)
	select {
	case <-me.Value.(chan struct{}):
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		d, err := take()
		retryIn, err := unserved(id.tenant, d, err)
		if err == nil || retryIn == 0 {
			return err
		}
		next := time.Now().Add(retryIn)
		if tooLate(ctx, next) {
			return err
		}
		a.pacing.expect(id, next, err)
		if err := a.sleep(ctx, min(retryIn, mostPause)); err != nil {
			return err
		}
	}
}

// unserved is why a caller was not served, and when it is worth to ask again; 0: never.
func unserved(tenant string, d Decision, err error) (time.Duration, error) {
	var away *UnavailableError
	switch {
	case errors.As(err, &away):
		return max(away.RetryIn, leastPause), err
	case err != nil:
		return 0, err
	case d.Allowed:
		return 0, nil
	case d.Reason == quota.Cold, d.RetryIn > 0: // who is cold has a lease on its way
		return max(d.RetryIn, leastPause), &DeniedError{Tenant: tenant, Decision: d}
	}
	return 0, &DeniedError{Tenant: tenant, Decision: d}
}

// tooLate reports a caller who will have gone by then.
func tooLate(ctx context.Context, then time.Time) bool {
	end, ok := ctx.Deadline()
	return ok && end.Before(then)
}

func (a *Agent) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
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

// paces are the callers of Wait. A line exists while somebody is in it.
type paces struct {
	mu   sync.Mutex
	byID map[tenantID]*line
}

type line struct {
	places list.List // of chan struct{}, which closes when its place is the head
	next   time.Time // when the head may be served at the earliest; zero: it is asking
	why    error     // it was not
}

// join takes the last place of a line, unless it is known that it will not come to be served in
// time.
func (ls *paces) join(ctx context.Context, id tenantID) (*list.Element, error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l, ok := ls.byID[id]
	if !ok {
		if ls.byID == nil {
			ls.byID = map[tenantID]*line{}
		}
		l = &line{}
		ls.byID[id] = l
	}
	if tooLate(ctx, l.next) {
		return nil, stillUntil(l.next, l.why)
	}
	turn := make(chan struct{})
	if l.places.Len() == 0 {
		close(turn)
	}
	return l.places.PushBack(turn), nil
}

// expect notes what the head of a line was told.
func (ls *paces) expect(id tenantID, next time.Time, why error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.byID[id].next, ls.byID[id].why = next, why
}

// leave gives a place up, and the head to the one behind it.
func (ls *paces) leave(id tenantID, me *list.Element) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.byID[id]
	head := l.places.Front() == me
	l.places.Remove(me)
	if l.places.Len() == 0 {
		delete(ls.byID, id)
		return
	}
	if head {
		l.next, l.why = time.Time{}, nil
		close(l.places.Front().Value.(chan struct{}))
	}
}

// stillUntil is what the head of a line was told, said again.
func stillUntil(next time.Time, why error) error {
	var denied *DeniedError
	var away *UnavailableError
	switch left := time.Until(next); {
	case errors.As(why, &denied):
		again := *denied
		again.RetryIn = left
		return &again
	case errors.As(why, &away):
		return &UnavailableError{Key: away.Key, RetryIn: left}
	}
	return why
}
