package rls

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// patient is a context that ends early enough for an answer. It has no timer until somebody waits:
// to set one for every request wakes a thread of the runtime's, which takes longer than to decide.
type patient struct {
	context.Context // of the request
	at              time.Time

	once     sync.Once
	timed    context.Context
	undo     context.CancelFunc
	answered atomic.Bool
}

// past is a context that has ended, for whoever asks one whose request is answered.
var past = func() context.Context {
	ctx, end := context.WithCancel(context.Background())
	end()
	return ctx
}()

// newPatient ends after patience or, if that comes first, soon enough before the request's own
// deadline for the answer to arrive.
func newPatient(ctx context.Context, now time.Time, patience time.Duration) *patient {
	p := &patient{Context: ctx, at: now.Add(patience)}
	if deadline, ok := ctx.Deadline(); ok {
		if deadline = deadline.Add(-travel); deadline.Before(now) {
			deadline = now.Add(leastPatience)
		}
		if deadline.Before(p.at) {
			p.at = deadline
		}
	}
	return p
}

// Deadline implements context.Context.
func (p *patient) Deadline() (time.Time, bool) { return p.at, true }

// Done implements context.Context.
func (p *patient) Done() <-chan struct{} {
	p.once.Do(func() { p.timed, p.undo = context.WithDeadline(p.Context, p.at) })
	return p.timed.Done()
}

// Err implements context.Context.
func (p *patient) Err() error {
	if err := p.Context.Err(); err != nil {
		return err
	}
	switch {
	case p.answered.Load():
		return context.Canceled
	case time.Now().Before(p.at):
		return nil
	}
	return context.DeadlineExceeded
}

// stop ends what waits, and its timer. The request is answered.
func (p *patient) stop() {
	p.answered.Store(true) // before Done ends, so that Err says why
	p.once.Do(func() { p.timed = past })
	if p.undo != nil {
		p.undo()
	}
}
