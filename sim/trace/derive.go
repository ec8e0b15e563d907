package trace

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Derived is a dimension of a trace with the limit to replay it under.
type Derived struct {
	Dimension     string
	Limit         quota.Units // half of BusiestUse, rounded down, at least 1
	BusiestTenant string      // the first by name of those who used the most
	BusiestUse    quota.Units
	Events        int
	Tenants       int
	Total         quota.Units // the use of all tenants
}

// Derive computes a limit for every dimension, such that the busiest tenant is stopped
// half-way if the whole trace falls in one window. The result is sorted by dimension. It
// is an error if the use of a dimension does not fit into int64.
func Derive(events []Event) ([]Derived, error) {
	perKey := make(map[quota.Key]quota.Units)
	perDimension := make(map[string]*Derived)
	for _, e := range events {
		d := perDimension[e.Dimension]
		if d == nil {
			d = &Derived{Dimension: e.Dimension}
			perDimension[e.Dimension] = d
		}
		d.Events++
		total, err := d.Total.Add(e.Cost)
		if err != nil {
			return nil, fmt.Errorf("sum use of dimension %s: %w", e.Dimension, err)
		}
		d.Total = total
		perKey[quota.Key{Tenant: e.Tenant, Dimension: e.Dimension}] += e.Cost // at most Total
	}
	for key, use := range perKey {
		d := perDimension[key.Dimension]
		d.Tenants++
		if d.Tenants == 1 || use > d.BusiestUse || (use == d.BusiestUse && key.Tenant < d.BusiestTenant) {
			d.BusiestTenant, d.BusiestUse = key.Tenant, use
		}
	}
	derived := make([]Derived, 0, len(perDimension))
	for d := range maps.Values(perDimension) {
		d.Limit = max(d.BusiestUse/2, 1)
		derived = append(derived, *d)
	}
	slices.SortFunc(derived, func(a, b Derived) int { return cmp.Compare(a.Dimension, b.Dimension) })
	return derived, nil
}
