package policy

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Most parts of the lease block.
const (
	maxRegions = 100
	maxSlots   = 48
)

// regions reads how the exposure budget is shared between regions. What is promised to them
// together may not be more than there is.
func (d *draft) regions(v value) {
	o, ok := v.mapping("region names, each with {floor, ceiling}", func(key value) bool {
		_, ok := key.name(validateRegion)
		return ok
	})
	if !ok || v.empty() {
		return
	}
	if len(o.fields) > maxRegions {
		v.refuse(fmt.Sprintf("%d regions", len(o.fields)), fmt.Sprintf("at most %d", maxRegions))
		return
	}
	var floors Percent
	sumOK := true
	o.inOrder(func(name string, f value) {
		r, ok := f.region(name)
		floors, sumOK = floors+r.Floor, sumOK && ok
		d.Lease.Regions = append(d.Lease.Regions, r)
	})
	if sumOK && floors > wholePercent {
		v.refuse("the floors together are "+floors.String(), "floors of at most 100% together")
	}
	slices.SortFunc(d.Lease.Regions, func(x, y Region) int { return cmp.Compare(x.Name, y.Name) })
}

func (v value) region(name string) (Region, bool) {
	r := Region{Name: name, Ceiling: wholePercent}
	o, ok := v.object("floor", "ceiling")
	if !ok {
		return r, false
	}
	floorAt, floored := o.get("floor")
	if floored {
		r.Floor, ok = floorAt.percent()
	}
	ceilingOK := true
	if f, given := o.get("ceiling"); given {
		r.Ceiling, ceilingOK = f.percent()
	}
	if ok && ceilingOK && r.Floor > r.Ceiling {
		floorAt.refuse(fmt.Sprintf("%s is above the ceiling of %s", r.Floor, r.Ceiling), "0% to the ceiling")
	}
	return r, ok && ceilingOK
}

// validateRegion accepts the names that agents may give their region.
func validateRegion(name string) error { return quota.ValidateDimension(name) }

// inOrder calls each for the fields that were accepted, in the file's order, not the map's.
func (o object) inOrder(each func(name string, f value)) {
	for i := 0; i+1 < len(o.node.Content); i += 2 {
		name := o.node.Content[i].Value
		if f, ok := o.get(name); ok && f.node == o.node.Content[i+1] {
			each(name, f)
		}
	}
}

// schedule reads the parts of the day in which other leases are given.
func (d *draft) schedule(v value, ownGrace bool) {
	var places []value
	v.list("{from, to, max, ttl}", func(item value) {
		if len(places) == maxSlots {
			d.b.tooMany(item, "parts of a day in "+v.path, maxSlots)
			return
		}
		s, ok := d.slot(item, ownGrace)
		if !ok {
			return
		}
		for i, other := range d.Lease.Schedule {
			if s.overlaps(other) {
				item.refuse(fmt.Sprintf("%s overlaps %s, given at %s", s, other, places[i].place()), "parts of the day that do not overlap")
				return
			}
		}
		d.Lease.Schedule, places = append(d.Lease.Schedule, s), append(places, item)
	})
	slices.SortFunc(d.Lease.Schedule, func(x, y Slot) int { return cmp.Compare(x.From, y.From) })
}

func (d *draft) slot(v value, ownGrace bool) (Slot, bool) {
	s := Slot{}
	o, ok := v.object("from", "to", "max", "ttl")
	if !ok {
		return s, false
	}
	fromOK, toOK := false, false
	if f, ok := o.need("from", clockAllowed); ok {
		s.From, fromOK = f.timeOfDay()
	}
	if f, ok := o.need("to", clockAllowed); ok {
		if s.To, toOK = f.timeOfDay(); toOK && fromOK && s.To == s.From {
			f.refuse("is the same as from", "another time: what holds all day is said by lease itself")
			toOK = false
		}
	}
	maxAt, sized := o.get("max")
	if sized {
		s.Max, _ = maxAt.whole(1, "a whole number of 1 or more")
	}
	ttlAt, lasting := o.get("ttl")
	if lasting {
		if s.TTL, ok = ttlAt.duration(d.ttlSpan()); ok {
			s.Grace = d.slotGrace(s, ownGrace)
		}
	}
	if !sized && !lasting {
		v.refuse("says nothing about leases", "max, ttl or both")
	}
	return s, fromOK && toOK
}

// slotGrace is the grace of the slot's leases: what the lease block says, as long as it
// covers the drift over the slot's ttl.
func (d *draft) slotGrace(s Slot, ownGrace bool) time.Duration {
	if !ownGrace {
		return defaultGrace(s.TTL)
	}
	return max(d.Lease.Grace, leastGrace(s.TTL))
}

const clockAllowed = "HH:MM from 00:00 to 23:59"

// timeOfDay reads minutes after midnight.
func (v value) timeOfDay() (int, bool) {
	s, _, ok := v.scalar(clockAllowed)
	if !ok {
		return 0, false
	}
	t, err := time.Parse("15:04", s)
	if err != nil || len(s) != len("15:04") {
		v.refuse(fmt.Sprintf("%q is not a time of day", shorten(s)), clockAllowed)
		return 0, false
	}
	return t.Hour()*60 + t.Minute(), true
}

// overlaps reports whether two slots share a minute.
func (s Slot) overlaps(other Slot) bool { return s.contains(other.From) || other.contains(s.From) }
