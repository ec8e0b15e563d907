package envoy

import (
	"fmt"
	"slices"
	"strings"
)

// units are those of the original.
var units = []string{"second", "minute", "hour", "day", "week", "month", "year"}

const unitsAllowed = "second, minute, hour, day, week, month or year"

// limit reads a rate_limit block.
func (n node) limit() *limit {
	o, ok := n.object(limitFields...)
	if !ok {
		return nil
	}
	l := &limit{at: n, times: 1, unlimited: o.flag("unlimited")}
	unit, unitOK := o.word("unit")
	l.unit = strings.ToLower(unit)
	known := slices.Contains(units, l.unit)
	at, given := o.fields["unit"]
	switch {
	case !unitOK: // said already
	case l.unlimited && known:
		at.refuse("has no meaning with unlimited", "no unit beside unlimited")
	case l.unlimited && given:
		at.note("has no effect: unlimited")
	case l.unlimited || known:
	case given:
		at.refuse(fmt.Sprintf("%q is not a unit", shorten(unit)), unitsAllowed)
	default:
		n.refuse("has no unit", "unit: "+unitsAllowed+", or unlimited: true")
	}
	l.amount(o)
	l.name, _ = o.label("name", maxAliasBytes)
	o.field("replaces", func(f node) { l.readReplaces(f) })
	return l
}

// amount reads how many requests a window lets pass.
func (l *limit) amount(o object) {
	at, given := o.fields["requests_per_unit"]
	if given {
		l.requests, _ = at.number(0)
	}
	switch {
	case given && l.unlimited:
		at.note("has no effect: unlimited")
	case !given && !l.unlimited:
		l.at.note("requests_per_unit is missing, which is 0: everything is denied")
	}
	o.field("unit_multiplier", func(f node) {
		n, ok := f.number(1)
		if ok {
			l.times = n
		}
		if l.unlimited {
			f.note("has no effect: unlimited")
		}
	})
}

func (l *limit) readReplaces(n node) {
	n.list("{name}", func(item node) {
		o, ok := item.object("name")
		if !ok {
			return
		}
		name, ok := o.label("name", maxAliasBytes)
		switch {
		case !ok:
		case name == "":
			item.refuse("has no name", "the name of a rate_limit")
		case name == l.name:
			item.refuse("replaces itself", "the name of another rate_limit")
		case slices.Contains(l.replaces, name):
		case len(l.replaces) == maxReplaces:
			item.refuse("is one too many", fmt.Sprintf("at most %d names", maxReplaces))
		default:
			l.replaces = append(l.replaces, name)
		}
	})
}
