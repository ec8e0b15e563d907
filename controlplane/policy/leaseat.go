package policy

import (
	"fmt"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Lease says how long a lease lives and how large it may be. LeaseAt tells what of it holds
// for a plan at a time of day.
type Lease struct {
	TTL          time.Duration
	Grace        time.Duration
	Max          quota.Units // 0: as the control plane sizes it
	LowWatermark Percent
	Regions      []Region // by name; a region without an entry has floor 0 and no ceiling
	Schedule     []Slot   // by From; no two at one time
}

// Region is what one region gets of the exposure budget: at least Floor while it has
// demand, at most Ceiling.
type Region struct {
	Name    string
	Floor   Percent
	Ceiling Percent
}

// Slot is a part of the day in which other leases are given. From is included, To is not;
// a slot whose To is the smaller one goes on past midnight.
type Slot struct {
	From  int // minutes after midnight, by the clock of the period's zone, else UTC
	To    int
	Max   quota.Units   // 0: as without the slot
	TTL   time.Duration // 0: as without the slot
	Grace time.Duration // with TTL
}

const minutesPerDay = 24 * 60

// contains reports whether a minute of the day lies in the slot.
func (s Slot) contains(minute int) bool {
	if s.From < s.To {
		return s.From <= minute && minute < s.To
	}
	return s.From <= minute || minute < s.To
}

func (s Slot) String() string { return clock(s.From) + "-" + clock(s.To) }

func clock(minute int) string { return fmt.Sprintf("%02d:%02d", minute/60, minute%60) }

// LeaseAt returns the lease terms of a plan's tenants (empty: of those without one) at a
// moment. What the schedule says of that time of day takes the place of the dimension's own
// terms. So does a plan's largest lease; of a plan's and the schedule's, the smaller counts.
func (d *Dimension) LeaseAt(plan string, at time.Time) Lease {
	lease, scheduled := d.Lease, false
	if s := d.slotAt(at); s != nil {
		if s.TTL > 0 {
			lease.TTL, lease.Grace = s.TTL, s.Grace
		}
		if s.Max > 0 {
			lease.Max, scheduled = s.Max, true
		}
	}
	if most := d.planLeaseMax(plan); most > 0 && (!scheduled || most < lease.Max) {
		lease.Max = most
	}
	return lease
}

// slotAt is the part of the schedule that holds at a moment, or nil.
func (d *Dimension) slotAt(at time.Time) *Slot {
	if len(d.Lease.Schedule) == 0 {
		return nil
	}
	local := d.Period.Local(at)
	minute := local.Hour()*60 + local.Minute()
	for i := range d.Lease.Schedule {
		if s := &d.Lease.Schedule[i]; s.contains(minute) {
			return s
		}
	}
	return nil
}

// planLeaseMax is the largest lease of a plan, or 0 if the plan names none.
func (d *Dimension) planLeaseMax(plan string) quota.Units {
	for _, p := range d.Plans {
		if p.Name == plan {
			return p.LeaseMax
		}
	}
	return 0
}
