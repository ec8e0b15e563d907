package controlplane

import (
	"fmt"
	"time"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// DefaultRoundTrip is the time from an ask to its answer that a bound assumes when it warns
// of leases too small to last.
const DefaultRoundTrip = policy.RoundTrip

// cheapPeak is a demand, in takes a second, that the exact lane serves without strain.
const cheapPeak = 50

// BoundTerms is what the overshoot arithmetic of one dimension starts from.
type BoundTerms struct {
	Dimension string
	Tenant    string // empty: the dimension's default limit
	Unit      string // a word for people
	Kind      quota.Kind
	Class     quota.Class
	Limit     quota.Limit // without Credit; of a rate, the burst
	Rate      quota.Rate  // kind rate
	MaxHold   time.Duration
	Calendar  quota.Calendar
	Budget    quota.Limit
	LeaseMax  quota.Units // 0: none
	TTL       time.Duration
	Longest   time.Duration // ttl of any time of day, TTL included
	Grace     time.Duration
	Window    time.Duration // over which the limit is spread when there is no peak; 0: endless
	Agents    int
	Regions   []policy.Region // among which the budget is divided
	Places    map[string]int  // how many agents are in each region; nil: not known
	Peak      quota.Units     // units a second of all agents together; 0: the limit over its window
	RoundTrip time.Duration
	Outage    policy.Outage
	Opened    []Opening // operations that go on without a lease, whatever Outage says
	Cold      policy.Cold
	Credit    quota.Units // of the tenant's current window
	Released  quota.Units // held units that operators gave back in the tenant's current window
}

// Opening is an operation whose own outage mode is open.
type Opening struct {
	Operation string
	For       time.Duration
}

// TermsOf reads from a policy what the bound of a dimension starts from: the limit that a
// tenant has at now, or without a tenant the dimension's own. Agents, where they are, Peak, and
// what operators did are the caller's.
func TermsOf(s *policy.Snapshot, dim *policy.Dimension, tenant string, now time.Time) (BoundTerms, error) {
	t := BoundTerms{Dimension: dim.Name, Tenant: tenant, Unit: dim.Unit, Kind: dim.Kind, Class: dim.Class,
		Limit: dim.Limit, Rate: dim.Rate, MaxHold: dim.MaxHold, Calendar: dim.Period,
		Budget: dim.Overshoot.Of(dim.Limit), Outage: dim.Outage, Cold: dim.Cold}
	if window := windowAt(dim, now); !window.Endless() {
		t.Window = window.End.Sub(window.Start)
	}
	plan := ""
	if tenant != "" {
		if err := quota.ValidateTenant(tenant); err != nil {
			return BoundTerms{}, err
		}
		terms, match, err := s.Resolve(quota.Key{Tenant: tenant, Dimension: dim.Name}, dim.Moment(now))
		if err != nil {
			return BoundTerms{}, err
		}
		t.Limit, t.Rate, t.Budget, t.Outage, plan = terms.Limit, terms.Rate, terms.Budget, terms.Outage, match.Plan
	}
	lease := dim.LeaseAt(plan, now)
	t.LeaseMax, t.TTL, t.Grace, t.Regions = lease.Max, lease.TTL, lease.Grace, lease.Regions
	t.Longest = dim.Lease.TTL
	for _, slot := range dim.Lease.Schedule {
		t.Longest = max(t.Longest, slot.TTL)
	}
	for _, op := range s.Document().Operations {
		for _, take := range op.Takes {
			if take.Dimension == dim.Name && op.Outage != nil && op.Outage.Open {
				t.Opened = append(t.Opened, Opening{op.Name, op.Outage.For})
			}
		}
	}
	return t, nil
}

// inForce is Q: the limit with the credits of its window.
func (t BoundTerms) inForce() quota.Limit {
	a := ledger.Account{Terms: ledger.Terms{Limit: t.Limit}, Credit: t.Credit}
	return a.InForce()
}

// rate is units per time, exact.
type rate struct {
	units quota.Units
	per   time.Duration
}

// peak is how fast units are used up. Slots are not.
func (t BoundTerms) peak() (rate, bool) {
	switch {
	case t.Kind == quota.Concurrency:
	case t.Peak > 0:
		return rate{t.Peak, time.Second}, true
	case t.Kind == quota.RateLimit && !t.Limit.Unlimited && t.Rate.Units > 0:
		return rate{t.Rate.Units, t.Rate.Per}, true
	case !t.Limit.Unlimited && t.Limit.Units > 0 && t.Window > 0:
		return rate{t.Limit.Units, t.Window}, true
	}
	return rate{}, false
}

// ComputeBound states what a dimension can end a window with, and what its leases cost.
//
// What the class adds to the limit of a window (DESIGN 3.3, 3.4): exact and hard add nothing,
// because every unit that is out stays charged. bounded adds its budget B: that much unconfirmed
// use may be given back to the pool. best_effort adds B too, as what is outstanding or uncertain
// at any grant. Slots in use are outside the budget (3.9), so that best_effort has no number for
// them. A rate adds B in every class: what was out when an interval began. Use without a lease
// comes on top where policy allows it: Beyond names it.
func ComputeBound(t BoundTerms) *pb.Bound {
	t.Agents = max(t.Agents, 1)
	t.Longest = max(t.Longest, t.TTL)
	if t.Kind == 0 {
		t.Kind = quota.Period
	}
	if t.RoundTrip <= 0 {
		t.RoundTrip = DefaultRoundTrip
	}
	l := keyCap(ledger.Terms{Class: t.Class, Limit: t.Limit}, LeaseCap(t.Budget, t.Agents), t.LeaseMax)
	b := &pb.Bound{
		Dimension: t.Dimension, Tenant: t.Tenant, Class: t.Class.String(), Kind: t.Kind.String(),
		Limit: limitNumber(t.inForce()), Budget: limitNumber(t.Budget), Credit: int64(t.Credit), Rate: t.rateText(),
		Agents: int32(min(t.Agents, maxAgents)), LeaseCap: int64(l), TtlUs: t.TTL.Microseconds(),
		MaxHoldUs: t.MaxHold.Microseconds(), PeakPerSecond: int64(t.Peak), Beyond: t.beyond(),
	}
	if t.Outage.Extend {
		b.Emergency = int64(t.Outage.Budget)
	}
	b.AtRisk = mulDiv(int64(l), int64(t.Agents), 1)
	b.Most, b.Over = t.most()
	if peak, ok := t.peak(); ok && l > 0 {
		// One agent spends an N-th of the peak: L lasts L x N / peak, and a fetch comes with
		// every L units.
		b.LeaseLastsUs = mulDiv(b.AtRisk, int64(peak.per), int64(peak.units), int64(time.Microsecond))
		b.FetchesPerSecondMilli = mulDiv(int64(peak.units), 1000*int64(time.Second), int64(l), int64(peak.per))
	}
	t.divide(b)
	b.Worked = t.worked(b)
	b.Advice = t.advice(b)
	if t.Tenant != "" {
		b.Clause = t.clause(b)
	}
	return b
}

// maxAgents keeps N within the message's field.
const maxAgents = 1<<31 - 1

// divide states the parts of the budget that regions have. N times L then says no more how much
// is out: a floor gives a region's agents more.
func (t BoundTerms) divide(b *pb.Bound) {
	if len(t.Regions) == 0 || t.Budget.Unlimited || b.LeaseCap == 0 && t.Budget.Units == 0 || t.Class == quota.Exact {
		return
	}
	budget := t.Budget.Units
	b.AtRisk = int64(budget)
	listed := map[string]bool{}
	var shares []regionShare
	var active []*pb.RegionBound
	add := func(name string, floor, ceiling quota.Units) {
		r := &pb.RegionBound{Region: name, Floor: int64(floor), Ceiling: int64(ceiling), Agents: int32(min(t.Places[name], maxAgents))}
		b.Regions = append(b.Regions, r)
		if r.Agents > 0 { // a floor is kept for agents that there are
			shares, active = append(shares, regionShare{int(r.Agents), floor, ceiling}), append(active, r)
		}
	}
	for _, r := range t.Regions {
		listed[r.Name] = true
		add(r.Name, r.Floor.Of(budget), r.Ceiling.Of(budget))
	}
	for _, name := range sortedNames(t.Places) {
		if !listed[name] {
			add(name, 0, budget)
		}
	}
	var out []quota.Units
	for i, r := range active {
		l := regionCap(budget, shares, i)
		if t.LeaseMax > 0 {
			l = min(l, t.LeaseMax)
		}
		r.LeaseCap = int64(l)
		out = append(out, quota.Units(mulDiv(int64(l), int64(r.Agents), 1)))
	}
	if len(active) > 0 {
		b.AtRisk = addUp(out...)
	}
}

// adds reports whether the class lets more pass than the limit says.
func (t BoundTerms) adds() bool {
	adding := t.Class == quota.Bounded || t.Class == quota.BestEffort || t.Kind == quota.RateLimit
	return adding && (t.Budget.Unlimited || t.Budget.Units > 0)
}

// boundless reports that a limit is there, but no number for how far it can be passed.
func (t BoundTerms) boundless() bool {
	return !t.Limit.Unlimited && (t.adds() && t.Budget.Unlimited || t.Kind == quota.Concurrency && t.Class == quota.BestEffort)
}

// most is the limit with what the class adds, and the addition in percent of the limit.
func (t BoundTerms) most() (int64, string) {
	q := t.inForce()
	switch {
	case q.Unlimited:
		return unlimited, "0 %"
	case t.boundless():
		return unlimited, "without limit"
	case t.adds():
		return addUp(q.Units, t.Budget.Units), percentOf(t.Budget.Units, q.Units)
	}
	return int64(q.Units), "0 %"
}

// beyond names the use that policy lets pass outside of the limit, and what operators gave back:
// the overshoot budget holds none of it.
func (t BoundTerms) beyond() []string {
	var lines []string
	if t.Outage.Extend {
		lines = append(lines, fmt.Sprintf("plus at most %s a window that outage mode extend lets pass, however many agents and outages there are",
			countOf(int64(t.Outage.Budget), "unit")))
	}
	if t.Outage.Open {
		lines = append(lines, fmt.Sprintf("plus whatever outage mode open lets pass, without a limit, for up to %s of each outage", Lasting(t.Outage.For)))
	}
	for _, o := range t.Opened {
		lines = append(lines, fmt.Sprintf("plus whatever operation %s lets pass in outage mode open, without a limit, for up to %s of each outage",
			o.Operation, Lasting(o.For)))
	}
	if t.Cold.Debt {
		lines = append(lines, fmt.Sprintf("plus %s at each start of an agent (cold: debt)", countOf(int64(t.Cold.Units), "unit")))
	}
	if t.Released > 0 {
		lines = append(lines, fmt.Sprintf("plus %s that an operator released of what was held", countOf(int64(t.Released), "unit")))
	}
	return lines
}

// BoundLine says a bound in a few words, e.g. "up to 136,000 (13.3 % over)".
func BoundLine(b *pb.Bound) string {
	switch {
	case b.Limit == unlimited:
		return "unlimited"
	case b.Most == unlimited:
		return fmt.Sprintf("no bound on top of %s", Grouped(b.Limit))
	case b.Rate != "":
		return fmt.Sprintf("up to %s + %s x t in any interval t (%s over the burst)", Grouped(b.Most), b.Rate, b.Over)
	case b.Kind == quota.Concurrency.String():
		return fmt.Sprintf("up to %s at once (%s over)", Grouped(b.Most), b.Over)
	}
	return fmt.Sprintf("up to %s (%s over)", Grouped(b.Most), b.Over)
}
