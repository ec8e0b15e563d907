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
	Faults   map[string]int64 // refused by the ledger, by code
	Waiting  int              // callers in wait
	Running  map[string]int64 // slots in use, by dimension
	Lapsed   map[string]int64 // slots that no caller gave back
}

// Stats sums up all keys.
func (c *Core) Stats(now Instant) Stats {
	s := Stats{
		Keys: len(c.keys), Leased: maps.Clone(c.retired), Exact: maps.Clone(c.exact), Unleased: maps.Clone(c.unleased), Extended: maps.Clone(c.extended), InHand: map[string]int64{}, Faults: maps.Clone(c.faults), Running: map[string]int64{}, Lapsed: maps.Clone(c.lapsed),
		Waiting: len(c.early) + len(c.spends) + len(c.spending),
	}
	for _, k := range c.keys {
		dimension := quota.BaseDimension(k.ID.Dimension)
		s.Leased[dimension] += k.total()
		s.InHand[dimension] += k.left(now)
		s.Waiting += len(k.waiters)
		if k.slots != nil {
			s.InHand[k.ID.Dimension] += k.slots.idle(now)
			s.Running[k.ID.Dimension] += k.slots.running()
		}
	}
	// What came back was counted before: a counter never falls.
	for dimension, n := range c.leased {
		s.Leased[dimension] = max(s.Leased[dimension], n)
	}
	c.leased = maps.Clone(s.Leased)
	return s
}
