package controlplane

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"github.com/quotalease/quotalease/ledger"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

const (
	watchBuffer = 1024 // notices that wait for one agent, and as many revocations of its leases
	watchSend   = 128  // notices in one message
	eventPage   = 1000
)

// hub tells the agents that listen what the ledger's journal says. A notice may be lost (a
// slow agent, a replica that restarts): the next Sync tells the same.
type hub struct {
	reader  ledger.Reader
	metrics *metrics
	policy  func() int64 // version in use

	told int64 // events up to here are done with; -1 before the first poll. Owned by poll

	mu     sync.Mutex // guards what follows
	subs   map[*subscriber]bool
	lines  []*pb.Notice // of every line in which somebody waits
	closed bool
}

// subscriber is an agent that listens. Revocations of its own leases have a place of their own:
// what becomes of the keys of all agents cannot push one out, and does not go before it.
type subscriber struct {
	agent   ledger.ID
	revoked chan *pb.Notice
	notices chan *pb.Notice
}

func newSubscriber(agent ledger.ID) *subscriber {
	return &subscriber{agent: agent, revoked: make(chan *pb.Notice, watchBuffer), notices: make(chan *pb.Notice, watchBuffer)}
}

func newHub(r ledger.Reader, m *metrics, version func() int64) *hub {
	return &hub{reader: r, metrics: m, policy: version, told: -1, subs: map[*subscriber]bool{}}
}

// watch sends notices to one agent until ctx ends, sending fails or the hub closes. The first
// message tells the policy version and where callers wait: an agent that was not listening for a
// while may be behind.
func (h *hub) watch(ctx context.Context, agent ledger.ID, send func(*pb.WatchReply) error) error {
	s := newSubscriber(agent)
	if !h.join(s) {
		return fmt.Errorf("%w: the replica is stopping", ErrUnavailable)
	}
	defer h.leave(s)
	if err := send(&pb.WatchReply{Notices: h.greeting()}); err != nil {
		return err
	}
	for {
		var n *pb.Notice
		open := false
		select {
		case <-ctx.Done():
			return ctx.Err()
		case n, open = <-s.revoked:
		case n, open = <-s.notices:
		}
		if !open {
			return fmt.Errorf("%w: the replica is stopping", ErrUnavailable)
		}
		if err := send(&pb.WatchReply{Notices: s.gather(n)}); err != nil {
			return err
		}
	}
}

// Listener is a Watch for a caller that owns time: it takes what there is and never waits.
type Listener struct {
	hub   *hub
	sub   *subscriber
	first []*pb.Notice
}

// Notices returns what was published since the last call, at most one message full.
func (l *Listener) Notices() []*pb.Notice {
	if first := l.first; first != nil {
		l.first = nil
		return first
	}
	return l.sub.gather()
}

// Close ends listening.
func (l *Listener) Close() { l.hub.leave(l.sub) }

// listen is watch without waiting.
func (h *hub) listen(agent ledger.ID) (*Listener, error) {
	l := &Listener{hub: h, sub: newSubscriber(agent)}
	if !h.join(l.sub) {
		return nil, fmt.Errorf("%w: the replica is stopping", ErrUnavailable)
	}
	l.first = h.greeting()
	return l, nil
}

// gather adds what else waits, revocations first.
func (s *subscriber) gather(notices ...*pb.Notice) []*pb.Notice {
	for _, from := range []chan *pb.Notice{s.revoked, s.notices} {
		for n := range pending(from) {
			if notices = append(notices, n); len(notices) == watchSend {
				return notices
			}
		}
	}
	return notices
}

// pending is what a channel holds right now.
func pending(from <-chan *pb.Notice) iter.Seq[*pb.Notice] {
	return func(yield func(*pb.Notice) bool) {
		for {
			select {
			case n, open := <-from:
				if !open || !yield(n) {
					return
				}
			default:
				return
			}
		}
	}
}

func (h *hub) join(s *subscriber) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.subs[s] = true
	h.metrics.watchers.Set(float64(len(h.subs)))
	return true
}

func (h *hub) leave(s *subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.subs, s)
	h.metrics.watchers.Set(float64(len(h.subs)))
}

// close ends every watch.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for s := range h.subs {
		close(s.notices)
		delete(h.subs, s)
	}
}

// publish offers a notice to all agents. It never waits.
func (h *hub) publish(n *pb.Notice) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subs {
		h.offer(s.notices, n)
	}
}

// revoke offers one agent the notice that a lease of its own was revoked.
func (h *hub) revoke(agent ledger.ID, n *pb.Notice) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subs {
		if s.agent == agent {
			h.offer(s.revoked, n)
		}
	}
}

func (h *hub) offer(to chan<- *pb.Notice, n *pb.Notice) {
	select {
	case to <- n:
	default:
		h.metrics.noticesLost.Inc()
	}
}

// poll reads the journal once and publishes what is new in it. What happened before the first
// poll is not told.
func (h *hub) poll(ctx context.Context) error {
	if h.told < 0 {
		last, err := lastEvent(ctx, h.reader)
		if err != nil {
			return outage("find the end of the journal", err)
		}
		h.told = last
	}
	for {
		events, err := h.reader.Events(ctx, h.told, eventPage)
		if err != nil {
			return outage("read the journal", err)
		}
		for _, e := range events {
			h.told = e.ID
			h.tell(e)
		}
		if len(events) < eventPage {
			return nil
		}
	}
}

// tell turns an event into a notice. Only the holder of a lease hears that it was revoked.
func (h *hub) tell(e ledger.Event) {
	n := &pb.Notice{Key: keyMessage(e.Account.Key), Window: windowMessage(e.Account.Window), Generation: e.Generation}
	switch e.Kind {
	case ledger.EventGrew, ledger.EventLimit, ledger.EventCredit:
		h.publish(n)
	case ledger.EventDrained:
		n.Drained = true
		h.publish(n)
	case ledger.EventWanted:
		n.Wanted = true
		h.publish(n)
	case ledger.EventRevoked:
		n.RevokedGrant = e.Grant.Bytes()
		h.revoke(e.Agent, n)
	}
}

// lastEvent finds the highest event id with few reads: whether there is an event after an id
// is asked of ever larger ids, then of the middle between the last two answers.
func lastEvent(ctx context.Context, r ledger.Reader) (int64, error) {
	later := func(id int64) (bool, error) {
		events, err := r.Events(ctx, id, 1)
		return len(events) > 0, err
	}
	low, high := int64(0), int64(1)
	for {
		more, err := later(high)
		if err != nil {
			return 0, err
		}
		if !more {
			break
		}
		low = high
		if high > 1<<61 {
			return high, nil
		}
		high *= 2
	}
	for low < high {
		middle := low + (high-low)/2
		more, err := later(middle)
		if err != nil {
			return 0, err
		}
		if more {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return high, nil
}
