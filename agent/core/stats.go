package core

import (
	"maps"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Stats is a core's state in numbers, for metrics.
type Stats struct {
	Keys     int
	Leased   map[string]int64 // units taken from leases, by dimension
	Exact    map[string]int64 // units spent through the exact lane
	Unleased map[string]int64 // units allowed without a lease
	Extended map[string]int64 // units spent from allowances for outages
	InHand   map[string]int64 // units that can be taken now, by dimension
	// Remaining is how much of their limits the keys in use have left, by dimension. What has no
	// limit, or none that is known here, is not in it.
	Remaining map[string]*Shares
	Faults    map[string]int64 // refused by the ledger, by code
	Waiting   int              // callers in wait
	Running   map[string]int64 // slots in use, by dimension
	Lapsed    map[string]int64 // slots that no caller gave back
}

// Stats sums up all keys.
func (c *Core) Stats(now Instant) Stats {
	s := Stats{
		Keys: len(c.keys), Leased: maps.Clone(c.retired), Exact: maps.Clone(c.exact), Unleased: maps.Clone(c.unleased), Extended: maps.Clone(c.extended), InHand: map[string]int64{}, Remaining: map[string]*Shares{}, Faults: maps.Clone(c.faults), Running: map[string]int64{}, Lapsed: maps.Clone(c.lapsed),
		Waiting: len(c.early) + len(c.spends) + len(c.spending),
	}
	for k := range c.each {
		dimension := quota.BaseDimension(k.Dimension())
		inHand := k.left(now)
		s.Leased[dimension] += k.total()
		s.InHand[dimension] += inHand
		s.Waiting += len(k.waiters)
		if k.slots != nil {
			inHand = k.slots.idle(now)
			s.InHand[k.Dimension()] += inHand
			s.Running[k.Dimension()] += k.slots.running()
		}
		if k.view() != nil {
			s.remains(dimension, k.answer(now, inHand))
		}
	}
	// What came back was counted before: a counter never falls.
	for dimension, n := range c.leased {
		s.Leased[dimension] = max(s.Leased[dimension], n)
	}
	c.leased = maps.Clone(s.Leased)
	return s
}

// shareSteps are the shares of a limit up to which keys are counted.
var shareSteps = [...]float64{0, 0.05, 0.1, 0.25, 0.5, 0.75, 1}

// Shares counts keys by the share of their limit that remains.
type Shares struct {
	Keys uint64
	Sum  float64
	upTo [len(shareSteps)]uint64
}

// UpTo is how many keys have no more than a share left.
func (r *Shares) UpTo() map[float64]uint64 {
	upTo := make(map[float64]uint64, len(shareSteps))
	for i, step := range shareSteps {
		upTo[step] = r.upTo[i]
	}
	return upTo
}

// remains counts a key of which t is known.
func (s *Stats) remains(dimension string, t Taken) {
	if t.Limit <= 0 {
		return
	}
	r := s.Remaining[dimension]
	if r == nil {
		r = &Shares{}
		s.Remaining[dimension] = r
	}
	share := min(float64(t.Remaining)/float64(t.Limit), 1)
	r.Keys++
	r.Sum += share
	for i, step := range shareSteps {
		if share <= step {
			r.upTo[i]++
		}
	}
}
