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
		return nil, s.Undefined(key.Dimension)
	}
	terms, m, err := s.Resolve(key, dim.Moment(at))
	if errors.Is(err, ErrUnknownTenant) {
		return nil, fmt.Errorf("%w%s", err, didYouMean(s.nearTenants(key.Tenant)))
	}
	if err != nil {
		return nil, err
	}
	lines := []string{
		s.explainTenant(key.Tenant, m),
		fmt.Sprintf("dimension %s: %s, class %s, policy version %d", dim.Name, dim.counts(), dim.Class, s.Version),
	}
	if dim.Kind == quota.Period {
		window := dim.Period.WindowAt(at)
		lines = append(lines, fmt.Sprintf("window: from %s until %s", forPeople(dim, window.Start), forPeople(dim, window.End)))
	}
	lines = append(lines, fmt.Sprintf("limit: %s %s, decided by %s", terms.LimitText(), dim.Unit, m.decided(dim)))
	for _, why := range append(s.shadowed(m, dim, key.Tenant), m.undecided(dim)...) {
		lines = append(lines, "not used: "+why)
	}
	lines = append(lines, dim.explainLeases(terms, m.Plan, at)...)
	lines = append(lines, s.explainLocal(dim.Local)...)
	lines = append(lines, terms.explainTrouble()...)
	if dim.Kind == quota.Period {
		lines = append(lines, fmt.Sprintf("statement: final once nothing is open, or %s after the window", short(dim.FinalAfter)))
	}
	return append(append(lines, s.explainOperations(dim)...), s.explainDescriptors(dim.Name)...), nil
}

// counts says which question the dimension answers.
func (d *Dimension) counts() string {
	switch d.Kind {
	case quota.RateLimit:
		return "rate limit"
	case quota.Concurrency:
		return "concurrency limit, a run takes at most " + short(d.MaxHold)
	}
	return fmt.Sprintf("%s quota, every %s", d.Kind, d.Period)
}

// LimitText is the limit as policy files write it, with the burst of a rate.
func (t Terms) LimitText() string { return limitText(t.Limit, t.Rate) }

// RateText is the rate as policy files write it, or nothing where there is none.
func (t Terms) RateText() string {
	if t.Rate == (quota.Rate{}) {
		return ""
	}
	return formatRate(t.Rate)
}

func limitText(limit quota.Limit, rate quota.Rate) string {
	if rate == (quota.Rate{}) {
		return formatLimit(limit)
	}
	return formatRate(rate) + " with burst " + formatUnits(limit.Units)
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
	case RuleRequest:
		return "the request, which brought it along"
	case RuleOverride:
		return fmt.Sprintf("the override of %s until %s (%s)%s", m.Override.Owner, m.Override.Until, m.Override.Reason, m.Override.byCommand())
	case RulePlan:
		return "plan " + m.Plan
	}
	return "the default of " + dim.Name
}

// byCommand says who made an override, if that was by command.
func (o *Override) byCommand() string {
	if o.Command == nil {
		return ""
	}
	return ", made by command by " + o.Command.Who
}

// shadowed is the tenant's other override, which one made by command takes the place of, or
// which takes the place of one made by command that has expired.
func (s *Snapshot) shadowed(m Match, dim *Dimension, tenant string) []string {
	rules := s.dimensions[quota.BaseDimension(dim.Name)]
	file, command := rules.overrides[tenant], rules.commands[tenant]
	switch {
	case file == nil || command == nil:
	case m.Override == command:
		return []string{fmt.Sprintf("the override of %s to %s in the policy files: one made by command takes its place",
			file.Owner, limitText(file.Limit, file.Rate))}
	case m.Override == file:
		return []string{expired(dim, command)}
	}
	return nil
}

func expired(dim *Dimension, o *Override) string {
	before := "before now"
	if dim.Kind == quota.Period {
		before = "before this window began"
	}
	return fmt.Sprintf("the override of %s to %s%s: it expired at %s, %s", o.Owner, limitText(o.Limit, o.Rate), o.byCommand(),
		forPeople(dim, o.Expires), before)
}

