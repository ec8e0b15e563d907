package trace

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quotalease/quotalease/ledger/quota"
)

func TestDimensionNames(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"blog":                  "blog",
		"Report_Export":         "report_export",
		"style2.css":            "style2.css",
		"~ann":                  "ann",
		"-x-":                   "x-",
		"a b/c":                 "a-b-c",
		"café":                  "caf-",
		"%7Eann":                "7eann",
		"":                      OtherDimension,
		"..":                    OtherDimension,
		"\x00\xff":              OtherDimension,
		strings.Repeat("a", 99): strings.Repeat("a", 63),
	} {
		if got := DimensionName(text); got != want {
			t.Errorf("%q is named %q, want %q", text, got, want)
		}
	}
}

func FuzzDimensionName(f *testing.F) {
	f.Add("~Ann's\x00 reports")
	f.Fuzz(func(t *testing.T, s string) {
		name := DimensionName(s)
		if err := quota.ValidateDimension(name); err != nil {
			t.Errorf("%q is named %q: %v", s, name, err)
		}
		if again := DimensionName(name); again != name {
			t.Errorf("%q is named %q, and that %q", s, name, again)
		}
	})
}

// eventsOf makes one event a second, "tenant/dimension cost" each.
func eventsOf(texts ...string) []Event {
	events := make([]Event, len(texts))
	for i, text := range texts {
		e := Event{At: time.Unix(int64(i), 0).UTC()}
		if _, err := fmt.Sscanf(strings.Replace(text, "/", " ", 1), "%s %s %d", &e.Tenant, &e.Dimension, &e.Cost); err != nil {
			panic(err)
		}
		events[i] = e
	}
	return events
}

func dimensionsOf(events []Event) []string {
	names := make([]string, len(events))
	for i, e := range events {
		names[i] = e.Dimension
	}
	return names
}

func TestFoldKeepsTheMostFrequent(t *testing.T) {
	t.Parallel()
	events := eventsOf("a/blog 1", "a/blog 1", "a/other 1", "a/jobs 900", "a/img 1", "a/css 1", "a/img 1", "a/blog 1")
	before := slices.Clone(events)
	for _, c := range []struct {
		keep int
		want []string
	}{
		{4, []string{"blog", "blog", "other", "jobs", "img", "css", "img", "blog"}},
		{3, []string{"blog", "blog", "other", "other", "img", "css", "img", "blog"}}, // css before jobs, by name
		{1, []string{"blog", "blog", "other", "other", "other", "other", "other", "blog"}},
		{0, slices.Repeat([]string{"other"}, 8)},
		{-1, slices.Repeat([]string{"other"}, 8)},
	} {
		if got := dimensionsOf(Fold(events, c.keep)); !slices.Equal(got, c.want) {
			t.Errorf("keep %d: %v, want %v", c.keep, got, c.want)
		}
	}
	if !slices.Equal(events, before) {
		t.Errorf("the events given were changed to %v", events)
	}
}

func drawEvents(t *rapid.T) []Event {
	cost := rapid.OneOf(rapid.Int64Range(0, 5), rapid.Int64Range(0, int64(quota.MaxUnits/1000)))
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Event {
		return Event{
			At:        time.Unix(rapid.Int64Range(0, 100).Draw(t, "at"), 0).UTC(),
			Tenant:    rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "tenant"),
			Dimension: rapid.SampledFrom([]string{"p", "q", "r", "s", "u", OtherDimension}).Draw(t, "dimension"),
			Cost:      quota.Units(cost.Draw(t, "cost")),
		}
	}), 0, 200).Draw(t, "events")
}

func TestFoldAndDeriveKeepTheTotals(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		events := drawEvents(t)
		keep := rapid.IntRange(0, 7).Draw(t, "keep")
		folded := Fold(events, keep)
		derived, err := Derive(folded)
		if err != nil {
			t.Fatal(err)
		}
		var before, after quota.Units
		for i, e := range events {
			before += e.Cost
			if f := folded[i]; f.At != e.At || f.Tenant != e.Tenant || f.Cost != e.Cost {
				t.Fatalf("%+v was folded to %+v", e, f)
			}
		}
		count, apart := 0, 0
		for _, d := range derived {
			after += d.Total
			count += d.Events
			if d.Dimension != OtherDimension {
				apart++
			}
			if d.BusiestUse > d.Total || d.BusiestUse*quota.Units(d.Tenants) < d.Total {
				t.Fatalf("the busiest of %+v cannot have used that", d)
			}
			if d.Limit < 1 || (d.Limit > 1 && d.Limit != d.BusiestUse/2) {
				t.Fatalf("limit of %+v", d)
			}
		}
		if before != after || count != len(events) || apart > keep {
			t.Fatalf("%d events of %d units became %d of %d, in %d dimensions of %d", len(events), before, count, after, apart, keep)
		}
	})
}
