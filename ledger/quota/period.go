package quota

import (
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"
)

// Every says how often a calendar begins a new window.
type Every string

// The lengths that a policy may name.
const (
	EverySecond Every = "second"
	EveryMinute Every = "minute"
	EveryHour   Every = "hour"
	EveryDay    Every = "day"
	EveryWeek   Every = "week"
	EveryMonth  Every = "month"
	EveryYear   Every = "year"
)

// Calendar cuts time into the windows of a period quota. Calendars are made by ParsePeriod
// and may be compared with ==. The zero value has one endless window, as rate and
// concurrency keys do.
//
// Windows follow the local clock of the calendar's zone:
//
//   - Seconds and minutes are those of UTC. An hour begins on the local full hour, a day at
//     the anchor time, a week on the anchor day (Monday unless said otherwise), a month on
//     the anchor day or on its last day if it is shorter, a year on January 1.
//   - A boundary that the local clock skips moves to the first instant after the gap. A
//     boundary that the local clock shows twice is the first of the two. Both in one
//     sentence: a window begins when the clock first shows its boundary, or a later time.
//     So a day, week, month or year begins once, on 23-hour and 25-hour days too.
//   - Hours stay hours and days stay days: of a change of the clock, hour windows follow only
//     what is not a whole hour, day windows only what is not a whole day. Where 03:00 becomes
//     02:00, one hour window ends and the next begins, and a 25-hour day has 25 of them. A
//     day that a zone skips altogether has no window.
//
// Calendars hold for the years 1 to 9999.
type Calendar struct {
	every  Every
	zone   *time.Location // from location, so equal names are equal pointers
	day    int            // anchor day of weeks (1 is Monday) and months; else 0
	minute int            // anchor time, in minutes after local midnight
	times  int64          // windows of so many, in UTC (see Override); 0: of one
}

// ParsePeriod reads the period of a policy. An empty timezone means UTC, anchorDay 0 the
// first day, and an empty anchorTime midnight; each may be given only where it has a
// meaning. A refusal is a *FieldError for every, timezone, anchor.day or anchor.time.
func ParsePeriod(every, timezone string, anchorDay int, anchorTime string) (Calendar, error) {
	c := Calendar{every: Every(every), day: anchorDay}
	if _, known := shortest[c.every]; !known {
		return Calendar{}, &FieldError{Field: "every", Allowed: "second, minute, hour, day, week, month or year"}
	}
	zone, ok := location(timezone)
	if !ok {
		return Calendar{}, &FieldError{Field: "timezone", Allowed: "an IANA name such as Asia/Seoul, or nothing for UTC"}
	}
	c.zone = zone
	if allowed := c.anchorDays(); anchorDay < 0 || anchorDay > allowed {
		if allowed == 0 {
			return Calendar{}, &FieldError{Field: "anchor.day", Allowed: "only with week and month"}
		}
		return Calendar{}, &FieldError{Field: "anchor.day", Allowed: fmt.Sprintf("1 to %d for a %s", allowed, every)}
	} else if allowed > 0 && anchorDay == 0 {
		c.day = 1
	}
	if anchorTime == "" {
		return c, nil
	}
	if !c.anchored() {
		return Calendar{}, &FieldError{Field: "anchor.time", Allowed: "only with day, week, month and year"}
	}
	if c.minute, ok = parseClock(anchorTime); !ok {
		return Calendar{}, &FieldError{Field: "anchor.time", Allowed: "HH:MM from 00:00 to 23:59"}
	}
	return c, nil
}

// Every returns how often a window begins.
func (c Calendar) Every() Every { return c.every }

// Timezone returns the IANA name of the zone.
func (c Calendar) Timezone() string {
	if c.zone == nil {
		return ""
	}
	return c.zone.String()
}

// AnchorDay returns the first day of a week (1 is Monday) or month, and 0 for the others.
func (c Calendar) AnchorDay() int { return c.day }

// AnchorTime returns the local time at which a window begins as HH:MM, and nothing for
// windows shorter than a day.
func (c Calendar) AnchorTime() string {
	if !c.anchored() {
		return ""
	}
	return fmt.Sprintf("%02d:%02d", c.minute/60, c.minute%60)
}

// Local returns t as the calendar's zone shows it, with its offset, for people.
func (c Calendar) Local(t time.Time) time.Time {
	if c.zone == nil {
		return t.UTC()
	}
	return t.In(c.zone)
}

