package controlplane

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// inFlight is how many transactions a granter has at once: while one is committed, another is
// decided. On accounts of its own it gains a third; on one that both want, it waits there for its
// lock. More were no faster, and cost Postgres more.
const inFlight = 2

// granter commits in groups: whatever waits at the moment when a transaction ends goes into the
// next one. An idle granter takes a single request at once, so nobody waits for a group to fill.
type granter struct {
	desk     *Desk
	queue    chan *waiting
	batch    int           // most items of one transaction
	timeout  time.Duration // of one transaction
	stopped  chan struct{} // closed when run has ended
	metrics  *metrics
	turn     chan struct{} // full while somebody takes from the queue
	leftover *waiting      // taken from the queue, too large for the last batch; of whoever has the turn
}

// waiting is a request in the queue, and who asked.
type waiting struct {
	ctx     context.Context
	request *request
	done    chan struct{}
}

func newGranter(d *Desk, queue, batch int, timeout time.Duration, m *metrics) *granter {
	return &granter{desk: d, queue: make(chan *waiting, queue), batch: batch, timeout: timeout,
		stopped: make(chan struct{}), metrics: m, turn: make(chan struct{}, 1)}
}

func (g *granter) sync(ctx context.Context, m *pb.SyncRequest) (*pb.SyncReply, error) {
	r, err := g.desk.readSync(m)
	if err != nil {
		return nil, err
	}
	if err := g.submit(ctx, r); err != nil {
		return nil, err
	}
	return r.sync, r.err
}

func (g *granter) spend(ctx context.Context, m *pb.SpendRequest) (*pb.SpendReply, error) {
	r, err := readSpend(m)
	if err != nil {
		return nil, err
	}
	if err := g.submit(ctx, r); err != nil {
		return nil, err
	}
	return r.spend, r.err
}

// submit queues a request and waits for its answer. A full queue is told at once: a caller
// that retries elsewhere is better off than one that waits for a store that hangs. A caller
// that leaves does not take its request out of a transaction: its answer is dropped, and a
// repeat finds what was recorded.
func (g *granter) submit(ctx context.Context, r *request) error {
	began := g.desk.now()
	w := &waiting{ctx: ctx, request: r, done: make(chan struct{})}
	select {
	case g.queue <- w:
		g.metrics.queue.Set(float64(len(g.queue)))
	default:
		g.metrics.refused.Inc()
		return fmt.Errorf("%w: %d requests are waiting already", ErrUnavailable, cap(g.queue))
	}
	select {
	case <-w.done:
		g.metrics.latency.Observe(seconds(g.desk.now().Sub(began)))
		return nil
	case <-ctx.Done():
		return outage("wait for a decision", ctx.Err())
	case <-g.stopped:
		return fmt.Errorf("%w: the replica is stopping", ErrUnavailable)
	}
}

// run commits until ctx ends. Then it finishes the transactions at hand; what still waits is told
// that the replica is stopping.
func (g *granter) run(ctx context.Context) {
	defer close(g.stopped)
	var committers sync.WaitGroup
	for range inFlight {
		committers.Go(func() { g.commit(ctx) })
	}
	committers.Wait()
}

func (g *granter) commit(ctx context.Context) {
	for ctx.Err() == nil {
		g.turn <- struct{}{} // whoever has it leaves when a request comes or ctx ends
		batch := g.next(ctx)
		<-g.turn
		if len(batch) == 0 {
			continue
		}
		g.metrics.queue.Set(float64(len(g.queue)))
		requests := make([]*request, len(batch))
		for i, w := range batch {
			requests[i] = w.request
		}
		// Neither a caller that leaves nor a stop of the replica tears a transaction.
		tx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.timeout)
		g.desk.answer(tx, requests)
		cancel()
		for _, w := range batch {
			close(w.done)
		}
		runtime.Gosched() // who was answered and comes right back goes into the next transaction already
	}
}

// next waits for a request and adds what waits behind it, up to the size of a batch. Requests
// whose callers have left before anything was done are dropped.
func (g *granter) next(ctx context.Context) []*waiting {
	first := g.leftover
	g.leftover = nil
	if first == nil {
		select {
		case <-ctx.Done():
			return nil
		case first = <-g.queue:
		}
	}
	var batch []*waiting
	items := 0
	for w := first; w != nil; w = g.more() {
		if w.ctx.Err() != nil {
			continue
		}
		if len(batch) > 0 && items+w.request.size() > g.batch {
			g.leftover = w
			break
		}
		batch = append(batch, w)
		items += w.request.size()
	}
	return batch
}

func (g *granter) more() *waiting {
	select {
	case w := <-g.queue:
		return w
	default:
		return nil
	}
}
