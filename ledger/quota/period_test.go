package quota_test

import (
	"testing"
	"time"
	_ "time/tzdata" // the zones of these tests, on every machine

	"pgregory.net/rapid"

	"github.com/quotalease/quotalease/ledger/quota"
)

func calendar(t testing.TB, every, timezone string, day int, clock string) quota.Calendar {
	t.Helper()
	c, err := quota.ParsePeriod(every, timezone, day, clock)
	if err != nil {
		t.Fatalf("period (%q, %q, %d, %q): %v", every, timezone, day, clock, err)
	}
	return c
}

func instant(t testing.TB, rfc3339 string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, rfc3339)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// windowCase says in which window an instant falls. Start and end are written with the
// offsets that people in the zone would read.
type windowCase struct {
	name, every, zone string
	day               int
	clock             string
	at, start, end    string
}

func checkWindows(t *testing.T, cases []windowCase) {
	t.Helper()
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := calendar(t, tc.every, tc.zone, tc.day, tc.clock)
			got := c.WindowAt(instant(t, tc.at))
			if want := quota.NewWindow(instant(t, tc.start), instant(t, tc.end)); got != want {
				t.Errorf("%v at %s: window %v to %v, want %s to %s", c, tc.at, c.Local(got.Start), c.Local(got.End), tc.start, tc.end)
			}
		})
	}
}

