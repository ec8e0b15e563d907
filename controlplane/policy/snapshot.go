package policy

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
	"github.com/quotalease/quotalease/ledger/quota/descriptor"
)

// Names that a policy does not know. Use errors.Is; the errors themselves say more.
var (
	ErrUnknownDimension = errors.New("dimension is not defined")
	ErrUnknownTenant    = errors.New("tenant is not listed")
)

// UnknownDimensionError is ErrUnknownDimension with the name that was asked for.
type UnknownDimensionError struct {
	Name     string
	snapshot *Snapshot
}

// Near returns defined names that look like the one asked for. It is worked out here, not
// when the error is made, because anyone can ask for unknown names.
func (e *UnknownDimensionError) Near() []string {
	names := make([]string, len(e.snapshot.doc.Dimensions))
	for i, d := range e.snapshot.doc.Dimensions {
		names[i] = d.Name
	}
	return near(e.Name, names)
}

func (e *UnknownDimensionError) Error() string {
	return fmt.Sprintf("dimension %q is not defined%s", shorten(e.Name), didYouMean(e.Near()))
}

// Is makes errors.Is(err, ErrUnknownDimension) true.
func (e *UnknownDimensionError) Is(target error) bool { return target == ErrUnknownDimension }

// Undefined is the error about a dimension that the snapshot does not have.
func (s *Snapshot) Undefined(dimension string) error {
	return &UnknownDimensionError{Name: dimension, snapshot: s}
}

// UnknownTenantError is ErrUnknownTenant with the name that was asked for.
type UnknownTenantError struct {
	Name     string
	snapshot *Snapshot
}

// Near returns listed tenants that look like the one asked for.
func (e *UnknownTenantError) Near() []string { return e.snapshot.nearTenants(e.Name) }

func (e *UnknownTenantError) Error() string {
	return fmt.Sprintf("tenant %q is not listed, and unlisted_tenants is deny", shorten(e.Name))
}

// Is makes errors.Is(err, ErrUnknownTenant) true.
func (e *UnknownTenantError) Is(target error) bool { return target == ErrUnknownTenant }

func didYouMean(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "; near: " + strings.Join(names, ", ")
}

// Snapshot is one version of the policy, indexed for decisions. It never changes, so any
// number of goroutines may use it.
type Snapshot struct {
	Version int64

	doc        *Document
	tenants    map[string]string // plan as written, "" for none
	dimensions map[string]*rules
	operations map[string]*Operation

	descriptors *descriptor.Tree
	overridable map[string]bool // dimensions whose limit a request may bring along
}

// rules is a dimension with its limits by name.
type rules struct {
	dimension *Dimension
	terms     Terms // without a limit and budget
	plans     map[string]Plan
	overrides map[string]*Override // of the files
	commands  map[string]*Override // made by command; they are stronger
}

// Terms is what holds for one key in one window.
type Terms struct {
	PolicyVersion int64
	Kind          quota.Kind
	Class         quota.Class
	Limit         quota.Limit   // the burst, for kind rate
	Rate          quota.Rate    // kind rate, unless unlimited: how fast Limit refills
	MaxHold       time.Duration // kind concurrency
	Budget        quota.Limit   // B, the overshoot budget; 0 for exact
	TTL           time.Duration
	Grace         time.Duration
	LeaseMax      quota.Units // 0: as the control plane sizes it; LeaseAt knows the time of day
	LowWatermark  Percent
	Outage        Outage
	Cold          Cold
}

// Rule says which of the three limits of a dimension decided.
type Rule string

// The rules, strongest first.
const (
	RuleRequest  Rule = "request" // a limit that the request brought along
	RuleOverride Rule = "override"
	RulePlan     Rule = "plan"
	RuleDefault  Rule = "default"
)

// Match says which rule decided about a limit, and what became of the others.
type Match struct {
	Rule        Rule
	Listed      bool      // the tenant has an entry
	Plan        string    // the tenant's plan, "" if it has none
	PlanDefault bool      // Plan is the default plan, not one that the tenant's entry names
	PlanKnown   bool      // the dimension gives Plan a limit
	Override    *Override // the tenant's override here, the stronger one that has not expired; read-only
	Lapsed      bool      // Override had expired when the window began
}