// undecided says why each stronger or weaker rule did not give the limit.
func (m Match) undecided(dim *Dimension) []string {
	var why []string
	switch {
	case m.Rule == RuleRequest:
		why = append(why, "an override: the limit that the request brought along is stronger")
	case m.Override == nil:
		why = append(why, "an override: the tenant has none here")
	case m.Lapsed:
		why = append(why, expired(dim, m.Override))
	}
	switch {
	case m.PlanKnown && (m.Rule == RuleOverride || m.Rule == RuleRequest):
		why = append(why, "plan "+m.Plan+": an override is stronger")
	case m.Plan != "" && !m.PlanKnown:
		why = append(why, "plan "+m.Plan+": the dimension gives it no limit of its own")
	case m.Plan == "":
		why = append(why, "a plan: the tenant has none")
	}
	if m.Rule != RuleDefault {
		why = append(why, fmt.Sprintf("the default of %s: the %s is stronger", limitText(dim.Limit, dim.Rate), m.Rule))
	}
	return why
}

// explainLeases says how leases behave for a plan's tenants at a time of day.
func (d *Dimension) explainLeases(t Terms, plan string, at time.Time) []string {
	if t.Class == quota.Exact {
		return []string{"leases: none, every spend is recorded before it is allowed"}
	}
	lease := d.LeaseAt(plan, at)
	size := "as demand needs"
	if lease.Max > 0 {
		size = "at most " + formatUnits(lease.Max)
	}
	line := fmt.Sprintf("leases: ttl %s, grace %s, %s, next one asked at %s", short(lease.TTL), short(lease.Grace), size, lease.LowWatermark)
	if s := d.slotAt(at); s != nil {
		line += ", as scheduled for " + s.String()
	}
	lines := []string{fmt.Sprintf("overshoot budget: %s", formatLimit(t.Budget)), line}
	for _, r := range lease.Regions {
		lines = append(lines, fmt.Sprintf("region %s: %s to %s of the budget", r.Name, r.Floor, r.Ceiling))
	}
	return lines
}

// explainTrouble says what happens without the control plane, and without a lease.
func (t Terms) explainTrouble() []string {
	outage := "outage: " + t.Outage.describe()
	if t.Class == quota.Exact {
		return []string{outage}
	}
	cold := fmt.Sprintf("cold: wait %s, then %s", short(t.Cold.Wait), t.Cold.Then())
	if t.Cold.Debt {
		cold += fmt.Sprintf(" of %d", t.Cold.Units)
	}
	return []string{outage, cold}
}

func (o Outage) describe() string {
	s := fmt.Sprintf("%s after %s", o.Mode(), short(o.After))
	switch {
	case o.Open:
		s += ", for " + short(o.For)
	case o.Extend:
		s += fmt.Sprintf(", at %s of all agents together, at most %d a window", formatRate(o.Rate), o.Budget)
	}
	return s
}

// explainOperations names what draws on the dimension besides takes that name it.
func (s *Snapshot) explainOperations(dim *Dimension) []string {
	var lines []string
	for _, op := range s.doc.Operations {
		for _, t := range op.Takes {
			if t.Dimension != dim.Name {
				continue
			}
			line := fmt.Sprintf("operation %s: takes %d", op.Name, t.Cost)
			if op.Outage != nil {
				line += ", in an outage " + op.Outage.describe()
			}
			if len(op.Local) > 0 {
				line += ", under the local limits " + listed(op.Local)
			}
			if d := op.Defer; d != nil {
				line += fmt.Sprintf(", denied callers may wait up to %s, %d at a time", short(d.MaxAge), d.MaxTickets)
			}
			lines = append(lines, line)
		}
	}
	return lines
}

// forPeople writes an instant as the dimension's zone shows it.
func forPeople(dim *Dimension, t time.Time) string {
	return dim.Period.Local(t).Format(time.RFC3339)
}
