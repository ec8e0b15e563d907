package policy

import (
	"fmt"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// plans reads the limits that tenants of a plan get.
func (d *draft) plans() {
	v, given := d.get("plans")
	if !given {
		return
	}
	o, ok := v.mapping("plan names, each with {limit, burst, overshoot, lease}", func(key value) bool {
		_, ok := key.name(validatePlan)
		return ok
	})
	if !ok || v.empty() {
		return
	}
	o.inOrder(func(name string, f value) {
		d.b.plans[name] = true
		if p, ok := d.plan(f, name); ok {
			d.Plans = append(d.Plans, p)
		}
	})
}

func (d *draft) plan(v value, name string) (Plan, bool) {
	p := Plan{Name: name}
	o, ok := v.object("limit", "burst", "overshoot", "lease")
	if !ok {
		return p, false
	}
	limit, ok := d.amounts(o, false)
	p.Limit, p.Rate = limit.limit, limit.rate
	own, ownOK := d.readOvershoot(o, p.Limit, ok)
	p.Overshoot = own
	if ok && ownOK {
		d.checkBudget(limit, d.overshootOf(p))
	}
	if f, given := o.get("lease"); given {
		d.planLease(f, &p, ok && ownOK)
	}
	return p, ok && ownOK
}

// planLease reads the largest lease of a plan's tenants.
func (d *draft) planLease(v value, p *Plan, limitOK bool) {
	o, ok := v.object("max")
	if !ok {
		return
	}
	if d.exact() {
		v.warn("has no effect: class exact has no leases")
	}
	if f, given := o.get("max"); given {
		p.LeaseMax = d.leaseMax(f, p.Limit, d.overshootOf(*p), limitOK)
	}
}

// overshootOf returns a plan's own overshoot, or else the dimension's.
func (d *Dimension) overshootOf(p Plan) Overshoot {
	if p.Overshoot != nil {
		return *p.Overshoot
	}
	return d.Overshoot
}

// overrides reads the exceptions. Each says who answers for it, why, and until when.
func (d *draft) overrides() {
	v, given := d.get("overrides")
	if !given {
		return
	}
	seen := map[string]value{}
	v.list("{tenant, limit, burst, owner, reason, expires}", func(item value) {
		if len(d.b.overrides) == MaxOverrides {
			d.b.tooMany(item, "overrides", MaxOverrides)
			return
		}
		o, ok := item.object("tenant", "limit", "burst", "owner", "reason", "expires")
		if !ok {
			return
		}
		at, ok := o.need("tenant", "the tenant's name")
		over := &Override{}
		if ok {
			if over.Tenant, ok = at.name(quota.ValidateTenant); ok {
				d.b.overrides = append(d.b.overrides, at)
				if first, twice := seen[over.Tenant]; twice {
					at.refuse("tenant "+segment(over.Tenant)+" has two overrides here; first at "+first.place(),
						"one override of a tenant in a dimension")
				} else {
					seen[over.Tenant] = at
				}
			}
		}
		d.override(o, over)
		d.Overrides = append(d.Overrides, over)
	})
}

func (d *draft) override(o object, over *Override) {
	if limit, ok := d.amounts(o, false); ok {
		over.Limit, over.Rate = limit.limit, limit.rate
		d.checkBudget(limit, d.Overshoot)
		d.checkPlanSums(limit.at, limit.limit)
	}
	if f, ok := o.need("owner", "who answers for it"); ok {
		over.Owner, _ = f.text(maxOwnerBytes)
	}
	if f, ok := o.need("reason", "why it is granted"); ok {
		over.Reason, _ = f.text(maxNoteBytes)
	}
	if f, ok := o.need("expires", expiresAllowed); ok {
		d.expires(f, over)
	}
}

// checkPlanSums checks an override's limit under the overshoot of each plan that its tenant
// may have.
func (d *draft) checkPlanSums(at value, limit quota.Limit) {
	for _, p := range d.Plans {
		if p.Overshoot != nil && !limit.Unlimited && !at.checkSum(limit.Units, p.Overshoot.Of(limit).Units) {
			return
		}
	}
}

const expiresAllowed = "a date such as 2027-01-31, or a time such as 2027-01-31T09:00:00+09:00"

// expires reads the first instant at which an override no longer counts. A date means the
// beginning of that day in the dimension's zone.
func (d *draft) expires(f value, over *Override) {
	s, _, ok := f.scalar(expiresAllowed)
	if !ok {
		return
	}
	over.Until = s
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		date, err := time.Parse(time.DateOnly, s)
		if err != nil {
			f.refuse(fmt.Sprintf("%q is not a date", shorten(s)), expiresAllowed)
			return
		}
		if !d.periodOK {
			return // the zone was refused; without it the date is no instant
		}
		if at, err = dayStart(date, d.Period); err != nil {
			f.refuse(err.Error(), expiresAllowed)
			return
		}
	}
	over.Expires = quota.At(at)
	if year := over.Expires.Year(); year < 1970 || year > 9999 {
		f.refuse(shorten(s)+" is not within the years 1970 to 9999", expiresAllowed)
		return
	}
	if !d.b.now.IsZero() && !d.b.now.Before(over.Expires) {
		f.refuse(shorten(s)+" has passed: the override expired",
			"a date or time after "+d.Period.Local(d.b.now).Format(time.RFC3339))
	}
}

// dayStart returns when a date begins in a calendar's zone, by the rule for skipped and
// repeated hours that windows follow.
func dayStart(date time.Time, calendar quota.Calendar) (time.Time, error) {
	days, err := quota.ParsePeriod(string(quota.EveryDay), calendar.Timezone(), 0, "")
	if err != nil {
		return time.Time{}, fmt.Errorf("read the zone %s: %w", calendar.Timezone(), err)
	}
	y, m, d := date.Date()
	noon := time.Date(y, m, d, 12, 0, 0, 0, calendar.Local(date).Location())
	return days.WindowAt(noon).Start, nil
}