func TestC7RealMonths(t *testing.T) {
	t.Parallel()
	checkWindows(t, []windowCase{
		{"January's last instant", "month", "UTC", 0, "", "2026-01-31T23:59:59.999999999Z", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"},
		{"Feb 28", "month", "UTC", 0, "", "2026-02-28T12:00:00Z", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"},
		{"leap Feb 29", "month", "UTC", 0, "", "2028-02-29T12:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"},
		{"Mar 1, first instant", "month", "UTC", 0, "", "2026-03-01T00:00:00Z", "2026-03-01T00:00:00Z", "2026-04-01T00:00:00Z"},
		{"Dec 31", "month", "UTC", 0, "", "2026-12-31T23:59:59Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"before 1970", "month", "UTC", 0, "", "1969-12-31T23:59:59Z", "1969-12-01T00:00:00Z", "1970-01-01T00:00:00Z"},
		{"week: Monday's first instant", "week", "UTC", 0, "", "2026-11-30T00:00:00Z", "2026-11-30T00:00:00Z", "2026-12-07T00:00:00Z"},
		{"week: Sunday's last instant", "week", "UTC", 1, "", "2026-11-29T23:59:59.999Z", "2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z"},
		{"week from Sunday", "week", "UTC", 7, "", "2026-11-29T00:00:00Z", "2026-11-29T00:00:00Z", "2026-12-06T00:00:00Z"},
		{"week from Wednesday 06:00", "week", "UTC", 3, "06:00", "2026-12-02T05:59:59Z", "2026-11-25T06:00:00Z", "2026-12-02T06:00:00Z"},
		{"year", "year", "UTC", 0, "", "2028-12-31T23:59:59Z", "2028-01-01T00:00:00Z", "2029-01-01T00:00:00Z"},
		{"year at 06:00", "year", "UTC", 0, "06:00", "2028-01-01T05:59:59Z", "2027-01-01T06:00:00Z", "2028-01-01T06:00:00Z"},
		{"day at 23:59", "day", "UTC", 0, "23:59", "2028-02-29T23:58:00Z", "2028-02-28T23:59:00Z", "2028-02-29T23:59:00Z"},
		{"hour", "hour", "UTC", 0, "", "2026-11-29T12:59:59Z", "2026-11-29T12:00:00Z", "2026-11-29T13:00:00Z"},
		{"minute", "minute", "UTC", 0, "", "2026-11-29T12:00:59.9Z", "2026-11-29T12:00:00Z", "2026-11-29T12:01:00Z"},
		{"second", "second", "UTC", 0, "", "2026-11-29T12:00:59.9Z", "2026-11-29T12:00:59Z", "2026-11-29T12:01:00Z"},
		{"second before 1970", "second", "UTC", 0, "", "1969-12-31T23:59:59.5Z", "1969-12-31T23:59:59Z", "1970-01-01T00:00:00Z"},
	})

	t.Run("billing anchor 31 does not drift", func(t *testing.T) {
		t.Parallel()
		c := calendar(t, "month", "UTC", 31, "")
		w := c.WindowAt(instant(t, "2026-01-31T00:00:00Z"))
		for _, want := range []string{
			"2026-01-31", "2026-02-28", "2026-03-31", "2026-04-30", "2026-05-31", "2026-06-30", "2026-07-31",
			"2026-08-31", "2026-09-30", "2026-10-31", "2026-11-30", "2026-12-31", "2027-01-31", "2027-02-28",
		} {
			if got := w.Start.Format(time.DateTime); got != want+" 00:00:00" {
				t.Errorf("window starts %s, want %s", got, want)
			}
			w = c.Next(w)
		}
		if got := c.WindowAt(instant(t, "2028-03-01T00:00:00Z")).Start.Format(time.DateOnly); got != "2028-02-29" {
			t.Errorf("leap year: window starts %s, want 2028-02-29", got)
		}
	})
}

func TestC8DST(t *testing.T) {
	t.Parallel()
	const berlin = "Europe/Berlin"
	checkWindows(t, []windowCase{
		{"23 h day", "day", berlin, 0, "", "2026-03-29T12:00:00+02:00", "2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00"},
		{"25 h day", "day", berlin, 0, "", "2026-10-25T12:00:00+01:00", "2026-10-25T00:00:00+02:00", "2026-10-26T00:00:00+01:00"},
		{"missing 02:30: until the gap", "day", berlin, 0, "02:30", "2026-03-29T01:59:59+01:00", "2026-03-28T02:30:00+01:00", "2026-03-29T03:00:00+02:00"},
		{"missing 02:30: from the first instant after the gap", "day", berlin, 0, "02:30", "2026-03-29T03:00:00+02:00", "2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"},
		{"doubled 02:30: before", "day", berlin, 0, "02:30", "2026-10-25T02:29:59+02:00", "2026-10-24T02:30:00+02:00", "2026-10-25T02:30:00+02:00"},
		{"doubled 02:30: the first one", "day", berlin, 0, "02:30", "2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"},
		{"doubled 02:30: put back to 02:10", "day", berlin, 0, "02:30", "2026-10-25T02:10:00+01:00", "2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"},
		{"doubled 02:30: no second reset", "day", berlin, 0, "02:30", "2026-10-25T02:30:00+01:00", "2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"},
		{"midnight missing", "day", "America/Sao_Paulo", 0, "", "2018-11-04T12:00:00-02:00", "2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"},
		{"midnight doubled", "day", "America/Havana", 0, "", "2026-11-01T00:30:00-05:00", "2026-11-01T00:00:00-04:00", "2026-11-02T00:00:00-05:00"},
		{"month over a change", "month", berlin, 0, "", "2026-03-29T12:00:00+02:00", "2026-03-01T00:00:00+01:00", "2026-04-01T00:00:00+02:00"},
		{"a day that was skipped", "day", "Pacific/Apia", 0, "", "2011-12-29T23:59:59-10:00", "2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00"},
		{"a skipped day leaves no stump", "day", "Pacific/Apia", 0, "00:30", "2011-12-31T00:15:00+14:00", "2011-12-29T00:30:00-10:00", "2011-12-31T00:30:00+14:00"},
		{"a week of six days", "week", "Pacific/Apia", 0, "", "2011-12-31T12:00:00+14:00", "2011-12-26T00:00:00-10:00", "2012-01-02T00:00:00+14:00"},
		{"hour after a gap", "hour", berlin, 0, "", "2026-03-29T03:00:00+02:00", "2026-03-29T03:00:00+02:00", "2026-03-29T04:00:00+02:00"},
		{"hour repeated, first", "hour", berlin, 0, "", "2026-10-25T02:30:00+02:00", "2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00"},
		{"hour repeated, second", "hour", berlin, 0, "", "2026-10-25T02:30:00+01:00", "2026-10-25T02:00:00+01:00", "2026-10-25T03:00:00+01:00"},
		{"half an hour skipped", "hour", "Australia/Lord_Howe", 0, "", "2026-10-04T02:45:00+11:00", "2026-10-04T02:30:00+11:00", "2026-10-04T03:00:00+11:00"},
		{"half an hour repeated", "hour", "Australia/Lord_Howe", 0, "", "2026-04-05T01:45:00+10:30", "2026-04-05T01:00:00+11:00", "2026-04-05T02:00:00+10:30"},
		{"leap year's last day", "day", berlin, 0, "", "2028-12-31T12:00:00+01:00", "2028-12-31T00:00:00+01:00", "2029-01-01T00:00:00+01:00"},
		{"leap year's last day, decades on", "day", berlin, 0, "", "2048-12-31T12:00:00+01:00", "2048-12-31T00:00:00+01:00", "2049-01-01T00:00:00+01:00"},
		{"leap year's last month, decades on", "month", berlin, 0, "", "2048-12-31T12:00:00+01:00", "2048-12-01T00:00:00+01:00", "2049-01-01T00:00:00+01:00"},
		{"minute repeated", "minute", berlin, 0, "", "2026-10-25T02:30:30+01:00", "2026-10-25T02:30:00+01:00", "2026-10-25T02:31:00+01:00"},
	})

	resets := func(t *testing.T, c quota.Calendar, from, to string) int {
		t.Helper()
		n, end := 0, instant(t, to)
		for w := c.WindowAt(instant(t, from)); w.Start.Before(end); w = c.Next(w) {
			n++
		}
		return n
	}
	t.Run("one reset a day", func(t *testing.T) {
		t.Parallel()
		for _, clock := range []string{"", "02:00", "02:30", "03:00"} {
			c := calendar(t, "day", berlin, 0, clock)
			if got := resets(t, c, "2026-01-01T12:00:00+01:00", "2027-01-01T00:00:00+01:00"); got != 365 {
				t.Errorf("%v: %d windows in 2026, want 365", c, got)
			}
		}
	})
	t.Run("23 and 25 hours", func(t *testing.T) {
		t.Parallel()
		c := calendar(t, "hour", berlin, 0, "")
		if got := resets(t, c, "2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00"); got != 23 {
			t.Errorf("spring: %d hours, want 23", got)
		}
		if got := resets(t, c, "2026-10-25T00:00:00+02:00", "2026-10-26T00:00:00+01:00"); got != 25 {
			t.Errorf("autumn: %d hours, want 25", got)
		}
	})
}

func TestC9TenantsZone(t *testing.T) {
	t.Parallel()
	checkWindows(t, []windowCase{
		{"00:30 in Shanghai is the local day", "day", "Asia/Shanghai", 0, "", "2026-11-29T16:30:00Z", "2026-11-30T00:00:00+08:00", "2026-12-01T00:00:00+08:00"},
		{"23:59 in Shanghai is the day before", "day", "Asia/Shanghai", 0, "", "2026-11-29T15:59:59Z", "2026-11-29T00:00:00+08:00", "2026-11-30T00:00:00+08:00"},
		{"local month", "month", "Asia/Seoul", 0, "", "2026-10-31T15:00:00Z", "2026-11-01T00:00:00+09:00", "2026-12-01T00:00:00+09:00"},
		{"local week", "week", "America/New_York", 0, "", "2026-11-30T04:59:59Z", "2026-11-23T00:00:00-05:00", "2026-11-30T00:00:00-05:00"},
		{"local full hour", "hour", "Asia/Kolkata", 0, "", "2026-11-29T10:15:00Z", "2026-11-29T15:00:00+05:30", "2026-11-29T16:00:00+05:30"},
		{"local full hour, 45 minutes off", "hour", "Asia/Kathmandu", 0, "", "2026-11-29T10:15:00Z", "2026-11-29T16:00:00+05:45", "2026-11-29T17:00:00+05:45"},
	})
	c := calendar(t, "day", "Asia/Shanghai", 0, "")
	shown := c.Local(c.WindowAt(instant(t, "2026-11-29T16:30:00Z")).Start).Format(time.RFC3339)
	if want := "2026-11-30T00:00:00+08:00"; shown != want {
		t.Errorf("shown as %s, want %s", shown, want)
	}
}

// zones have or had: no change, half and quarter hours, changes by 30, 60, 120 and 180
// minutes, changes at midnight, several changes a year and skipped days.
var zones = []string{
	"UTC", "Asia/Seoul", "Asia/Kolkata", "Asia/Kathmandu", "Asia/Shanghai", "Asia/Pyongyang", "Asia/Gaza", "Asia/Beirut",
	"Europe/Berlin", "Europe/Dublin", "Europe/London", "Atlantic/Azores", "Africa/Casablanca", "Africa/Cairo", "Africa/Monrovia",
	"America/New_York", "America/St_Johns", "America/Havana", "America/Sao_Paulo", "America/Caracas", "America/Scoresbysund",
	"Australia/Lord_Howe", "Antarctica/Troll", "Antarctica/Casey", "Antarctica/Vostok", "Pacific/Apia", "Pacific/Kwajalein",
	"Pacific/Kiritimati", "Pacific/Chatham", "Etc/GMT+12",
}

var anchors = []string{"00:00", "00:30", "01:00", "02:00", "02:30", "03:00", "12:00", "23:30", "23:59"}

func drawCalendar(t *rapid.T) quota.Calendar {
	every := rapid.SampledFrom([]string{"second", "minute", "hour", "day", "week", "month", "year"}).Draw(t, "every")
	day, clock := 0, ""
	switch every {
	case "week":
		day = rapid.IntRange(0, 7).Draw(t, "day")
	case "month":
		day = rapid.IntRange(0, 31).Draw(t, "day")
	}
	if every != "second" && every != "minute" && every != "hour" {
		clock = rapid.SampledFrom(anchors).Draw(t, "clock")
	}
	c, err := quota.ParsePeriod(every, rapid.SampledFrom(zones).Draw(t, "zone"), day, clock)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// drawInstant prefers the neighbourhood of changes of the clock, where the faults are.
func drawInstant(t *rapid.T, c quota.Calendar) time.Time {
	at := time.Unix(rapid.Int64Range(946_684_800, 2_500_000_000).Draw(t, "at"), 0)
	if _, change := c.Local(at).ZoneBounds(); !change.IsZero() && rapid.Bool().Draw(t, "near a change") {
		at = change.Add(time.Duration(rapid.Int64Range(-90_000, 90_000).Draw(t, "off")) * time.Second)
	}
	return at.Add(time.Duration(rapid.Int64Range(0, 999_999_999).Draw(t, "ns")))
}

func TestWindowsTileTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := drawCalendar(t)
		at := drawInstant(t, c)
		w := c.WindowAt(at)
		next := c.Next(w)
		later := at.Add(time.Duration(rapid.Int64Range(0, int64(72*time.Hour)).Draw(t, "later")))
		switch {
		case !w.Contains(at):
			t.Fatalf("%v: %v is not in its window %v", c, at, w)
		case next.Start != w.End:
			t.Fatalf("%v: after %v comes %v", c, w, next)
		case w.End.Sub(w.Start) < c.Shortest():
			t.Fatalf("%v: %v is shorter than %v", c, w, c.Shortest())
		case c.WindowAt(w.Start) != w || c.WindowAt(w.End.Add(-time.Microsecond)) != w:
			t.Fatalf("%v: the ends of %v lie in other windows", c, w)
		case c.WindowAt(later).Start.Before(w.Start):
			t.Fatalf("%v: %v has an earlier window than %v", c, later, at)
		}
	})
}

// A window begins where the local clock shows the anchor for the first time, or at the very
// instant of a change of the clock that skipped it.
func TestWindowsBeginOnTheBoundary(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := drawCalendar(t)
		start := c.WindowAt(drawInstant(t, c)).Start
		local := c.Local(start)
		since, _ := local.ZoneBounds()
		var onBoundary bool
		switch c.Every() {
		case quota.EverySecond:
			onBoundary = start.Nanosecond() == 0
		case quota.EveryMinute:
			onBoundary = start.Second() == 0
		case quota.EveryHour:
			onBoundary = local.Format("04:05") == "00:00"
		default:
			onBoundary = local.Format("15:04:05") == c.AnchorTime()+":00"
		}
		if !onBoundary && !since.Equal(start) {
			t.Fatalf("%v: a window begins at %v", c, local)
		}
		if c.Every() == quota.EveryHour || since.IsZero() || start.Equal(since) || start.Sub(since) > 26*time.Hour {
			return
		}
		// Had the clock shown the same time before it was put back, the window would have
		// begun then.
		_, before := c.Local(since.Add(-time.Second)).Zone()
		_, now := local.Zone()
		if c.AnchorTime() != "" && start.Before(since.Add(time.Duration(before-now)*time.Second)) {
			t.Fatalf("%v: a window begins at the second %v", c, local)
		}
	})
}

