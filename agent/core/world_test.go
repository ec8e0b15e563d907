package core_test

import (
	"testing"

	"github.com/quotalease/quotalease/sim/world"
)

// TestCoresInAHostileWorld runs cores against the real control plane and ledger for a few seeds
// of the simulator, which has the full set.
func TestCoresInAHostileWorld(t *testing.T) {
	t.Parallel()
	for seed := uint64(1001); seed <= 1004; seed++ {
		if r := world.Run(seed, world.DefaultEvents, nil); r.Fault != nil {
			t.Errorf("%v\nreplay: quotalease sim --seed %d", r.Fault, seed)
		}
	}
}
