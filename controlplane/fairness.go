package controlplane

import (
	"cmp"
	"slices"

	"github.com/quotalease/quotalease/ledger/quota"
)

// claim is what so many agents claim, each.
type claim struct {
	units  quota.Units
	agents int
}

// maxMin divides total among claims by max-min fairness: nobody gets more than their claim, and
// what one does not want is divided among the others. It returns the share of those who claim
// mine, rounded down. Progressive filling: Bertsekas and Gallager, Data Networks (2nd ed., 1992),
// section 6.5.2. Equal claims need one step: if one is below the level, it does not sink by that.
// It sorts the claims.
func maxMin(total quota.Units, claims []claim, mine quota.Units) quota.Units {
	slices.SortFunc(claims, func(x, y claim) int { return cmp.Compare(x.units, y.units) })
	left := 0
	for _, c := range claims {
		left += c.agents
	}
	for _, c := range claims {
		level := total / quota.Units(left)
		if c.units >= level { // this claim and all larger ones get the level
			return min(mine, level)
		}
		if c.units == mine {
			return mine
		}
		total -= c.units * quota.Units(c.agents)
		left -= c.agents
	}
	return mine
}

// addUpClaims is the sum of all claims; the largest int64 if it is more.
func addUpClaims(claims []claim) quota.Units {
	var sum quota.Units
	for _, c := range claims {
		all, err := c.units.Mul(quota.Units(c.agents))
		if err == nil {
			sum, err = sum.Add(all)
		}
		if err != nil {
			return quota.MaxUnits
		}
	}
	return sum
}

// regionShare is a region's part of the exposure budget, in units.
type regionShare struct {
	agents         int
	floor, ceiling quota.Units
}

// regionCap is L for an agent of the region at index of: the budget is divided among regions in
// proportion to their agents, each held between its floor and its ceiling, and a region's part
// is divided among its agents. It is the level at which all parts together fit into the budget,
// so N times L never exceeds it. Without floors and ceilings it is floor(budget / N).
func regionCap(budget quota.Units, regions []regionShare, of int) quota.Units {
	fits := func(level quota.Units) bool {
		left := budget
		for _, r := range regions {
			part := r.at(level)
			if part > left {
				return false
			}
			left -= part
		}
		return true
	}
	low, high := quota.Units(0), budget // fits(low) holds: floors together fit
	for low < high {
		middle := low + (high-low)/2 + (high-low)%2
		if fits(middle) {
			low = middle
		} else {
			high = middle - 1
		}
	}
	r := regions[of]
	return r.at(low) / quota.Units(max(r.agents, 1))
}

// at is the region's part when each of its agents may hold level units.
func (r regionShare) at(level quota.Units) quota.Units {
	part, err := level.Mul(quota.Units(r.agents))
	if err != nil {
		part = quota.MaxUnits
	}
	return max(r.floor, min(part, r.ceiling))
}
