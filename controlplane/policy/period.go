package policy

import (
	"errors"
	"fmt"

	"github.com/quotalease/quotalease/ledger/quota"
)

// period reads when windows begin.
func (d *draft) period() {
	v, given := d.only(quota.Period, "period")
	if d.kindOK && d.Kind != quota.Period {
		d.periodOK = true // the endless one
		return
	}
	if d.kindOK && !given {
		d.need("period", "{every, timezone, anchor}")
	}
	if !given {
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
