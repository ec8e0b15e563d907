package controlplane

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// windowBound is the most that an account's window can end with under its present limit,
// beyond use without a lease that nobody has reported yet; -1 where nothing limits it.
//
// What was used is within S + O + H + U + E, where what was spent of E is in S. Reports, closes
// and returns never raise that sum, and no grant or spend happens that would lift S + O + H above
// the limit; beside it U is what it is, or for bounded and best_effort may still grow to what
// their budget leaves, and E to the pot.
//
// Of slots it is the most that can be in use at once, while no run is longer than max_hold. What
// best_effort gives back of slots is outside of the budget (3.9), so it has no number. Of a rate it
// is the constant part of the interval bound: burst + B, to which rate x t comes.
func windowBound(a ledger.Account) int64 {
	q := a.InForce()
	switch {
	case q.Unlimited:
		return unlimited
	case a.Kind == quota.RateLimit && a.Budget.Unlimited:
		return unlimited
	case a.Kind == quota.RateLimit: // a budget that was cut leaves what is out
		return addUp(q.Units, max(a.Budget.Units, a.Outstanding))
	case a.Kind == quota.Concurrency && a.Class == quota.BestEffort:
		return unlimited
	}
	given := a.Uncertain
	if a.Class == quota.Bounded || a.Class == quota.BestEffort {
		if a.Budget.Unlimited {
			return unlimited
		}
		given = max(given, a.Budget.Units)
	}
	pot := max(a.Pot, a.Emergency)
	return max(addUp(a.Bound(), pot-a.Emergency), addUp(q.Units, given, pot))
}

// usageMessage is an account as it is at now: the bucket of a rate fills by itself.
func usageMessage(a ledger.Account, now time.Time) *pb.Usage {
	a = a.Refilled(now)
	m := &pb.Usage{
		Key: keyMessage(a.ID.Key), Window: windowMessage(a.ID.Window), Class: a.Class.String(),
		Limit: limitNumber(a.InForce()), Settled: int64(a.Settled()), Outstanding: int64(a.Outstanding),
		Held: int64(a.Held), Uncertain: int64(a.Uncertain), Headroom: int64(a.Headroom()),
		Budget: limitNumber(a.Budget), Committed: int64(a.Committed), Overshoot: int64(a.Overshoot),
		OverLimit: int64(a.OverLimit()), Generation: a.Generation, PolicyVersion: a.PolicyVersion,
		Granted: int64(a.Granted), ConsumedReported: int64(a.Leased), Expired: int64(a.Expired),
		Returned: int64(a.Returned), Revoked: int64(a.Revoked), Spent: int64(a.Spent),
		Unleased: int64(a.Unleased), Bound: windowBound(a), Credit: int64(a.Credit), Released: int64(a.Released),
		Kind: a.Kind.String(), Emergency: int64(a.Emergency), Extended: int64(a.Extended), Pot: int64(a.Pot),
	}
	if a.Kind == quota.RateLimit && !a.Limit.Unlimited {
		m.Rate = policy.Terms{Rate: a.Rate}.RateText()
	}
	return m
}

// ListUsage lists accounts: those of current windows unless all are asked for.
func (c *ControlPlane) ListUsage(ctx context.Context, m *pb.ListUsageRequest) (*pb.ListUsageReply, error) {
	limit, err := limitOf(m.GetLimit(), adminPage)
	if err != nil {
		return nil, err
	}
	q := ledger.AccountQuery{Tenant: m.GetTenant(), Dimension: m.GetDimension()}
	if !m.GetAllWindows() {
		q.At = c.desk.Now()
	}
	reply := &pb.ListUsageReply{}
	if m.Over != nil {
		reply.Usage, err = c.fullest(ctx, q, policy.Percent(m.GetOver()), limit)
		return reply, err
	}
	now := c.desk.Now()
	err = c.accounts(ctx, q, func(a ledger.Account) bool {
		reply.Usage = append(reply.Usage, usageMessage(a, now))
		return len(reply.Usage) < limit
	})
	return reply, err
}

