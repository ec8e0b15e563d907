package agent

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quotalease/quotalease/agent/core"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

const (
	// lineNews is how long a line is taken not to be empty after the last news of it. The
	// control plane tells of it more often.
	lineNews = 30 * time.Second
	// leaveFor is how long a ticket that was served is taken out of its line again and again. By
	// then it has lapsed there.
	leaveFor = 30 * time.Second
	// lineItems is how many steps one call has at most.
	lineItems = 256

	lineRetryFirst = 50 * time.Millisecond
	lineRetryMost  = time.Second
)

// lines are the steps on their way to the control plane, and what is known of where somebody
// waits.
type lines struct {
	known atomic.Int64 // entries of heard: who finds none need not look

	mu    sync.Mutex // guards what follows
	queue []*lineCall
	heard map[lineKey]core.Instant // until when the line is taken not to be empty
	swept core.Instant

	kick chan struct{} // one slot: there is a step to send
	left chan struct{} // closed when a stopping agent has no step left
}

type lineKey struct{ tenant, operation string }

// lineCall is one step, which stays in the queue until it is answered or no use.
type lineCall struct {
	item  *pb.DeferItem
	done  chan *pb.Standing // one slot; nil: nobody waits for the answer
	until core.Instant      // of one that nobody waits for
	over  bool              // its caller has left. Guarded by lines.mu
}

func newLines() *lines {
	return &lines{heard: map[lineKey]core.Instant{}, kick: make(chan struct{}, 1), left: make(chan struct{})}
}

func (l *lines) add(c *lineCall) {
	l.mu.Lock()
	l.queue = append(l.queue, c)
	l.mu.Unlock()
	kick(l.kick)
}

// next lists the first steps of the queue, without those that are no use any more.
func (l *lines) next(now core.Instant) []*lineCall {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := l.queue[:0]
	for _, c := range l.queue {
		if !c.over && (c.done != nil || now < c.until) {
			kept = append(kept, c)
		}
	}
	clear(l.queue[len(kept):])
	l.queue = kept
	return append([]*lineCall(nil), kept[:min(len(kept), lineItems)]...)
}

// answered gives the callers of the first steps their answers.
func (l *lines) answered(now core.Instant, calls []*lineCall, standings []*pb.Standing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, c := range calls {
		s := standings[i]
		if s.GetFault() == nil {
			l.hear(now, lineKey{c.item.GetTenant(), c.item.GetOperation()}, s.GetWaiting())
		}
		c.over = true
		if c.done != nil {
			c.done <- s
		}
	}
}

// abandon ends the wait for an answer, unless it is there.
func (l *lines) abandon(c *lineCall) (*pb.Standing, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.over = true
	select {
	case s := <-c.done:
		return s, true
	default:
		return nil, false
	}
}

// hear takes in how many wait in a line. The owner holds mu.
func (l *lines) hear(now core.Instant, key lineKey, tickets int64) {
	if tickets > 0 {
		l.heard[key] = now + lineNews
	} else {
		delete(l.heard, key)
	}
	if now-l.swept > lineNews {
		l.swept = now
		for k, until := range l.heard {
			if until <= now {
				delete(l.heard, k)
			}
		}
	}
	l.known.Store(int64(len(l.heard)))
}

func (l *lines) news(now core.Instant, all []*pb.LineNews) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range all {
		l.hear(now, lineKey{n.GetTenant(), n.GetOperation()}, n.GetTickets())
	}
}

// waits reports that somebody waits in a line, as far as is known here.
func (l *lines) waits(now core.Instant, key lineKey) bool {
	if l.known.Load() == 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return now < l.heard[key]
}

// lineLoop has one call in flight at a time; steps gather behind it. A step whose call failed is
// sent again as it was: it is idempotent by its ticket's id.
func (a *Agent) lineLoop(ctx context.Context) {
	wait, idle := lineRetryFirst, false
	for ctx.Err() == nil {
		calls := a.lines.next(a.now())
		a.mu.Lock()
		hello := &pb.Hello{Incarnation: a.core.Incarnation().Bytes(), Name: a.cfg.Name, Region: a.cfg.Region, PolicyVersion: a.core.PolicyVersion()}
		stopping := a.core.Stopping()
		a.mu.Unlock()
		if len(calls) == 0 {
			if stopping && !idle {
				idle = true
				close(a.lines.left)
			}
			pause(ctx, a.lines.kick, time.Minute)
			continue
		}
		req := &pb.DeferRequest{Hello: hello}
		for _, c := range calls {
			req.Items = append(req.Items, c.item)
		}
		call, cancel := context.WithTimeout(ctx, a.cfg.SyncTimeout)
		reply, err := a.uplink.Defer(call, req)
		cancel()
		if err != nil || len(reply.GetStandings()) != len(calls) {
			pause(ctx, nil, a.spread(wait))
			wait = min(2*wait, lineRetryMost)
			continue
		}
		wait = lineRetryFirst
		a.lines.answered(a.now(), calls, reply.GetStandings())
	}
}

// step sends a step and waits for its answer. An outage is an error.
func (a *Agent) step(ctx context.Context, t *turn, item *pb.DeferItem) (*pb.Standing, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := &lineCall{item: item, done: make(chan *pb.Standing, 1)}
	a.lines.add(c)
	timer := time.NewTimer(spendPatience)
	defer timer.Stop()
	var err error
	select {
	case s := <-c.done:
		return s, nil
	case <-a.stopped:
		err = ErrStopped
	case <-timer.C:
		err = t.outage()
	case <-ctx.Done():
		if err = ctx.Err(); errors.Is(err, context.DeadlineExceeded) {
			err = t.outage()
		}
	}
	if s, ok := a.lines.abandon(c); ok {
		return s, nil
	}
	return nil, err
}
