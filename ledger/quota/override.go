package quota

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Override is a limit that a request brings along: Units in each window of Times spans of
// time. What is counted under one has an account of its own, in a dimension that is derived
// from the policy's: report_export@5/MINUTE.
type Override struct {
	Units Units // 0 to MaxOverride
	Every Every
	Times int64 // 1, or more for a window of several: 10 of every second
}

// MaxOverride is the largest limit that a request may bring along.
const MaxOverride = math.MaxUint32

// maxTimes keeps windows within a year.
var maxTimes = map[Every]int64{
	EverySecond: 366 * secondsPerDay, EveryMinute: 366 * 24 * 60, EveryHour: 366 * 24, EveryDay: 366,
	EveryWeek: 52, EveryMonth: 12, EveryYear: 1,
}

// longest is what windows last at most, in UTC.
var longest = map[Every]time.Duration{
	EverySecond: time.Second, EveryMinute: time.Minute, EveryHour: time.Hour, EveryDay: 24 * time.Hour,
	EveryWeek: 7 * 24 * time.Hour, EveryMonth: 31 * 24 * time.Hour, EveryYear: 366 * 24 * time.Hour,
}

// Validate returns a *FieldError for requests_per_unit, unit or unit_multiplier.
func (o Override) Validate() error {
	most, known := maxTimes[o.Every]
	switch {
	case o.Units < 0 || o.Units > MaxOverride:
		return &FieldError{Field: "requests_per_unit", Allowed: fmt.Sprintf("0 to %d", uint32(MaxOverride))}
	case !known:
		return &FieldError{Field: "unit", Allowed: "second, minute, hour, day, week, month or year"}
	case o.Times < 1 || o.Times > most:
		return &FieldError{Field: "unit_multiplier", Allowed: fmt.Sprintf("1 to %d for a %s", most, o.Every)}
	}
	return nil
}

// Of returns the name of the dimension that is derived from one of the policy. There is one
// name for each override.
func (o Override) Of(dimension string) string {
	b := make([]byte, 0, len(dimension)+24)
	b = append(append(b, dimension...), '@')
	b = append(strconv.AppendInt(b, int64(o.Units), 10), '/')
	if o.Times > 1 {
		b = strconv.AppendInt(b, o.Times, 10)
	}
	return string(append(b, strings.ToUpper(string(o.Every))...))
}

// Derived reads a name that Of made. Any other name is a dimension's own.
func Derived(name string) (dimension string, o Override, derived bool) {
	dimension, limit, ok := strings.Cut(name, "@")
	if !ok {
		return name, Override{}, false
	}
	units, every, _ := strings.Cut(limit, "/")
	word := strings.TrimLeft(every, "0123456789")
	o = Override{Every: Every(strings.ToLower(word)), Times: 1}
	n, err := strconv.ParseUint(units, 10, 32)
	o.Units = Units(n)
	if digits := every[:len(every)-len(word)]; err == nil && digits != "" {
		o.Times, err = strconv.ParseInt(digits, 10, 64)
	}
	if err != nil || o.Validate() != nil || o.Of(dimension) != name {
		return name, Override{}, false
	}
	return dimension, o, true
}

// BaseDimension is the policy's dimension behind a name: what metrics are kept by, so that
// requests cannot make series.
func BaseDimension(name string) string {
	base, _, _ := strings.Cut(name, "@")
	return base
}

// Calendar cuts time as the override says. A calendar of the same length is kept, with its
// anchor; windows of several are counted in UTC, others follow the calendar's zone.
func (o Override) Calendar(of Calendar) Calendar {
	if o.Times == 1 && of.every == o.Every && of.times == 0 {
		return of
	}
	c := Calendar{every: o.Every, zone: of.zone}
	if c.zone == nil || o.Times > 1 {
		c.zone, _ = location("")
	}
	if o.Times > 1 {
		c.times = o.Times
	}
	if c.anchorDays() > 0 {
		c.day = 1
	}
	return c
}

// Rate is the override of a rate limit: so many units in the longest that its window lasts.
func (o Override) Rate() Rate {
	return Rate{Units: o.Units, Per: longest[o.Every] * time.Duration(o.Times)}
}