// Every change of every zone, for every kind of window: no window is missed or cut short.
func TestWindowsAroundEveryChangeOfTheClock(t *testing.T) {
	t.Parallel()
	for _, zone := range zones {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			var cs []quota.Calendar
			for _, clock := range anchors {
				cs = append(cs, calendar(t, "day", zone, 0, clock), calendar(t, "week", zone, 2, clock), calendar(t, "month", zone, 31, clock), calendar(t, "year", zone, 0, clock))
			}
			cs = append(cs, calendar(t, "hour", zone, 0, ""))
			end := instant(t, "2030-01-01T00:00:00Z")
			_, at := cs[0].Local(instant(t, "2000-01-01T00:00:00Z")).ZoneBounds()
			for !at.IsZero() && at.Before(end) {
				for _, c := range cs {
					checkAround(t, c, at)
				}
				_, next := at.ZoneBounds()
				if !next.IsZero() && !next.After(at) { // on December 31 of some leap years
					next = at.Add(24 * time.Hour)
				}
				at = next
			}
		})
	}
}

func checkAround(t *testing.T, c quota.Calendar, change time.Time) {
	t.Helper()
	for w := c.WindowAt(change.Add(-3 * time.Hour)); w.Start.Before(change.Add(3 * time.Hour)); {
		next := c.Next(w)
		if w.End.Sub(w.Start) < c.Shortest() || next.Start != w.End || c.WindowAt(w.End.Add(-time.Second)) != w {
			t.Fatalf("%v: %v, then %v", c, w, next)
		}
		w = next
	}
}
