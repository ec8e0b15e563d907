package agent

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/gofrs/uuid/v5"

	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/agent/local"
	"github.com/quotalease/quotalease/ledger/quota"
)

// MaxWait is the longest that a caller may wait in line for slots.
const MaxWait = time.Hour

// Acquire is a request to start work under concurrency limits, and whatever else it takes.
type Acquire struct {
	// ID names the permit, 1 to 128 bytes; empty: the agent makes one up. A repeat while the
	// work runs gets the same permit and takes nothing.
	ID        string
	Tenant    string
	Takes     []core.DimensionCost // costs of 1 or more, at least one of a concurrency limit
	Operation string               // or the operation that says so
	Times     int64                // of the operation, 1 or more
	Hold      time.Duration        // the permit lapses so long after the last Renew; 0: the limit's max_hold
	Wait      time.Duration        // most that the caller waits in line, and not beyond ctx's deadline; 0: it does not
}

// Permit is the right to run. A denial is a value, as with Take.
type Permit struct {
	ID      string        // for Renew and Release; empty when denied
	Expires time.Duration // from now, unless it is renewed
	Waited  time.Duration
	Decision
}

// Acquire starts work: it takes everything that the request names, or nothing. The slots are
// the work's until Release, or until the permit lapses because nobody renewed it. Work that
// runs is never cut, whatever becomes of the lease, the limit or the control plane. A denial
// says that the slots are in use (exhausted) or in other agents' hands (leased_out), and names
// no time: nobody knows when work will end. Callers who wait are served first come first
// served. A caller who hangs up as the permit is given has none. Errors are those of Take.
func (a *Agent) Acquire(ctx context.Context, r Acquire) (Permit, error) {
	if err := r.validate(); err != nil {
		return Permit{}, err
	}
	if r.ID == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return Permit{}, err
		}
		r.ID = id.String()
	}
	free, err := a.acquiring.claim(ctx, tenantID{r.Tenant, r.ID})
	if err != nil {
		return Permit{}, err
	}
	defer free()
	began := a.now()
	charges, err := a.localOf(ctx, r)
	if err != nil {
		return Permit{}, err
	}
	v, err := a.enter(ctx, charges, r.Wait)
	if err != nil || v.Denied != nil {
		return Permit{Waited: a.now() - began, Decision: a.localDenial(a.local.Plan(), &v)}, err
	}
	kept := false
	defer a.giveBackUnless(&kept, charges)
	if err := a.turn(ctx, v.Delay); err != nil {
		return Permit{}, err
	}
	r.Wait = max(r.Wait-(a.now()-began), 0)
	p, err := a.acquireLeased(ctx, r, began, func() { a.local.Leave(a.now(), charges) })
	kept = err == nil && p.Allowed
	return p, err
}

// localOf returns the local limits that an acquire is under; none, if it repeats one whose work
// runs and has all that they gave.
func (a *Agent) localOf(ctx context.Context, r Acquire) ([]local.Charge, error) {
	what, takes := r.Operation, r.Takes
	if what == "" {
		what = takes[0].Dimension
	}
	p, err := a.localPlan(ctx, r.Tenant, what)
	if err != nil {
		return nil, err
	}
	if op := a.core.Operation(r.Operation); op != nil {
		takes = op.Takes
	}
	charges := chargesOf(p, nil, r.Tenant, r.Operation, takes, max(r.Times, 1))
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(charges) > 0 && a.core.Held(a.now(), r.Tenant, r.ID) > 0 {
		return nil, nil
	}
	return charges, nil
}

// acquireLeased starts work as what is leased allows. ended is called when it has ended.
func (a *Agent) acquireLeased(ctx context.Context, r Acquire, began core.Instant, ended func()) (Permit, error) {
	done := make(chan core.Outcome, 1)
	g := &core.Group{Tenant: r.Tenant, Takes: r.Takes, Operation: r.Operation, Times: r.Times,
		Permit: r.ID, Hold: r.Hold, Wait: r.Wait, Done: func(o core.Outcome) { done <- o }, Ended: ended}
	a.mu.Lock()
	a.core.WantAll(a.now(), g)
	a.mu.Unlock()
	a.kickAll()
	// Like a spend of the exact lane, a start may take a round trip, whether or not its caller is
	// willing to wait in line.
	o, err := a.wait(ctx, several{g}, done, max(spendPatience, r.Wait))
	if err != nil {
		return Permit{}, err
	}
	d, err := a.outcome(o.Key, 1, o)
	p := Permit{Waited: a.now() - began, Decision: d}
	if err != nil {
		return Permit{}, err
	}
	if d.Allowed {
		a.mu.Lock()
		hungUp := errors.Is(ctx.Err(), context.Canceled)
		if hungUp {
			a.core.Withdraw(a.now(), g)
		}
		p.ID, p.Expires = r.ID, a.core.Held(a.now(), r.Tenant, r.ID)
		a.mu.Unlock()
		if hungUp {
			a.kickAll()
			return Permit{}, ctx.Err()
		}
	}
	a.seen.acquired(d.Dimension, p.Waited)
	return p, nil
}

func (r Acquire) validate() error {
	if err := (quota.Key{Tenant: r.Tenant, Dimension: "takes"}).Validate(); err != nil {
		return err
	}
	switch {
	case len(r.ID) > maxIDBytes:
		return &quota.FieldError{Field: "id", Allowed: "1 to 128 bytes"}
	case r.Hold < 0:
		return &quota.FieldError{Field: "hold", Allowed: "0 or more"}
	case r.Wait < 0 || r.Wait > MaxWait:
		return &quota.FieldError{Field: "wait", Allowed: "0 to " + MaxWait.String()}
	case r.Operation == "":
		return validateTakes(r.Takes)
	case len(r.Takes) > 0:
		return &quota.FieldError{Field: "takes", Allowed: "none beside an operation"}
	case r.Times < 1 || r.Times > MaxCost:
		return &quota.FieldError{Field: "times", Allowed: "a whole number from 1 to " + strconv.FormatInt(MaxCost, 10)}
	}
	return nil
}

// Renew says that a permit's work goes on, and returns how long it may until the next time.
func (a *Agent) Renew(tenant, id string) (time.Duration, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	if err := a.core.RenewPermit(now, tenant, id); err != nil {
		return 0, err
	}
	return a.core.Held(now, tenant, id), nil
}

// Release says that a permit's work has ended: its slots are free. A repeat changes nothing.
func (a *Agent) Release(tenant, id string) error {
	a.mu.Lock()
	ended, err := a.core.Release(a.now(), tenant, id)
	a.mu.Unlock()
	a.kickAll()
	if ended.First {
		a.seen.released(ended)
	}
	return err
}

func (a *Agent) kickAll() {
	kick(a.syncKick)
	kick(a.spendKick)
	kick(a.tickKick)
}

// claims lets one at a time acquire under an id: who repeats it meanwhile finds the permit.
type claims struct {
	mu   sync.Mutex
	held map[tenantID]chan struct{} // closed when its holder is done
}

// claim waits until nobody else holds the id.
func (c *claims) claim(ctx context.Context, id tenantID) (free func(), err error) {
	for {
		c.mu.Lock()
		busy, ok := c.held[id]
		if !ok {
			if c.held == nil {
				c.held = map[tenantID]chan struct{}{}
			}
			mine := make(chan struct{})
			c.held[id] = mine
			c.mu.Unlock()
			return func() {
				c.mu.Lock()
				delete(c.held, id)
				c.mu.Unlock()
				close(mine)
			}, nil
		}
		c.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
