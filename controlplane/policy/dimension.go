package policy

import (
	"errors"
	"fmt"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Longest texts for people, in bytes.
const (
	maxUnitBytes  = 63
	maxOwnerBytes = 256
	maxNoteBytes  = 1024
)

// defaultOvershoot is the budget of a class whose dimension names none.
var defaultOvershoot = map[quota.Class]Overshoot{
	quota.Exact:      {},
	quota.Hard:       {Share: 10 * onePercent},
	quota.Bounded:    {Share: onePercent},
	quota.BestEffort: {Share: 10 * onePercent},
}

// draft is a dimension while it is read. The flags say which parts later checks may rely on.
type draft struct {
	object
	*Dimension
	classOK  bool
	limitOK  bool
	budgetOK bool
	periodOK bool
}

func (b *builder) dimension(v value) {
	if len(b.doc.Dimensions) == MaxDimensions {
		b.tooMany(v, "dimensions", MaxDimensions)
		return
	}
	o, ok := v.object("name", "description", "unit", "kind", "limit", "period", "class", "overshoot",
		"lease", "outage", "cold", "plans", "overrides")
	if !ok {
		return
	}
	d := &draft{object: o, Dimension: &Dimension{Unit: "requests"}}
	b.doc.Dimensions = append(b.doc.Dimensions, d.Dimension)
	d.words()
	if f, ok := d.need("class", classAllowed); ok {
		d.Class, d.classOK = f.class()
	}
	limitAt, given := d.need("limit", limitAllowed)
	if given {
		d.Limit, d.limitOK = limitAt.limit()
	}
	d.Overshoot, d.budgetOK = defaultOvershoot[d.Class], true
	if own, ok := d.readOvershoot(d.object, d.Limit, d.limitOK); !ok {
		d.budgetOK = false
	} else if own != nil {
		d.Overshoot = *own
	}
	if d.limitOK {
		d.checkBudget(limitAt, d.Limit, d.Overshoot)
	}
	d.period()
	d.lease()
	d.outage()
	d.cold()
	d.plans()
	d.overrides()
}

// words reads the fields that say what the dimension is.
func (d *draft) words() {
	if f, ok := d.need("name", "the dimension's name"); ok {
		if d.Name, ok = f.name(quota.ValidateDimension); ok {
			d.b.once(f, "dimension "+d.Name, "dimension "+segment(d.Name))
		}
	}
	if f, ok := d.get("description"); ok {
		d.Description, _ = f.text(maxNoteBytes)
	}
	if f, ok := d.get("unit"); ok {
		d.Unit, _ = f.text(maxUnitBytes)
	}
	if f, ok := d.need("kind", quota.Period.String()); ok {
		if _, ok = f.word(quota.Period.String()); ok {
			d.Kind = quota.Period
		}
	}
}

const classAllowed = "exact, hard, bounded or best_effort"

func (v value) class() (quota.Class, bool) {
	s, _, ok := v.scalar(classAllowed)
	if !ok {
		return 0, false
	}
	c, err := quota.ParseClass(s)
	if err != nil {
		v.refuse(fmt.Sprintf("%q is not a class", shorten(s)), classAllowed)
	}
	return c, err == nil
}

// readOvershoot reads the overshoot of the dimension or of one of its plans, nil if there is
// none. An amount may not be above the limit beside it.
func (d *draft) readOvershoot(o object, limit quota.Limit, limitOK bool) (*Overshoot, bool) {
	f, ok := o.get("overshoot")
	if !ok {
		return nil, true
	}
	if d.classOK && d.Class == quota.Exact {
		f.refuse("class exact has no overshoot", notExact)
		return nil, false
	}
	s, ok := f.overshoot()
	if !ok {
		return nil, false
	}
	if s.Absolute && limitOK && !limit.Unlimited && s.Units > limit.Units {
		f.refuse(fmt.Sprintf("%d is above the limit of %d", s.Units, limit.Units),
			fmt.Sprintf("0 to %d, or a percentage", limit.Units))
		return nil, false
	}
	return &s, true
}

// checkBudget looks at a limit together with the budget that holds under it.
func (d *draft) checkBudget(at value, limit quota.Limit, o Overshoot) {
	if !d.budgetOK || !d.classOK || d.Class == quota.Exact {
		return
	}
	budget := o.Of(limit)
	if limit.Unlimited || !at.checkSum(limit.Units, budget.Units) {
		return
	}
	switch {
	case limit.Units == 0: // denies everything anyway
	case budget.Units == 0:
		at.warn(fmt.Sprintf("the overshoot budget of %d (%s) is 0 units: every take goes to the exact lane", limit.Units, o))
	case budget.Units < fewUnits:
		at.warn(fmt.Sprintf("the overshoot budget of %d (%s) is %d units: with more agents than that, every take goes to the exact lane",
			limit.Units, o, budget.Units))
	}
}

// checkSum refuses a limit whose bound, limit plus overshoot, is no amount.
func (v value) checkSum(limit, budget quota.Units) bool {
	_, err := limit.Add(budget)
	if err != nil {
		v.refuse(fmt.Sprintf("%d and its overshoot of %d together leave the int64 range", limit, budget),
			"a limit that with its overshoot is at most "+maxInt64Text)
	}
	return err == nil
}

// fewUnits is a budget that a handful of agents use up with leases of one unit.
const fewUnits quota.Units = 10

// period reads when windows begin.
func (d *draft) period() {
	v, ok := d.need("period", "{every, timezone, anchor}")
	if !ok {
		return
	}
	o, ok := v.object("every", "timezone", "anchor")
	if !ok {
		return
	}
	const everyAllowed = "second, minute, hour, day, week, month or year"
	every, everyOK := "", false
	if f, ok := o.need("every", everyAllowed); ok {
		every, _, everyOK = f.scalar(everyAllowed)
	}
	zone, zoneOK := "", true
	if f, ok := o.get("timezone"); ok {
		zone, _, zoneOK = f.scalar("an IANA name such as Asia/Seoul")
	}
	day, clock, anchorOK := 0, "", true
	anchor := object{}
	if f, ok := o.get("anchor"); ok {
		if anchor, ok = f.object("day", "time"); ok {
			day, clock, anchorOK = anchor.anchor()
		} else {
			anchorOK = false
		}
	}
	if !everyOK || !zoneOK || !anchorOK {
		return
	}
	calendar, err := quota.ParsePeriod(every, zone, day, clock)
	if err == nil {
		d.Period, d.periodOK = calendar, true
		return
	}
	refusePeriod(o, anchor, err)
}

// anchor reads where in a period its windows begin. A day of 0 stands for none in
// ParsePeriod, so a written 0 becomes a day that it refuses.
func (o object) anchor() (day int, clock string, ok bool) {
	ok = true
	if f, given := o.get("day"); given {
		n, dayOK := f.whole(0, "a day number such as 31")
		if day = int(min(n, 1000)); day == 0 {
			day = -1
		}
		ok = dayOK
	}
	if f, given := o.get("time"); given {
		var timeOK bool
		if clock, _, timeOK = f.scalar("HH:MM from 00:00 to 23:59"); timeOK && clock == "" {
			clock = "empty"
		}
		ok = ok && timeOK
	}
	return day, clock, ok
}

// refusePeriod reports what ParsePeriod refused at the field that it names.
func refusePeriod(o, anchor object, err error) {
	var field *quota.FieldError
	if !errors.As(err, &field) {
		o.refuse(err.Error(), "")
		return
	}
	at, given := o.get(field.Field)
	switch field.Field {
	case "anchor.day":
		at, given = anchor.get("day")
	case "anchor.time":
		at, given = anchor.get("time")
	}
	if !given {
		o.child(field.Field, o.node).refuse("is refused", field.Allowed)
		return
	}
	at.refuse(fmt.Sprintf("%q is not allowed here", shorten(at.node.Value)), field.Allowed)
}
