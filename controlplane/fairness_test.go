package controlplane

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

func TestR2_10SharesAreMaxMinFair(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		total  quota.Units
		claims []quota.Units
		want   []quota.Units
	}{
		{10, []quota.Units{2, 2, 4}, []quota.Units{2, 2, 4}},                      // all fit
		{10, []quota.Units{2, 3, 4, 5}, []quota.Units{2, 2, 2, 2}},                // the level is 2.67
		{10, []quota.Units{100, 1, 1}, []quota.Units{8, 1, 1}},                    // the small get all, the large the rest
		{160_000, []quota.Units{100_000, 50_000}, []quota.Units{100_000, 50_000}}, // F3
		{3, []quota.Units{1, 1, 1, 1, 1}, []quota.Units{0, 0, 0, 0, 0}},           // F1: the need decides
		{0, []quota.Units{5}, []quota.Units{0}},
	} {
		for i, want := range tc.want {
			if got := maxMin(tc.total, each(tc.claims), tc.claims[i]); got != want {
				t.Errorf("%d among %v: share %d is %d, want %d", tc.total, tc.claims, i, got, want)
			}
		}
	}
}

// A share is max-min fair if all shares fit, none is above its claim, and one below its claim
// is not smaller than any other (but for rounding).
func TestR2_10NobodyIsPoorerThanAnotherThanTheyWant(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		total := quota.Units(rapid.Int64Range(0, 10_000).Draw(t, "total"))
		raw := rapid.SliceOfN(rapid.Int64Range(0, 3_000), 1, 20).Draw(t, "claims")
		claims := make([]quota.Units, len(raw))
		shares := make([]quota.Units, len(raw))
		var sum, wanted quota.Units
		for i, c := range raw {
			claims[i] = quota.Units(c)
		}
		for i := range claims {
			shares[i] = maxMin(total, each(claims), claims[i])
			sum, wanted = sum+shares[i], wanted+claims[i]
		}
		if sum > total {
			t.Fatalf("%v of %d for %v", shares, total, claims)
		}
		if short := min(total, wanted) - sum; short >= quota.Units(len(claims)) {
			t.Fatalf("%d of %d are left over by %v for %v", short, total, shares, claims)
		}
		for i := range shares {
			if shares[i] > claims[i] {
				t.Fatalf("share %d is %d, claimed %d", i, shares[i], claims[i])
			}
			for j := range shares {
				if shares[i] < claims[i] && shares[j] > shares[i] {
					t.Fatalf("%v for %v: %d is short and %d has more", shares, claims, i, j)
				}
			}
		}
	})
}

// each is one claim an agent.
func each(units []quota.Units) []claim {
	claims := make([]claim, len(units))
	for i, n := range units {
		claims[i] = claim{n, 1}
	}
	return claims
}

// Agents with equal claims are one step of the filling, and get what they would get one by one.
func TestEqualClaimsMayBeCountedTogether(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var together, apart []claim
		for i := range rapid.IntRange(1, 8).Draw(t, "claims") {
			c := claim{quota.Units(rapid.Int64Range(0, 30).Draw(t, fmt.Sprint("units", i))), rapid.IntRange(1, 5).Draw(t, fmt.Sprint("agents", i))}
			together = append(together, c)
			for range c.agents {
				apart = append(apart, claim{c.units, 1})
			}
		}
		total := quota.Units(rapid.Int64Range(0, 600).Draw(t, "total"))
		r := ledger.Room{Exposure: total, Budget: quota.LimitOf(total + quota.Units(rapid.Int64Range(0, 600).Draw(t, "held")))}
		if rapid.Bool().Draw(t, "held claims") {
			together, apart = unmet(r, together), unmet(r, apart)
		}
		for _, c := range slices.Clone(together) {
			if got, want := maxMin(total, together, c.units), maxMin(total, apart, c.units); got != want {
				t.Fatalf("%d for %v: who claim %d get %d together and %d one by one", total, together, c.units, got, want)
			}
		}
	})
}

func TestR2_10RegionsHaveFloorsAndCeilings(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		budget  quota.Units
		regions []regionShare
		want    []quota.Units
	}{
		{"one region: B / N", 250, []regionShare{{24, 0, 250}}, []quota.Units{10}},
		{"no floors: B / N", 250, []regionShare{{12, 0, 250}, {12, 0, 250}}, []quota.Units{10, 10}},
		{"a floor of 40 % for two agents beside twenty", 1_000, []regionShare{{2, 400, 1_000}, {20, 0, 1_000}}, []quota.Units{200, 30}},
		{"a ceiling of 30 % on twenty agents", 1_000, []regionShare{{20, 0, 300}, {2, 0, 1_000}}, []quota.Units{15, 350}},
		{"floors that take all", 100, []regionShare{{1, 50, 100}, {1, 50, 100}, {3, 0, 100}}, []quota.Units{50, 50, 0}},
		{"a ceiling of 0", 100, []regionShare{{1, 0, 0}, {1, 0, 100}}, []quota.Units{0, 100}},
		{"huge", quota.MaxUnits, []regionShare{{1000, 0, quota.MaxUnits}, {1, 0, quota.MaxUnits}}, []quota.Units{quota.MaxUnits / 1001, quota.MaxUnits / 1001}},
	} {
		var out quota.Units
		for i, want := range tc.want {
			got := regionCap(tc.budget, tc.regions, i)
			if got != want {
				t.Errorf("%s: L of region %d is %d, want %d", tc.name, i, got, want)
			}
			out += got * quota.Units(tc.regions[i].agents)
		}
		if out > tc.budget {
			t.Errorf("%s: N x L is %d, above the budget of %d", tc.name, out, tc.budget)
		}
	}
}

func TestRegionCapsFitTheBudget(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		budget := quota.Units(rapid.Int64Range(0, 100_000).Draw(t, "budget"))
		n := rapid.IntRange(1, 6).Draw(t, "regions")
		regions := make([]regionShare, n)
		left := budget
		for i := range regions {
			floor := quota.Units(rapid.Int64Range(0, int64(left)).Draw(t, fmt.Sprint("floor", i)))
			left -= floor
			regions[i] = regionShare{
				agents: rapid.IntRange(1, 600).Draw(t, fmt.Sprint("agents", i)), floor: floor,
				ceiling: quota.Units(rapid.Int64Range(int64(floor), int64(budget)).Draw(t, fmt.Sprint("ceiling", i))),
			}
		}
		var out quota.Units
		for i, r := range regions {
			l := regionCap(budget, regions, i)
			if l*quota.Units(r.agents) > r.ceiling {
				t.Fatalf("region %d may hold %d, above its ceiling of %d", i, l*quota.Units(r.agents), r.ceiling)
			}
			if l < r.floor/quota.Units(r.agents) {
				t.Fatalf("region %d may hold %d an agent, below its floor of %d", i, l, r.floor)
			}
			out += l * quota.Units(r.agents)
		}
		if out > budget {
			t.Fatalf("N x L is %d, above %d", out, budget)
		}
	})
}