func (c Calendar) String() string {
	if c.every == "" {
		return "endless"
	}
	s := fmt.Sprintf("%s, %s", c.every, c.zone)
	if c.times > 0 {
		s = fmt.Sprintf("%d %ss, %s", c.times, c.every, c.zone)
	}
	switch {
	case c.every == EveryWeek && c.day > 1:
		s += ", from " + time.Weekday(c.day%7).String()
	case c.every == EveryMonth && c.day > 1:
		s += fmt.Sprintf(", from day %d", c.day)
	}
	if c.minute > 0 {
		s += ", at " + c.AnchorTime()
	}
	return s
}

// shortest is what windows last at least: of the zones, some have put their clock forward by
// three hours, by half an hour, and by a whole day.
var shortest = map[Every]time.Duration{
	EverySecond: time.Second,
	EveryMinute: time.Minute,
	EveryHour:   30 * time.Minute,
	EveryDay:    21 * time.Hour,
	EveryWeek:   6 * 24 * time.Hour,
	EveryMonth:  27 * 24 * time.Hour,
	EveryYear:   364 * 24 * time.Hour,
}

// Shortest returns a time that no window of the calendar since 2000 falls short of, and 0
// for the endless window.
func (c Calendar) Shortest() time.Duration {
	return shortest[c.every] * time.Duration(max(c.times, 1))
}

// Next returns the window that begins where w ends. An endless window is its own next.
func (c Calendar) Next(w Window) Window {
	if w.Endless() {
		return w
	}
	return c.WindowAt(w.End)
}

// WindowAt returns the window that contains t.
func (c Calendar) WindowAt(t time.Time) Window {
	at, times := t.Unix(), max(c.times, 1)
	switch c.every {
	case "":
		return Window{}
	case EverySecond, EveryMinute:
		length := int64(shortest[c.every]/time.Second) * times
		start := floorDiv(at, length) * length
		return windowOf(start, start+length)
	}
	// Far enough back that the local clock cannot have reached the window's boundary,
	// whatever the zone did since.
	from := at - lookBack[c.every]*times
	n := floorDiv(c.index(c.shows(from, at)), times) * times
	end := c.reach(from, c.edge(n+times))
	// After the clock was put back over a boundary it shows the old window's times again,
	// but the new window has begun.
	for end <= at {
		n += times
		end = c.reach(from, c.edge(n+times))
	}
	return windowOf(c.reach(from, c.edge(n)), end)
}

const (
	secondsPerHour = 3600
	secondsPerDay  = 24 * secondsPerHour
	secondsPerWeek = 7 * secondsPerDay
)

// lookBack is, in seconds, twice the longest local length of a window and two days, which
// is more than any two offsets differ.
var lookBack = map[Every]int64{
	EveryHour:  2*secondsPerHour + 2*secondsPerDay,
	EveryDay:   2*secondsPerDay + 2*secondsPerDay,
	EveryWeek:  2*secondsPerWeek + 2*secondsPerDay,
	EveryMonth: 2*31*secondsPerDay + 2*secondsPerDay,
	EveryYear:  2*366*secondsPerDay + 2*secondsPerDay,
}

// Local times are counted in seconds, as Unix time would count them if the zone were UTC.

// index returns the number of the window to which a local time belongs.
func (c Calendar) index(local int64) int64 {
	switch c.every {
	case EveryHour:
		return floorDiv(local, secondsPerHour)
	case EveryDay:
		return floorDiv(local-c.edge(0), secondsPerDay)
	case EveryWeek:
		return floorDiv(local-c.edge(0), secondsPerWeek)
	}
	date := time.Unix(local, 0).UTC()
	n := int64(date.Year())
	if c.every == EveryMonth {
		n = 12*n + int64(date.Month()) - 1
	}
	if c.edge(n) > local {
		n--
	}
	return n
}

// edge returns the local time at which window n begins.
func (c Calendar) edge(n int64) int64 {
	clock := int64(c.minute) * 60
	switch c.every {
	case EveryHour:
		return n * secondsPerHour
	case EveryDay:
		return n*secondsPerDay + clock
	case EveryWeek:
		// Day 0 of the count was a Thursday, three days after a Monday.
		return n*secondsPerWeek + int64(c.day-1-3)*secondsPerDay + clock
	case EveryMonth:
		year, month := int(floorDiv(n, 12)), time.Month(n-12*floorDiv(n, 12)+1)
		last := time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
		// The anchor is clamped afresh in each month: a short one does not move the next.
		return time.Date(year, month, min(c.day, last), 0, 0, 0, 0, time.UTC).Unix() + clock
	}
	return time.Date(int(n), time.January, 1, 0, 0, 0, 0, time.UTC).Unix() + clock
}

