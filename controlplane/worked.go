package controlplane

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// worked says how each number of a bound comes about.
func (t BoundTerms) worked(b *pb.Bound) []string {
	lines := t.workedMost(b)
	if b.LeaseCap > 0 && !t.Budget.Unlimited {
		lines = append(lines, t.workedCap(b))
	}
	for _, r := range b.Regions {
		name := r.Region
		if name == "" {
			name = "-"
		}
		line := fmt.Sprintf("region %s: %s to %s of B", name, Grouped(r.Floor), Grouped(r.Ceiling))
		if r.Agents > 0 {
			line += fmt.Sprintf(", %s x %s = %s unspent at most", countOf(int64(r.Agents), "agent"), Grouped(r.LeaseCap),
				Grouped(mulDiv(r.LeaseCap, int64(r.Agents), 1)))
		}
		lines = append(lines, line)
	}
	if peak, ok := t.peak(); ok && b.LeaseCap > 0 && b.LeaseCap < int64(quota.MaxUnits) {
		lines = append(lines, fmt.Sprintf("a lease lasts L x N / peak = %s x %s / (%s in %s), fetches are peak / L = (%s in %s) / %s",
			Grouped(b.LeaseCap), Grouped(int64(t.Agents)), Grouped(int64(peak.units)), Lasting(peak.per),
			Grouped(int64(peak.units)), Lasting(peak.per), Grouped(b.LeaseCap)))
	}
	if t.Class != quota.Exact {
		lines = append(lines, t.workedCut())
	}
	if t.Kind == quota.Concurrency && t.Class != quota.BestEffort {
		lines = append(lines, fmt.Sprintf("slots of a lost agent stay charged for ttl + grace + max_hold = %s + %s + %s at most",
			Lasting(t.Longest), Lasting(t.Grace), Lasting(t.MaxHold)))
	}
	return lines
}

// workedMost says where the limit with what the class adds comes from.
func (t BoundTerms) workedMost(b *pb.Bound) []string {
	q := t.inForce()
	if q.Unlimited {
		return nil
	}
	var lines []string
	if t.Credit > 0 {
		lines = append(lines, fmt.Sprintf("Q = %s + a credit of %s in this window = %s",
			Grouped(int64(t.Limit.Units)), Grouped(int64(t.Credit)), Grouped(b.Limit)))
	}
	sum, terms := int64(q.Units), "Q = "+Grouped(int64(q.Units))
	if t.adds() && !t.boundless() {
		sum = b.Most
		terms = fmt.Sprintf("Q + B = %s + %s = %s", Grouped(int64(q.Units)), Grouped(int64(t.Budget.Units)), Grouped(sum))
	}
	switch {
	case t.Kind == quota.RateLimit:
		if t.Rate.Per > 0 {
			lines = append(lines, t.workedIntervals(b))
		}
	case t.boundless():
		lines = append(lines, "what runs on at lost agents is given back at once and not counted: there is no number for it")
	case t.Kind == quota.Concurrency:
		lines = append(lines, fmt.Sprintf("at once = %s, while no run is longer than max_hold = %s", terms, Lasting(t.MaxHold)))
	default:
		lines = append(lines, "most = "+terms)
	}
	if t.Outage.Extend && !t.boundless() {
		lines = append(lines, fmt.Sprintf("with outage mode extend = %s + E = %s + %s = %s", symbols(t), Grouped(sum),
			Grouped(int64(t.Outage.Budget)), Grouped(addUp(quota.Units(sum), t.Outage.Budget))))
	}
	return lines
}

func symbols(t BoundTerms) string {
	if t.adds() {
		return "Q + B"
	}
	return "Q"
}

// shownIntervals are the t for which the interval bound of a rate is worked out.
var shownIntervals = []time.Duration{time.Second, time.Minute, time.Hour}

// workedIntervals is the interval bound of a rate in numbers.
func (t BoundTerms) workedIntervals(b *pb.Bound) string {
	line := "burst + rate x t + B"
	for i, d := range shownIntervals {
		back := mulDiv(int64(t.Rate.Units), int64(d), int64(t.Rate.Per))
		separator := "; "
		if i == 0 {
			separator = ": "
		}
		line += fmt.Sprintf("%sin %s %s + %s + %s = %s", separator, Lasting(d), Grouped(b.Limit), Grouped(back),
			Grouped(int64(t.Budget.Units)), Grouped(addUp(quota.Units(b.Most), quota.Units(back))))
	}
	return line
}

// workedCap says where L comes from.
func (t BoundTerms) workedCap(b *pb.Bound) string {
	whole := int64(LeaseCap(t.Budget, t.Agents).Units)
	line := fmt.Sprintf("L = floor(B / N) = floor(%s / %s) = %s", Grouped(int64(t.Budget.Units)), Grouped(int64(t.Agents)), Grouped(whole))
	if b.LeaseCap < whole {
		line += fmt.Sprintf(", at most lease.max = %s", Grouped(b.LeaseCap))
	}
	if len(b.Regions) > 0 {
		line += " on average"
	}
	if t.Kind == quota.Concurrency {
		line += " idle slots beside those in use"
	}
	return line
}

// workedCut says what a lower limit or a removed tenant cannot take back at once.
func (t BoundTerms) workedCut() string {
	most := "what is out"
	if !t.Budget.Unlimited {
		most += fmt.Sprintf(", at most B = %s,", Grouped(int64(t.Budget.Units)))
	}
	if t.Kind == quota.Concurrency {
		return fmt.Sprintf("after a cut %s may be put to use for one ttl of %s at most; work that runs goes on", most, Lasting(t.Longest))
	}
	return fmt.Sprintf("after a cut %s stays usable for one ttl of %s at most", most, Lasting(t.Longest))
}

// rateText is the rate as policy files write it; nothing where there is none.
func (t BoundTerms) rateText() string {
	if t.Kind != quota.RateLimit || t.Limit.Unlimited {
		return ""
	}
	return policy.Terms{Rate: t.Rate}.RateText()
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
