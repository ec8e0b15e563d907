package quota

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestAnOverrideHasOneName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]Override{
		"exports@5/MINUTE":        {Units: 5, Every: EveryMinute, Times: 1},
		"exports@0/DAY":           {Every: EveryDay, Times: 1},
		"exports@4294967295/YEAR": {Units: MaxOverride, Every: EveryYear, Times: 1},
		"exports@7/10SECOND":      {Units: 7, Every: EverySecond, Times: 10},
	} {
		dimension, o, derived := Derived(name)
		if !derived || dimension != "exports" || o != want || o.Of("exports") != name {
			t.Errorf("%s: %q %+v %v", name, dimension, o, derived)
		}
		if err := (Key{Tenant: "acme", Dimension: name}).Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{
		"exports", "exports@", "exports@5", "exports@5/", "exports@5/minute", "exports@05/MINUTE", "exports@+5/MINUTE", "exports@5/1MINUTE",
		"exports@5/0MINUTE", "exports@5/01MINUTE", "exports@5/2YEAR", "exports@4294967296/DAY", "exports@-1/DAY", "exports@5/FORTNIGHT",
		"exports@5/MINUTE@5/MINUTE", "exports@5/99999999999999999999SECOND", "exports@5/MINUTE ",
	} {
		if _, o, derived := Derived(name); derived {
			t.Errorf("%q was read as %+v", name, o)
		}
		if err := (Key{Tenant: "acme", Dimension: name}).Validate(); (err == nil) != (name == "exports") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func FuzzDerived(f *testing.F) {
	f.Add("exports@5/10SECOND")
	f.Add("@/")
	f.Fuzz(func(t *testing.T, name string) {
		if dimension, o, derived := Derived(name); derived && (o.Of(dimension) != name || o.Validate() != nil) {
			t.Fatalf("%q was read as %q %+v", name, dimension, o)
		}
	})
}

func TestAnOverrideOutOfRangeNamesItsField(t *testing.T) {
	t.Parallel()
	for field, o := range map[string]Override{
		"requests_per_unit": {Units: MaxOverride + 1, Every: EveryDay, Times: 1},
		"unit":              {Units: 1, Every: "fortnight", Times: 1},
		"unit_multiplier":   {Units: 1, Every: EveryMonth, Times: 13},
	} {
		var bad *FieldError
		if err := o.Validate(); !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestAnOverrideKeepsACalendarOfTheSameLength(t *testing.T) {
	t.Parallel()
	seoul, err := ParsePeriod("day", "Asia/Seoul", 0, "06:00")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 30, 7, 41, 13, 0, time.UTC)
	for _, tc := range []struct {
		name       string
		of         Calendar
		o          Override
		start, end string
	}{
		{"the same length", seoul, Override{5, EveryDay, 1}, "2026-11-29T21:00:00Z", "2026-11-30T21:00:00Z"},
		{"another length follows the zone", seoul, Override{5, EveryMonth, 1}, "2026-10-31T15:00:00Z", "2026-11-30T15:00:00Z"},
		{"several are counted in UTC", seoul, Override{5, EveryDay, 2}, "2026-11-29T00:00:00Z", "2026-12-01T00:00:00Z"},
		{"10 seconds", Calendar{}, Override{5, EverySecond, 10}, "2026-11-30T07:41:10Z", "2026-11-30T07:41:20Z"},
		{"15 minutes", Calendar{}, Override{5, EveryMinute, 15}, "2026-11-30T07:30:00Z", "2026-11-30T07:45:00Z"},
		{"6 hours", Calendar{}, Override{5, EveryHour, 6}, "2026-11-30T06:00:00Z", "2026-11-30T12:00:00Z"},
		{"a week", Calendar{}, Override{5, EveryWeek, 1}, "2026-11-30T00:00:00Z", "2026-12-07T00:00:00Z"},
		{"a quarter", Calendar{}, Override{5, EveryMonth, 3}, "2026-10-01T00:00:00Z", "2027-01-01T00:00:00Z"},
	} {
		w := tc.o.Calendar(tc.of).WindowAt(at)
		if got := w.String(); got != tc.start+"/"+tc.end {
			t.Errorf("%s: %s, want %s/%s", tc.name, got, tc.start, tc.end)
		}
	}
}

// Windows of several follow each other without a gap, and contain the moments that they are
// asked for.
func TestWindowsOfSeveralTileTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		every := rapid.SampledFrom([]Every{EverySecond, EveryMinute, EveryHour, EveryDay, EveryWeek, EveryMonth}).Draw(t, "every")
		c := Override{Every: every, Times: rapid.Int64Range(2, 12).Draw(t, "times")}.Calendar(Calendar{})
		at := time.Unix(rapid.Int64Range(-1e9, 4e9).Draw(t, "at"), 0)
		w := c.WindowAt(at)
		next := c.Next(w)
		if !w.Contains(at) || !next.Start.Equal(w.End) || c.WindowAt(w.Start) != w || c.WindowAt(w.End.Add(-time.Second)) != w || w.End.Sub(w.Start) < c.Shortest() {
			t.Fatalf("%v at %v: %v, then %v", c, at, w, next)
		}
	})
}

func TestAnOverriddenRateIsNeverFasterThanItsWindow(t *testing.T) {
	t.Parallel()
	if got := (Override{5, EveryMinute, 1}).Rate(); got != (Rate{5, time.Minute}) {
		t.Error(got)
	}
	if got := (Override{5, EveryMonth, 2}).Rate(); got != (Rate{5, 62 * 24 * time.Hour}) {
		t.Error(got)
	}
}