// accounts reads what a query finds, page by page, until each says enough. Accounts in which
// nothing was ever decided are left out.
func (c *ControlPlane) accounts(ctx context.Context, q ledger.AccountQuery, each func(ledger.Account) bool) error {
	q.Limit = adminPage
	for {
		found, err := c.cfg.Reader.Accounts(ctx, q)
		if err != nil {
			return outage("list accounts", err)
		}
		for _, a := range found {
			if a.Kind != 0 && !each(a) {
				return nil
			}
		}
		if len(found) < adminPage {
			return nil
		}
		q.After = found[len(found)-1].ID
	}
}

// ListTenants lists the tenants that policy names and those that used something in a current
// window, by name.
func (c *ControlPlane) ListTenants(ctx context.Context, m *pb.ListTenantsRequest) (*pb.ListTenantsReply, error) {
	limit, err := limitOf(m.GetLimit(), adminPage)
	if err != nil {
		return nil, err
	}
	s, err := c.policyInUse(ctx)
	if err != nil {
		return nil, err
	}
	usage, now := map[string][]*pb.Usage{}, c.desk.Now()
	err = c.accounts(ctx, ledger.AccountQuery{Tenant: m.GetTenant(), At: now}, func(a ledger.Account) bool {
		tenant := a.ID.Key.Tenant
		if _, seen := usage[tenant]; !seen && len(usage) == limit {
			return false // accounts come by tenant: this and all later ones are beyond the limit
		}
		usage[tenant] = append(usage[tenant], usageMessage(a, now))
		return true
	})
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for name := range usage {
		names[name] = true
	}
	for _, t := range s.Document().Tenants {
		if m.GetTenant() == "" || t.Name == m.GetTenant() {
			names[t.Name] = true
		}
	}
	reply := &pb.ListTenantsReply{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if len(reply.Tenants) == limit {
			break
		}
		reply.Tenants = append(reply.Tenants, tenantMessage(s, name, usage[name]))
	}
	if m.GetTenant() != "" && len(reply.Tenants) == 1 {
		reply.Tenants[0].Limits = limitsOf(s, m.GetTenant(), now)
	}
	return reply, nil
}

func tenantMessage(s *policy.Snapshot, name string, usage []*pb.Usage) *pb.Tenant {
	t := &pb.Tenant{Tenant: name, Usage: usage, Plan: s.Document().DefaultPlan}
	at, listed := slices.BinarySearchFunc(s.Document().Tenants, name, func(x policy.Tenant, n string) int {
		return strings.Compare(x.Name, n)
	})
	if listed {
		t.Listed = true
		if plan := s.Document().Tenants[at].Plan; plan != "" {
			t.Plan = plan
		}
	} else if s.Document().DenyUnlisted {
		t.Plan = ""
	}
	return t
}

// limitsOf lists what policy gives a tenant at now in every dimension; nothing to one whom it
// does not admit.
func limitsOf(s *policy.Snapshot, tenant string, now time.Time) []*pb.LimitInForce {
	var all []*pb.LimitInForce
	for _, dim := range s.Dimensions() {
		terms, match, err := s.Resolve(quota.Key{Tenant: tenant, Dimension: dim.Name}, dim.Moment(now))
		if err != nil {
			return nil
		}
		all = append(all, &pb.LimitInForce{Dimension: dim.Name, Class: terms.Class.String(),
			Limit: limitNumber(terms.Limit), Rate: terms.RateText(), Rule: string(match.Rule)})
	}
	return all
}

// agentsSeen is how long ago an agent may have been heard of to be listed.
const agentsSeen = time.Hour