// reach returns the first instant, not before from, at which the local clock shows edge or
// a later time. time.Date is not asked: it promises no choice for skipped and repeated hours.
func (c Calendar) reach(from, edge int64) int64 {
	s := c.stretchAt(from)
	for {
		at := max(edge-s.shown, from)
		if !s.bounded || at < s.until {
			return at
		}
		from, s = s.until, c.after(s)
	}
}

// shows returns what the local clock shows at an instant, on the count that begins at from.
func (c Calendar) shows(from, at int64) int64 {
	s := c.stretchAt(from)
	for s.bounded && at >= s.until {
		s = c.after(s)
	}
	return at + s.shown
}

// stretch is a span of time in which the zone's offset does not change.
type stretch struct {
	offset  int64 // of the zone, in seconds east of UTC
	shown   int64 // the offset that windows follow: without changes by whole hours or days
	until   int64 // Unix seconds at which the next stretch begins
	bounded bool  // whether there is a next stretch
}

func (c Calendar) stretchAt(at int64) stretch {
	offset := c.offset(at)
	_, end := time.Unix(at, 0).In(c.zone).ZoneBounds()
	s := stretch{offset: offset, shown: offset, until: end.Unix(), bounded: !end.IsZero()}
	if s.bounded && s.until <= at {
		s.until = c.searchChange(at)
	}
	return s
}

// searchChange returns the first change of the offset in the day after at, or the end of that
// day. It is for December 31 of leap years: beyond a zone's table of changes, ZoneBounds
// takes every year for 365 days long, and there reports an end that has passed.
func (c Calendar) searchChange(at int64) int64 {
	before := c.offset(at)
	return at + 1 + int64(sort.Search(secondsPerDay-1, func(n int) bool {
		return c.offset(at+1+int64(n)) != before
	}))
}

func (c Calendar) offset(at int64) int64 {
	_, offset := time.Unix(at, 0).In(c.zone).Zone()
	return int64(offset)
}

func (c Calendar) after(s stretch) stretch {
	next := c.stretchAt(s.until)
	change := next.offset - s.offset
	switch c.every {
	case EveryHour:
		change %= secondsPerHour
	case EveryDay:
		change %= secondsPerDay
	}
	next.shown = s.shown + change
	return next
}

// anchorDays returns the largest anchor day, or 0 where there is none.
func (c Calendar) anchorDays() int {
	switch c.every {
	case EveryWeek:
		return 7
	case EveryMonth:
		return 31
	}
	return 0
}

// anchored reports whether windows begin at a time of day.
func (c Calendar) anchored() bool {
	switch c.every {
	case EveryDay, EveryWeek, EveryMonth, EveryYear:
		return true
	}
	return false
}

// locations holds each zone that was loaded, by name: equal calendars need equal pointers,
// and time.LoadLocation makes a new one per call. It holds IANA names only, so it is small.
var locations sync.Map // of string to *time.Location

// location returns the zone of an IANA name. All of those begin with a capital; other
// files of a zone directory (localtime, posixrules, right/...) mean the machine's own zone
// or another count of seconds.
func location(name string) (*time.Location, bool) {
	if name == "" {
		name = "UTC"
	}
	if known, ok := locations.Load(name); ok {
		return known.(*time.Location), true
	}
	if name[0] < 'A' || name[0] > 'Z' || name == "Local" ||
		strings.Contains(name, "//") || strings.ContainsFunc(name, notInZoneName) {
		return nil, false
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, false
	}
	known, _ := locations.LoadOrStore(name, zone)
	return known.(*time.Location), true
}

func notInZoneName(r rune) bool {
	alnum := (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z') || (r >= '0' && r <= '9')
	return !alnum && r != '/' && r != '_' && r != '-' && r != '+'
}

// parseClock reads HH:MM as minutes after midnight.
func parseClock(s string) (minutes int, ok bool) {
	if len(s) != len("HH:MM") {
		return 0, false
	}
	t, err := time.Parse("15:04", s)
	if err != nil {
		return 0, false
	}
	return t.Hour()*60 + t.Minute(), true
}

func windowOf(start, end int64) Window { return NewWindow(time.Unix(start, 0), time.Unix(end, 0)) }

// floorDiv divides and rounds down, also before 1970.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