// Snapshot indexes the document under the version that the log gave it.
func (d *Document) Snapshot(version int64) *Snapshot {
	s := &Snapshot{
		Version:    version,
		doc:        d,
		tenants:    make(map[string]string, len(d.Tenants)),
		dimensions: make(map[string]*rules, len(d.Dimensions)),
		operations: make(map[string]*Operation, len(d.Operations)),
	}
	for _, o := range d.Operations {
		s.operations[o.Name] = o
	}
	for _, t := range d.Tenants {
		s.tenants[t.Name] = t.Plan
	}
	for _, dim := range d.Dimensions {
		r := &rules{
			dimension: dim,
			terms: Terms{PolicyVersion: version, Kind: dim.Kind, Class: dim.Class, MaxHold: dim.MaxHold, TTL: dim.Lease.TTL,
				Grace: dim.Lease.Grace, LeaseMax: dim.Lease.Max, LowWatermark: dim.Lease.LowWatermark,
				Outage: dim.Outage, Cold: dim.Cold},
			plans:     make(map[string]Plan, len(dim.Plans)),
			overrides: make(map[string]*Override, len(dim.Overrides)),
		}
		for _, p := range dim.Plans {
			r.plans[p.Name] = p
		}
		for _, o := range dim.Overrides {
			r.overrides[o.Tenant] = o
		}
		s.dimensions[dim.Name] = r
	}
	for _, o := range d.Commands {
		r := s.dimensions[o.Command.Dimension]
		if r.commands == nil {
			r.commands = map[string]*Override{}
		}
		r.commands[o.Tenant] = o
	}
	s.describe()
	return s
}

// override returns the tenant's override at a moment: one made by command before one of the
// files, one that still counts before one that has expired.
func (r *rules) override(tenant string, at time.Time) (over *Override, lapsed bool) {
	over = r.commands[tenant]
	if over != nil && at.Before(over.Expires) {
		return over, false
	}
	if o := r.overrides[tenant]; o != nil && (over == nil || at.Before(o.Expires)) {
		return o, !at.Before(o.Expires)
	}
	return over, over != nil
}

// Document returns what the snapshot was made of.
func (s *Snapshot) Document() *Document { return s.doc }

// Dimension returns a dimension by name, or one that is derived from it (see quota.Override).
// It is read-only.
func (s *Snapshot) Dimension(name string) (*Dimension, bool) {
	r, ok := s.dimensions[name]
	if !ok {
		return s.derived(name)
	}
	return r.dimension, true
}

// Dimensions returns all dimensions by name. The list and what it holds are read-only.
func (s *Snapshot) Dimensions() []*Dimension { return s.doc.Dimensions }

// Resolve returns the terms of a key for the window that begins at windowStart (an endless
// window: at the present moment, see Dimension.Moment), and the rule that decided: the limit
// that a request brought along, which is in the name of a derived dimension, else the
// tenant's override if it has not expired then, one made by command before one of the files,
// else the dimension's limit for the tenant's plan, else the dimension's limit. An override
// changes the limit only: its overshoot is that of the plan, else of the dimension. The
// error is ErrUnknownDimension, ErrUnknownTenant where only listed tenants are admitted, or a
// *quota.FieldError if there is no tenant.
func (s *Snapshot) Resolve(key quota.Key, windowStart time.Time) (Terms, Match, error) {
	if key.Tenant == "" { // or everyone without an identity would share one quota
		return Terms{}, Match{}, quota.ValidateTenant(key.Tenant)
	}
	brought, ok := s.derived(key.Dimension)
	base := key.Dimension
	if ok {
		base = quota.BaseDimension(base)
	}
	r, ok := s.dimensions[base]
	if !ok {
		return Terms{}, Match{}, s.Undefined(key.Dimension)
	}
	plan, listed := s.tenants[key.Tenant]
	if !listed && s.doc.DenyUnlisted {
		return Terms{}, Match{}, &UnknownTenantError{Name: key.Tenant, snapshot: s}
	}
	m := Match{Rule: RuleDefault, Listed: listed, Plan: plan}
	if plan == "" && s.doc.DefaultPlan != "" {
		m.Plan, m.PlanDefault = s.doc.DefaultPlan, true
	}
	terms, overshoot := r.terms, r.dimension.Overshoot
	terms.Limit, terms.Rate = r.dimension.Limit, r.dimension.Rate
	if p, ok := r.plans[m.Plan]; ok {
		m.Rule, m.PlanKnown = RulePlan, true
		terms.Limit, terms.Rate, overshoot = p.Limit, p.Rate, r.dimension.overshootOf(p)
		if p.LeaseMax > 0 {
			terms.LeaseMax = p.LeaseMax
		}
	}
	if brought != nil {
		m.Rule, terms.Limit, terms.Rate = RuleRequest, brought.Limit, brought.Rate
	} else if o, lapsed := r.override(key.Tenant, windowStart); o != nil {
		m.Override, m.Lapsed = o, lapsed
		if !lapsed {
			m.Rule, terms.Limit, terms.Rate = RuleOverride, o.Limit, o.Rate
		}
	}
	terms.Budget = overshoot.Of(terms.Limit)
	if !terms.Limit.Unlimited { // a small plan does not inherit an emergency larger than its contract
		terms.Outage.Budget = min(terms.Outage.Budget, terms.Limit.Units)
	}
	return terms, m, nil
}

func (s *Snapshot) nearTenants(name string) []string {
	names := make([]string, len(s.doc.Tenants))
	for i, t := range s.doc.Tenants {
		names[i] = t.Name
	}
	return near(name, names)
}
