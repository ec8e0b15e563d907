package controlplane

import (
	"iter"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

func TestR2_4LeaseCapIsBudgetOverAgents(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		budget quota.Limit
		agents int
		want   quota.Limit
	}{
		{quota.LimitOf(250), 24, quota.LimitOf(10)},
		{quota.LimitOf(250), 40, quota.LimitOf(6)},
		{quota.LimitOf(1_200), 24, quota.LimitOf(50)},
		{quota.LimitOf(3), 5, quota.LimitOf(0)},
		{quota.LimitOf(7), 0, quota.LimitOf(7)},
		{quota.LimitOf(0), 3, quota.LimitOf(0)},
		{quota.NoLimit, 3, quota.NoLimit},
	} {
		if got := LeaseCap(tc.budget, tc.agents); got != tc.want {
			t.Errorf("L of %+v over %d agents: %+v, want %+v", tc.budget, tc.agents, got, tc.want)
		}
	}
}

func TestLeaseSizeIsTheLeastOfItsLimits(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		max  quota.Units
		room ledger.Room
		want quota.Units
	}{
		{"what is wanted", 0, ledger.Room{Want: 4, Need: 1, Headroom: 250, Exposure: 250, Agents: 24, Budget: quota.LimitOf(250)}, 4},
		{"L", 0, ledger.Room{Want: 100, Need: 1, Headroom: 250, Exposure: 250, Agents: 24, Budget: quota.LimitOf(250)}, 10},
		{"L less what is held", 0, ledger.Room{Want: 100, Need: 1, Headroom: 250, Exposure: 250, Holds: 7, Agents: 24, Budget: quota.LimitOf(250)}, 3},
		{"nothing above L", 0, ledger.Room{Want: 100, Need: 1, Headroom: 250, Exposure: 250, Holds: 17, Agents: 24, Budget: quota.LimitOf(250)}, 0},
		{"lease max", 5, ledger.Room{Want: 100, Need: 1, Headroom: 250, Exposure: 250, Agents: 24, Budget: quota.LimitOf(250)}, 5},
		{"the last of the budget, in full", 0, ledger.Room{Want: 10, Need: 1, Headroom: 10, Exposure: 10, Agents: 24, Budget: quota.LimitOf(250)}, 10},
		{"the end of the quota, by what others want", 0, ledger.Room{Want: 10, Need: 1, Headroom: 24, Exposure: 200, Agents: 4, Budget: quota.LimitOf(40),
			Others: others([]ledger.Demand{{Units: 2}, {Units: 300}, {Units: 0}})}, 8}, // 2 are enough for one, 6 are the claim of the unknown: 16 for the other two
		{"the end of the quota is shared", 0, ledger.Room{Want: 10, Need: 1, Headroom: 48, Exposure: 200, Agents: 24, Budget: quota.LimitOf(250), Others: others(make([]ledger.Demand, 23))}, 2},
		{"the end of the quota, as needed", 0, ledger.Room{Want: 10, Need: 3, Headroom: 48, Exposure: 200, Agents: 24, Budget: quota.LimitOf(250), Others: others(make([]ledger.Demand, 23))}, 3},
		{"what others hold is no claim", 0, ledger.Room{Want: 20, Need: 1, Headroom: 60, Exposure: 110, Holds: 0, Agents: 5, Budget: quota.LimitOf(190),
			Others: others([]ledger.Demand{{Units: 20}, {Units: 20}, {Units: 20}, {Units: 20}})}, 20}, // all they want is out
		{"never more than the headroom", 0, ledger.Room{Want: 10, Need: 9, Headroom: 2, Exposure: 200, Agents: 1, Budget: quota.LimitOf(250)}, 2},
		{"no budget", 0, ledger.Room{Want: 1 << 40, Need: 1, Headroom: quota.MaxUnits, Exposure: quota.MaxUnits, Agents: 3, Budget: quota.NoLimit}, 1 << 40},
	} {
		if got := SizeLease(policy.Lease{Max: tc.max})(tc.room); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestLeaseSizeNeverExceedsItsRoom(t *testing.T) {
	t.Parallel()
	units := rapid.OneOf(rapid.Int64Range(0, 100), rapid.Int64Range(0, int64(quota.MaxUnits)))
	rapid.Check(t, func(t *rapid.T) {
		want := quota.Units(rapid.OneOf(rapid.Int64Range(1, 100), rapid.Int64Range(1, int64(quota.MaxUnits))).Draw(t, "want"))
		r := ledger.Room{
			Want: want, Need: quota.Units(rapid.Int64Range(1, int64(want)).Draw(t, "need")),
			Headroom: quota.Units(units.Draw(t, "headroom")), Exposure: quota.Units(units.Draw(t, "exposure")),
			Holds: quota.Units(units.Draw(t, "holds")), Agents: rapid.IntRange(1, 1000).Draw(t, "agents"),
			Budget: quota.Limit{Units: quota.Units(units.Draw(t, "budget"))},
		}
		got := SizeLease(policy.Lease{Max: quota.Units(units.Draw(t, "max"))})(r)
		if got < 0 || got > r.Want || got > r.Headroom || got > r.Exposure || (got > 0 && got > r.Budget.Units/quota.Units(r.Agents)-r.Holds) {
			t.Fatalf("%d units for %+v", got, r)
		}
	})
}

// What others still want is a matter of whole units, in whatever order they are listed.
func TestClaimsAreLoweredExactly(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		held         quota.Units
		claims, want []quota.Units
	}{
		{12, []quota.Units{7, 7}, []quota.Units{1, 1}},
		{4, []quota.Units{9, 3}, []quota.Units{6, 2}},
		{5, []quota.Units{9, 3}, []quota.Units{6, 2}}, // 5.25 and 1.75
		{0, []quota.Units{1<<53 + 1, 2}, []quota.Units{1<<53 + 1, 2}},
		{1, []quota.Units{quota.MaxUnits - 1, 1}, []quota.Units{quota.MaxUnits - 1, 1}}, // a little less, rounded up,
		{20, []quota.Units{9, 3}, []quota.Units{0, 0}},
	} {
		r := ledger.Room{Exposure: quota.MaxUnits - tc.held, Budget: quota.LimitOf(quota.MaxUnits)}
		if got := unmet(r, each(tc.claims)); !slices.Equal(got, each(tc.want)) {
			t.Errorf("%v, of which %d are held: %v, want %v", tc.claims, tc.held, got, tc.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SliceOfN(rapid.OneOf(rapid.Int64Range(0, 100), rapid.Int64Range(0, int64(quota.MaxUnits))), 1, 40).Draw(t, "claims")
		claims := make([]quota.Units, len(raw))
		for i, c := range raw {
			claims[i] = quota.Units(c)
		}
		held := quota.Units(rapid.Int64Range(0, int64(quota.MaxUnits)).Draw(t, "held"))
		r := ledger.Room{Exposure: quota.MaxUnits - held, Budget: quota.LimitOf(quota.MaxUnits)}
		got, backwards := unmet(r, each(claims)), each(claims)
		slices.Reverse(backwards)
		backwards = unmet(r, backwards)
		slices.Reverse(backwards)
		if !slices.Equal(got, backwards) {
			t.Fatalf("in order %v, backwards %v", got, backwards)
		}
		for i := range got {
			if got[i].units < 0 || got[i].units > claims[i] {
				t.Fatalf("%v is left of a claim of %d", got[i], claims[i])
			}
		}
	})
}

func TestKeyCapIsZeroForTheExactLane(t *testing.T) {
	t.Parallel()
	bounded := ledger.Terms{Class: quota.Bounded, Limit: quota.LimitOf(50_000), Budget: quota.LimitOf(250)}
	exact := bounded
	exact.Class = quota.Exact
	free := ledger.Terms{Class: quota.BestEffort, Limit: quota.NoLimit, Budget: quota.NoLimit}
	for _, tc := range []struct {
		name   string
		terms  ledger.Terms
		agents int
		max    quota.Units
		want   quota.Units
	}{
		{"bounded", bounded, 24, 0, 10},
		{"bounded with a lease max", bounded, 24, 4, 4},
		{"more agents than budget", bounded, 251, 0, 0},
		{"exact", exact, 1, 0, 0},
		{"unlimited", free, 3, 0, quota.MaxUnits},
		{"unlimited with a lease max", free, 3, 9, 9},
	} {
		if got := keyCap(tc.terms, LeaseCap(tc.terms.Budget, tc.agents), tc.max); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

func others(list []ledger.Demand) iter.Seq2[ledger.Demand, int] {
	all := map[ledger.Demand]int{}
	for _, d := range list {
		all[d]++
	}
	return maps.All(all)
}
