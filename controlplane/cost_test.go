package controlplane

import "testing"

// What an ask costs does not grow with the agents of its key, nor with the requests of its
// transaction: neither does what is allocated for it, the ledger in memory included.
func TestAnAskCostsTheSameAmongManyAgents(t *testing.T) {
	for _, dimension := range []string{"free", "scarce"} {
		each := func(requests, agents int) float64 {
			c := newCrowd(t, agents, 1, dimension)
			for range 4 * agents / requests { // all hold leases, and lists have grown
				c.turn(requests)
			}
			return testing.AllocsPerRun(4, func() { c.turn(requests) }) / float64(requests)
		}
		few := each(64, 64)
		for _, tc := range []struct{ requests, agents int }{{64, 640}, {256, 640}} {
			if got := each(tc.requests, tc.agents); got > few+1 {
				t.Errorf("%s: an ask of %d among %d agents takes %.2f allocations, one of 64 among 64 %.2f",
					dimension, tc.requests, tc.agents, got, few)
			}
		}
		t.Logf("%s: %.2f allocations an ask", dimension, few)
	}
}
