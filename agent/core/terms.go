package core

import (
	"math"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// terms are what is known alike of many keys: their dimension and, once the ledger told of them, what
// it said that does not count the key's own units. They never change, and many keys share them.
type terms struct {
	dim  *Dimension
	told bool // the ledger told of the key; else all of it is as the catalogue says

	limit      int64        // -1: unlimited
	version    int64        // of policy
	reason     quota.Reason // why a cost of 1 would be denied; empty: it would not
	window     *pb.Window
	windowEnd  Instant       // by the estimate of ledger time; 0: not known, or endless
	length     time.Duration // of the window
	next       *pb.Window    // the one after it; nil: none, or not told
	nextEnd    Instant
	nextLength time.Duration
}

// plainTerms are those of a key that the ledger did not tell of.
func plainTerms(d *Dimension) *terms { return &terms{dim: d, limit: d.Limit, version: d.version} }

// view is what the ledger last said of a key.
type view struct {
	*terms
	headroom   int64
	leaseCap   int64
	generation int64
}

// view is nil before the ledger told of the key.
func (k *Key) view() *view {
	t := k.terms.Load()
	if !t.told {
		return nil
	}
	return &view{t, k.headroom.Load(), k.leaseCap, k.generation}
}

func (k *Key) dim() *Dimension { return k.terms.Load().dim }

// see takes in what the ledger said. Takers may see the numbers of one moment with the terms of the
// other for an instant: they tell callers, and decide nothing.
func (k *Key) see(v *view) {
	k.leaseCap, k.generation = v.leaseCap, v.generation
	k.headroom.Store(v.headroom)
	k.terms.Store(v.terms)
}

// follow makes a key one of another version of its dimension.
func (c *Core) follow(k *Key, d *Dimension) {
	t := *k.terms.Load()
	if !t.told {
		k.terms.Store(d.plain)
		return
	}
	t.dim = d
	k.terms.Store(c.shared.of(t))
}

// answer says what is known beside the verdict. What has no limit has no remaining either.
//
// The results are single values because a struct of more than four fields is not kept in registers,
// and to copy it soon after it was written costs as much as the rest of a take.
func (t *terms) answer(now Instant, inHand, headroom int64) (limit, remaining, version int64, reset Instant, window time.Duration) {
	remaining, window = max(0, inHand), t.length
	switch {
	case t.windowEnd > now:
		reset = t.windowEnd - now
	case t.nextEnd > now: // that one is over, and nobody had to be asked since
		reset, window = t.nextEnd-now, t.nextLength
	}
	if t.windowEnd == 0 || t.windowEnd > now {
		remaining += min(headroom, math.MaxInt64-remaining)
	}
	if t.limit < 0 {
		remaining = 0
	}
	return t.limit, remaining, t.version, reset, window
}

// shared finds what was said before in the same words, so that many keys keep one copy of it. To forget
// them costs nothing but that.
type shared struct {
	terms   map[terms]*terms
	windows map[windowID]*pb.Window
}

// mostShared bounds both.
const mostShared = 1024

func (s *shared) of(t terms) *terms {
	if is := s.terms[t]; is != nil {
		return is
	}
	if s.terms == nil || len(s.terms) >= mostShared {
		s.terms = map[terms]*terms{}
	}
	is := t
	s.terms[t] = &is
	return &is
}

func (s *shared) window(w *pb.Window) *pb.Window {
	if w == nil {
		return nil
	}
	id := windowOfWire(w)
	if is := s.windows[id]; is != nil {
		return is
	}
	if s.windows == nil || len(s.windows) >= mostShared {
		s.windows = map[windowID]*pb.Window{}
	}
	s.windows[id] = w
	return w
}
