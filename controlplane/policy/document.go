package policy

import (
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
	"github.com/quotalease/quotalease/ledger/quota/descriptor"
)

// Caps on what is read. They bound memory, and are far above what people write.
const (
	MaxFileBytes  = 4 << 20
	MaxTotalBytes = 16 << 20
	MaxDimensions = 1000
	MaxTenants    = 100_000
	MaxOverrides  = 100_000
)

// Document is a checked policy with every default filled in. It is read-only: snapshots
// share its parts.
type Document struct {
	DenyUnlisted bool   // tenants without an entry are refused
	DefaultPlan  string // plan of tenants whose entry names none, and of those without an entry
	Tenants      []Tenant
	Locals       []*Local
	Dimensions   []*Dimension
	Operations   []*Operation       // by name
	Descriptors  []*descriptor.Rule // by domain and path
	Commands     []*Override        // made by command, by dimension and tenant
	Warnings     []Fault            // accepted, but hardly meant

	files   []File
	checked time.Time // the time of day it was checked for; zero: none
}

// Tenant is an entry of the tenant list. Plan is empty if the entry names none.
type Tenant struct {
	Name string
	Plan string
}

// Dimension is one quota's policy: what tenants get, and how leases of it behave.
type Dimension struct {
	Name        string
	Description string
	Unit        string // a word for people
	Kind        quota.Kind
	Class       quota.Class
	Limit       quota.Limit // of tenants without a plan's limit or an override; the burst of kind rate
	Rate        quota.Rate  // kind rate, unless unlimited: how fast Limit refills
	Overshoot   Overshoot
	Period      quota.Calendar // kind period; else the endless one
	MaxHold     time.Duration  // kind concurrency: the longest that one run may take
	Lease       Lease
	Outage      Outage
	Cold        Cold
	FinalAfter  time.Duration // kind period: a statement is final so long after its window
	Plans       []Plan        // by name
	Overrides   []*Override   // of policy files, by tenant
	Local       []string      // names of the local limits that it is under
}

// Moment returns the time by which a limit in the window that contains at is resolved: the
// window's start, whose limit holds for all of it, or at itself where the window is endless.
func (d *Dimension) Moment(at time.Time) time.Time {
	if d.Kind == quota.Period {
		return d.Period.WindowAt(at).Start
	}
	return at
}

// Outage says what an agent does without the control plane: deny, or else one of two others.
type Outage struct {
	Open   bool // allow and count
	Extend bool // go on from the emergency allowance
	After  time.Duration
	For    time.Duration // how long Open may last
	Rate   quota.Rate    // with Extend: of all agents together
	Budget quota.Units   // with Extend: E, the most that an account and window may use so
}

// Mode returns the word that policy files use.
func (o Outage) Mode() string {
	switch {
	case o.Open:
		return modeOpen
	case o.Extend:
		return modeExtend
	}
	return modeClosed
}

// Cold says what happens to a take before the key's first lease has come.
type Cold struct {
	Wait  time.Duration
	Debt  bool        // let Units pass as unleased use, instead of deny
	Units quota.Units // with Debt: at most so many, once a key and incarnation
}

// Then returns the word that policy files use.
func (c Cold) Then() string {
	if c.Debt {
		return thenDebt
	}
	return thenDeny
}

// Plan is a dimension's limit for the tenants of one plan.
type Plan struct {
	Name      string
	Limit     quota.Limit
	Rate      quota.Rate  // kind rate, unless unlimited
	Overshoot *Overshoot  // nil: the dimension's
	LeaseMax  quota.Units // 0: the dimension's
}

// Override is one tenant's limit in one dimension, for a time.
type Override struct {
	Tenant  string
	Limit   quota.Limit
	Rate    quota.Rate // kind rate, unless unlimited
	Owner   string
	Reason  string
	Expires time.Time        // first instant at which it no longer counts
	Until   string           // Expires as written
	Command *CommandOverride // as it was given by command; nil: a policy file has it
}

// fileOverride returns a tenant's override in the policy files, or nil.
func (d *Dimension) fileOverride(tenant string) *Override {
	for _, o := range d.Overrides {
		if o.Tenant == tenant {
			return o
		}
	}
	return nil
}

// Overshoot is the exposure budget B as the policy states it: a share of the limit, or an
// amount of units.
type Overshoot struct {
	Share    Percent
	Units    quota.Units
	Absolute bool // Units counts, not Share
}

// Of returns the budget under a limit. A share of no limit is no limit. An amount is never
// more than the limit itself, so a small plan or override does not inherit a bound that is
// larger than its contract.
func (o Overshoot) Of(limit quota.Limit) quota.Limit {
	switch {
	case o.Absolute && limit.Unlimited:
		return quota.LimitOf(o.Units)
	case o.Absolute:
		return quota.LimitOf(min(o.Units, limit.Units))
	case limit.Unlimited && o.Share == 0:
		return quota.LimitOf(0)
	case limit.Unlimited:
		return quota.NoLimit
	}
	return quota.LimitOf(o.Share.Of(limit.Units))
}

func (o Overshoot) String() string {
	if o.Absolute {
		return formatUnits(o.Units)
	}
	return o.Share.String()
}
