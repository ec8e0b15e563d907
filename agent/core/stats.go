package core

// Stats is a core's state in numbers, for metrics.
type Stats struct {
	Keys    int
	Taken   map[string]int64 // units spent from leases, by dimension
	InHand  map[string]int64 // units that can be taken now, by dimension
	Faults  map[string]int64 // refused by the ledger, by code
	Waiting int              // callers in wait
}

// Stats sums up all keys.
func (c *Core) Stats(now Instant) Stats {
	s := Stats{
		Keys: len(c.keys), Taken: map[string]int64{}, InHand: map[string]int64{}, Faults: map[string]int64{},
		Waiting: len(c.early) + len(c.spends) + len(c.spending),
	}
	for dimension, n := range c.retired {
		s.Taken[dimension] += n
	}
	for _, k := range c.keys {
		s.Taken[k.ID.Dimension] += k.total()
		s.InHand[k.ID.Dimension] += k.left(now)
		s.Waiting += len(k.waiters)
	}
	for code, n := range c.faults {
		s.Faults[code] = n
	}
	return s
}
