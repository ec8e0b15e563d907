package quota_test

import (
	"errors"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

func TestParsePeriodNamesTheField(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		every, zone string
		day         int
		clock       string
		want        string
	}{
		{"", "", 0, "", "every: second, minute, hour, day, week, month or year"},
		{"Day", "", 0, "", "every: second, minute, hour, day, week, month or year"},
		{"day", "Local", 0, "", "timezone: an IANA name such as Asia/Seoul, or nothing for UTC"},
		{"day", "localtime", 0, "", "timezone: an IANA name such as Asia/Seoul, or nothing for UTC"},
		{"day", "right/UTC", 0, "", "timezone: an IANA name such as Asia/Seoul, or nothing for UTC"},
		{"day", "America//New_York", 0, "", "timezone: an IANA name such as Asia/Seoul, or nothing for UTC"},
		{"day", "Etc/../UTC", 0, "", "timezone: an IANA name such as Asia/Seoul, or nothing for UTC"},
		{"day", "+09:00", 0, "", "timezone: an IANA name such as Asia/Seoul, or nothing for UTC"},
		{"day", "Mars/Olympus", 0, "", "timezone: an IANA name such as Asia/Seoul, or nothing for UTC"},
		{"month", "UTC", 32, "", "anchor.day: 1 to 31 for a month"},
		{"month", "UTC", -1, "", "anchor.day: 1 to 31 for a month"},
		{"week", "UTC", 8, "", "anchor.day: 1 to 7 for a week"},
		{"day", "UTC", 1, "", "anchor.day: only with week and month"},
		{"year", "UTC", 1, "", "anchor.day: only with week and month"},
		{"hour", "UTC", 0, "00:00", "anchor.time: only with day, week, month and year"},
		{"day", "UTC", 0, "24:00", "anchor.time: HH:MM from 00:00 to 23:59"},
		{"day", "UTC", 0, "2:30", "anchor.time: HH:MM from 00:00 to 23:59"},
		{"day", "UTC", 0, "02:30:00", "anchor.time: HH:MM from 00:00 to 23:59"},
	} {
		c, err := quota.ParsePeriod(tc.every, tc.zone, tc.day, tc.clock)
		var field *quota.FieldError
		if !errors.As(err, &field) || err.Error() != tc.want || c != (quota.Calendar{}) {
			t.Errorf("period (%q, %q, %d, %q): %v and %q, want %q", tc.every, tc.zone, tc.day, tc.clock, c, err, tc.want)
		}
	}
}

func TestCalendarsCompareAndPrint(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		a, b quota.Calendar
		text string
	}{
		{calendar(t, "day", "Asia/Seoul", 0, ""), calendar(t, "day", "Asia/Seoul", 0, "00:00"), "day, Asia/Seoul"},
		{calendar(t, "hour", "", 0, ""), calendar(t, "hour", "UTC", 0, ""), "hour, UTC"},
		{calendar(t, "week", "UTC", 0, ""), calendar(t, "week", "UTC", 1, ""), "week, UTC"},
		{calendar(t, "week", "UTC", 7, "06:00"), calendar(t, "week", "", 7, "06:00"), "week, UTC, from Sunday, at 06:00"},
		{calendar(t, "month", "Europe/Berlin", 31, "02:30"), calendar(t, "month", "Europe/Berlin", 31, "02:30"), "month, Europe/Berlin, from day 31, at 02:30"},
		{quota.Calendar{}, quota.Calendar{}, "endless"},
	} {
		if tc.a != tc.b || tc.a.String() != tc.text {
			t.Errorf("%v and %v, want the same and %q", tc.a, tc.b, tc.text)
		}
	}
	if calendar(t, "day", "Asia/Seoul", 0, "") == calendar(t, "day", "Asia/Tokyo", 0, "") {
		t.Error("calendars of two zones are equal")
	}
}

func TestAKeyWithoutPeriodHasOneEndlessWindow(t *testing.T) {
	t.Parallel()
	var c quota.Calendar
	w := c.WindowAt(instant(t, "2026-11-29T00:00:00Z"))
	if !w.Endless() || !w.Contains(instant(t, "1999-01-01T00:00:00Z")) || c.Next(w) != w || c.Shortest() != 0 {
		t.Errorf("window %v, next %v, shortest %v", w, c.Next(w), c.Shortest())
	}
}

func FuzzParsePeriod(f *testing.F) {
	f.Add("day", "Asia/Seoul", 0, "", int64(1_795_900_000))
	f.Add("month", "Europe/Berlin", 31, "02:30", int64(0))
	f.Add("week", "", 7, "23:59", int64(-1))
	f.Add("hour", "Australia/Lord_Howe", 0, "", int64(1_775_315_700))
	f.Add("second", "Local", -1, "24:00", int64(1))
	allowed := map[string]bool{"every": true, "timezone": true, "anchor.day": true, "anchor.time": true}
	f.Fuzz(func(t *testing.T, every, zone string, day int, clock string, unix int64) {
		c, err := quota.ParsePeriod(every, zone, day, clock)
		if err != nil {
			var field *quota.FieldError
			if !errors.As(err, &field) || !allowed[field.Field] || field.Allowed == "" {
				t.Fatalf("refused without a field: %v", err)
			}
			return
		}
		again, err := quota.ParsePeriod(string(c.Every()), c.Timezone(), c.AnchorDay(), c.AnchorTime())
		if err != nil || again != c {
			t.Fatalf("%v sent as plain values reads %v, %v", c, again, err)
		}
		at := time.Unix(unix%200_000_000_000, 0)
		if at.Year() < 1 {
			return
		}
		if w := c.WindowAt(at); !w.Contains(at) || !w.Start.Before(w.End) || c.Next(w).Start != w.End {
			t.Fatalf("%v: %v lies in %v", c, at, w)
		}
	})
}
