package policy

import (
	"errors"
	"fmt"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Explain says, in lines for people, which terms hold for a key in the window that contains
// at, which rule decided, and why the others did not. The error is that of Resolve, with
// names that look like the one asked for.
func (s *Snapshot) Explain(key quota.Key, at time.Time) ([]string, error) {
	dim, ok := s.Dimension(key.Dimension)
	if !ok {
		return nil, &UnknownDimensionError{Name: key.Dimension, snapshot: s}
	}
	window := dim.Period.WindowAt(at)
	terms, m, err := s.Resolve(key, window.Start)
	if errors.Is(err, ErrUnknownTenant) {
		return nil, fmt.Errorf("%w%s", err, didYouMean(s.nearTenants(key.Tenant)))
	}
	if err != nil {
		return nil, err
	}
	lines := []string{
		s.explainTenant(key.Tenant, m),
		fmt.Sprintf("dimension %s: %s quota, every %s, class %s, policy version %d",
			dim.Name, dim.Kind, dim.Period, dim.Class, s.Version),
		fmt.Sprintf("window: from %s until %s", forPeople(dim, window.Start), forPeople(dim, window.End)),
		fmt.Sprintf("limit: %s %s, decided by %s", formatLimit(terms.Limit), dim.Unit, m.decided(dim)),
	}
	for _, why := range m.undecided(dim) {
		lines = append(lines, "not used: "+why)
	}
	return append(lines, explainTerms(terms)...), nil
}

func (s *Snapshot) explainTenant(tenant string, m Match) string {
	line := fmt.Sprintf("tenant %s: ", segment(tenant))
	switch {
	case !m.Listed:
		line += "no entry, admitted because unlisted_tenants is allow"
	case m.PlanDefault || m.Plan == "":
		line += "listed without a plan"
	default:
		line += "listed with plan " + m.Plan
	}
	if m.PlanDefault {
		line += ", so it has the default plan " + m.Plan
	} else if m.Plan == "" {
		line += ", and there is no default plan"
	}
	if !m.Listed {
		line += didYouMean(s.nearTenants(tenant))
	}
	return line
}

// decided names the rule that gave the limit.
func (m Match) decided(dim *Dimension) string {
	switch m.Rule {
	case RuleOverride:
		return fmt.Sprintf("the override of %s until %s (%s)", m.Override.Owner, m.Override.Until, m.Override.Reason)
	case RulePlan:
		return "plan " + m.Plan
	}
	return "the default of " + dim.Name
}

// undecided says why each stronger or weaker rule did not give the limit.
func (m Match) undecided(dim *Dimension) []string {
	var why []string
	switch {
	case m.Override == nil:
		why = append(why, "an override: the tenant has none here")
	case m.Lapsed:
		why = append(why, fmt.Sprintf("the override of %s to %s: it expired at %s, before this window began",
			m.Override.Owner, formatLimit(m.Override.Limit), forPeople(dim, m.Override.Expires)))
	}
	switch {
	case m.Rule == RuleOverride && m.PlanKnown:
		why = append(why, "plan "+m.Plan+": an override is stronger")
	case m.Plan != "" && !m.PlanKnown:
		why = append(why, "plan "+m.Plan+": the dimension gives it no limit of its own")
	case m.Plan == "":
		why = append(why, "a plan: the tenant has none")
	}
	if m.Rule != RuleDefault {
		why = append(why, fmt.Sprintf("the default of %s: the %s is stronger", formatLimit(dim.Limit), m.Rule))
	}
	return why
}

func explainTerms(t Terms) []string {
	if t.Class == quota.Exact {
		return []string{"leases: none, every spend is recorded before it is allowed"}
	}
	size := "as demand needs"
	if t.LeaseMax > 0 {
		size = "at most " + formatUnits(t.LeaseMax)
	}
	lines := []string{
		fmt.Sprintf("overshoot budget: %s", formatLimit(t.Budget)),
		fmt.Sprintf("leases: ttl %s, grace %s, %s, next one asked at %s", short(t.TTL), short(t.Grace), size, t.LowWatermark),
	}
	outage := fmt.Sprintf("outage: %s after %s", t.Outage.Mode(), short(t.Outage.After))
	if t.Outage.Open {
		outage += ", for " + short(t.Outage.For)
	}
	cold := fmt.Sprintf("cold: wait %s, then %s", short(t.Cold.Wait), t.Cold.Then())
	if t.Cold.Debt {
		cold += fmt.Sprintf(" of %d", t.Cold.Units)
	}
	return append(lines, outage, cold)
}

// forPeople writes an instant as the dimension's zone shows it.
func forPeople(dim *Dimension, t time.Time) string {
	return dim.Period.Local(t).Format(time.RFC3339)
}