// ListAgents lists the agents heard of within the last hour, with what each has out.
func (c *ControlPlane) ListAgents(ctx context.Context, _ *pb.ListAgentsRequest) (*pb.ListAgentsReply, error) {
	found, err := c.cfg.Reader.Incarnations(ctx, c.desk.Now().Add(-agentsSeen))
	if err != nil {
		return nil, outage("list agents", err)
	}
	holdings, err := c.cfg.Reader.Holdings(ctx)
	if err != nil {
		return nil, outage("sum up live leases", err)
	}
	held := make(map[ledger.ID]ledger.Holding, len(holdings))
	for _, h := range holdings {
		held[h.Agent] = h
	}
	reply := &pb.ListAgentsReply{}
	for _, inc := range found {
		h := held[inc.ID]
		reply.Agents = append(reply.Agents, &pb.Agent{Incarnation: inc.ID.Bytes(), Name: inc.Name, Region: inc.Region,
			StartedAtUs: micros(inc.StartedAt), LastSeenUs: micros(inc.LastSeen), PolicyVersion: inc.PolicyVersion,
			LiveLeases: h.Leases, Outstanding: int64(h.Outstanding)})
	}
	return reply, nil
}

// GetBound computes the overshoot bound of one dimension or of all.
func (c *ControlPlane) GetBound(ctx context.Context, m *pb.GetBoundRequest) (*pb.GetBoundReply, error) {
	switch {
	case m.GetAgents() < 0:
		return nil, invalid("agents", "0 for those seen lately, or more")
	case m.GetPeakPerSecond() < 0:
		return nil, invalid("peak_per_second", "0 for the limit over its window, or more")
	}
	s, err := c.policyInUse(ctx)
	if err != nil {
		return nil, err
	}
	dimensions := s.Dimensions()
	if name := m.GetDimension(); name != "" {
		dim, ok := s.Dimension(name)
		if !ok {
			return nil, s.Undefined(name)
		}
		dimensions = []*policy.Dimension{dim}
	}
	var seen []ledger.Incarnation
	if m.GetAgents() == 0 {
		if seen, err = c.cfg.Reader.Incarnations(ctx, c.desk.Now().Add(-agentsSeen)); err != nil {
			return nil, outage("count agents", err)
		}
	}
	reply := &pb.GetBoundReply{}
	for _, dim := range dimensions {
		t, err := c.boundTerms(s, dim, m, seen)
		if err != nil {
			return nil, err
		}
		if err := c.adjusted(ctx, &t); err != nil {
			return nil, err
		}
		reply.Bounds = append(reply.Bounds, ComputeBound(t))
	}
	return reply, nil
}

// adjusted adds what operators did in the tenant's current window: credits, and held units that
// they gave back. Of slots those count while they are uncertain: time ends them.
func (c *ControlPlane) adjusted(ctx context.Context, t *BoundTerms) error {
	if t.Tenant == "" {
		return nil
	}
	q := ledger.AccountQuery{Tenant: t.Tenant, Dimension: t.Dimension, At: c.desk.Now()}
	return c.accounts(ctx, q, func(a ledger.Account) bool {
		if a.Kind != t.Kind { // from when the dimension counted something else
			return true
		}
		released := a.Released
		if a.Kind == quota.Concurrency {
			released = min(released, a.Uncertain)
		}
		t.Credit, t.Released = t.Credit+a.Credit, t.Released+released
		return true
	})
}

// boundTerms takes as N, unless it was given, all agents that were in contact within the time
// that counts for the dimension: any of them may ask for the key.
func (c *ControlPlane) boundTerms(s *policy.Snapshot, dim *policy.Dimension, m *pb.GetBoundRequest, seen []ledger.Incarnation) (BoundTerms, error) {
	now := c.desk.Now()
	t, err := TermsOf(s, dim, m.GetTenant(), now)
	if err != nil {
		return BoundTerms{}, err
	}
	t.Agents, t.Peak = int(m.GetAgents()), quota.Units(m.GetPeakPerSecond())
	since := now.Add(-max(t.TTL+t.Grace, time.Minute))
	for _, inc := range seen {
		if inc.LastSeen.Before(since) {
			continue
		}
		t.Agents++
		if t.Places == nil {
			t.Places = map[string]int{}
		}
		t.Places[inc.Region]++
	}
	return t, nil
}
