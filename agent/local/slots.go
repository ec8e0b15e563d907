package local

import (
	"slices"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// slots is a concurrency limit with a bounded queue, first come first served: nobody is served
// before who came earlier, so one that needs many slots holds up those behind it, for at most
// the queue's age.
type slots struct {
	limit  quota.Units
	bounds Queue
	inUse  quota.Units
	queue  []*place // first come first
	bytes  int64    // of those in it
}

// place is a caller, or its work.
type place struct {
	cost  quota.Units
	bytes int64
	came  time.Duration
	until time.Duration // in the queue, it is given up then
	state placeState
	began time.Duration // running
	why   Outcome       // refused: because of what
	wake  func()        // called once, when it leaves the queue otherwise than by itself
}

type placeState int8

const (
	queued placeState = iota
	running
	over // refused, given up or ended
)

// enter lets work begin, puts it in the queue or refuses it. patience is how long its caller
// waits; 0: not at all.
func (s *slots) enter(now time.Duration, p *place, patience time.Duration) {
	p.came, p.until = now, now+min(patience, s.bounds.Age, forever-now)
	s.serve(now)
	switch {
	case p.cost > s.limit:
		s.refuse(p, TooLarge)
	case len(s.queue) == 0 && p.cost <= s.limit-s.inUse:
		s.begin(now, p)
	case s.bounds.Count > 0 && int64(len(s.queue)) >= s.bounds.Count:
		s.refuse(p, QueueFull)
	case s.bounds.Bytes > 0 && p.bytes > s.bounds.Bytes-s.bytes:
		s.refuse(p, QueueBytes)
	case s.bounds.Count == 0 || p.until <= now:
		s.refuse(p, NoPermit)
	default:
		s.queue = append(s.queue, p)
		s.bytes += p.bytes
	}
}

func (s *slots) begin(now time.Duration, p *place) {
	p.state, p.began = running, now
	s.inUse += p.cost
}

func (s *slots) refuse(p *place, why Outcome) { p.state, p.why = over, why }

// leave ends work, or gives up a place in the queue. What has left before stays as it is.
func (s *slots) leave(now time.Duration, p *place) {
	switch p.state {
	case running:
		s.inUse -= p.cost
	case queued:
		if i := slices.Index(s.queue, p); i >= 0 {
			s.queue = slices.Delete(s.queue, i, i+1)
		}
		s.bytes -= p.bytes
		p.why = NoPermit
	case over:
		return
	}
	p.state = over
	s.serve(now)
}

// serve begins what the slots are free for, in order, and refuses whose time is over.
func (s *slots) serve(now time.Duration) {
	for len(s.queue) > 0 {
		p := s.queue[0]
		switch {
		case p.until <= now:
			s.refuse(p, NoPermit)
		case p.cost > s.limit: // it was cut meanwhile
			s.refuse(p, TooLarge)
		case p.cost <= s.limit-s.inUse:
			s.begin(now, p)
		default:
			return
		}
		s.queue[0] = nil
		s.queue = s.queue[1:]
		s.bytes -= p.bytes
		p.wake()
	}
	s.queue = nil
}

// left is how many slots are free.
func (s *slots) left() quota.Units { return max(s.limit-s.inUse, 0) }

func (s *slots) clone() *slots { return &slots{limit: s.limit, bounds: s.bounds} }

func (s *slots) reconfigure(now time.Duration, l *Limit) {
	s.limit, s.bounds = l.Capacity, l.Queue
	s.serve(now)
}

func (s *slots) rest(time.Duration) bool { return s.inUse == 0 && len(s.queue) == 0 }
