package door

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/ledger/quota"
)

// MaxMany is how many requests one call may hold.
const MaxMany = 100

// Many is the requests of one call, each answered by itself, and told in any order. Requests of
// different places are read and told at the same time.
type Many struct {
	Len int
	// Read says what the request at a place is, or why there is none.
	Read func(i int, r *Request) error
	// Tell is told the answer to it, which is that of Take.
	Tell func(i int, r *Request, d agent.Decision, err error)
}

// ValidateMany refuses a call that holds too many requests, or none.
func ValidateMany(n int) error {
	if n < 1 || n > MaxMany {
		return &quota.FieldError{Field: "takes", Allowed: "a list of 1 to " + strconv.Itoa(MaxMany) + " requests"}
	}
	return nil
}

// travel is what is left of a caller's time for the way back: the answers that are there must not be
// lost because one is not.
const travel = 5 * time.Millisecond

// TakeMany asks the agent for what each of the requests says. What is in hand is taken at once. The
// others may have to wait, and do so together, a little less long than the caller does.
func TakeMany(ctx context.Context, a Agent, m Many) {
	if deadline, ok := ctx.Deadline(); ok {
		early, done := context.WithDeadline(ctx, deadline.Add(-travel))
		defer done()
		ctx = early
	}
	var waiting sync.WaitGroup
	var r Request
	for i := range m.Len {
		r = Request{}
		if err := m.Read(i, &r); err != nil {
			m.Tell(i, &r, agent.Decision{}, err)
			continue
		}
		if d, ok := takeHeld(a, &r); ok {
			m.Tell(i, &r, d, nil)
			continue
		}
		late := r
		waiting.Go(func() {
			d, err := Take(ctx, a, &late)
			m.Tell(i, &late, d, err)
		})
	}
	waiting.Wait()
}

// takeHeld answers a request that is simply for units, if they are in hand.
func takeHeld(a Agent, r *Request) (agent.Decision, bool) {
	if r.ID != nil || r.Operation != "" || len(r.Takes) > 0 || r.Validate() != nil {
		return agent.Decision{}, false
	}
	return a.TakeHeld(r.Tenant, r.Dimension, orOne(r.Cost))
}
