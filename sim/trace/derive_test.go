package trace

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"github.com/quotalease/quotalease/ledger/quota"
)

func TestLimitIsHalfTheUseOfTheBusiestTenant(t *testing.T) {
	t.Parallel()
	events := eventsOf("b/blog 3", "a/blog 4", "b/blog 4", "a/jobs 1", "b/idle 0", "z/tie 5", "y/tie 5")
	want := []Derived{
		{Dimension: "blog", Limit: 3, BusiestTenant: "b", BusiestUse: 7, Events: 3, Tenants: 2, Total: 11},
		{Dimension: "idle", Limit: 1, BusiestTenant: "b", BusiestUse: 0, Events: 1, Tenants: 1, Total: 0},
		{Dimension: "jobs", Limit: 1, BusiestTenant: "a", BusiestUse: 1, Events: 1, Tenants: 1, Total: 1},
		{Dimension: "tie", Limit: 2, BusiestTenant: "y", BusiestUse: 5, Events: 2, Tenants: 2, Total: 10},
	}
	for range 20 { // the order of the events does not matter, nor that of a map
		got, err := Derive(events)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("got  %+v, %v\nwant %+v", got, err, want)
		}
		rand.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	}
	if got, err := Derive(nil); err != nil || len(got) != 0 {
		t.Errorf("no events: %v, %v", got, err)
	}
}

func TestDeriveRefusesSumsThatOverflow(t *testing.T) {
	t.Parallel()
	_, err := Derive(eventsOf("a/x 9223372036854775807", "b/y 1", "b/x 1"))
	if !errors.Is(err, quota.ErrOverflow) || err.Error() != "sum use of dimension x: amount leaves the int64 range" {
		t.Errorf("got %v", err)
	}
}

func TestDeriveFromTraces(t *testing.T) {
	t.Parallel()
	derive := func(t *testing.T, path string, keep int) []Derived {
		events, _ := loadFile(t, path)
		derived, err := Derive(Fold(events, keep))
		if err != nil {
			t.Fatal(err)
		}
		return derived
	}
	got := derive(t, filepath.Join("testdata", "access.log"), 3)
	want := []Derived{
		{"api", 17, "192.0.2.1", 34, 167, 9, 167},
		{"images", 10, "192.0.2.1", 20, 66, 9, 66},
		{"other", 6, "192.0.2.1", 12, 47, 9, 47},
		{"reports", 14, "192.0.2.1", 28, 115, 11, 115},
	}
	if !slices.Equal(got, want) {
		t.Errorf("access.log: %+v", got)
	}
	got = derive(t, filepath.Join("testdata", "usage.csv"), MaxDimensions)
	want = []Derived{
		{"api_calls", 27, "acme", 55, 80, 3, 80},
		{"llm_tokens", 138_237, "acme", 276_475, 204, 3, 398_430},
		{"report_export", 54, "acme", 108, 16, 3, 133},
	}
	if !slices.Equal(got, want) {
		t.Errorf("usage.csv: %+v", got)
	}
	t.Run("recorded", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(realTraces(t), "http-access.log")
		if got := derive(t, path, MaxDimensions); len(got) != 41 || got[slices.IndexFunc(got, isBlog)].Limit != 182 {
			t.Errorf("%s: %+v", path, got)
		}
		if got := derive(t, path, 10); len(got) != 11 || got[slices.IndexFunc(got, isBlog)].BusiestTenant != "10.0.0.8" {
			t.Errorf("%s, 10 dimensions: %+v", path, got)
		}
	})
}

func isBlog(d Derived) bool { return d.Dimension == "blog" }

func TestPolicyDocument(t *testing.T) {
	t.Parallel()
	derived := []Derived{{Dimension: "123", Limit: 1}, {Dimension: "blog", Limit: 182}}
	const want = `dimensions:
    - name: "123"
      kind: period
      limit: 1
      period: {every: year}
      class: hard
      overshoot: 10%
      lease: {ttl: 2s, grace: 500ms}
      outage: {mode: closed, after: 1s}
      cold: {wait: 500ms, then: deny}
    - name: blog
      kind: period
      limit: 182
      period: {every: year}
      class: hard
      overshoot: 10%
      lease: {ttl: 2s, grace: 500ms}
      outage: {mode: closed, after: 1s}
      cold: {wait: 500ms, then: deny}
`
	if got, err := PolicyYAML(derived); err != nil || string(got) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	if got, err := PolicyYAML(nil); err != nil || string(got) != "dimensions: []\n" {
		t.Errorf("nothing derived: %s, %v", got, err)
	}
}

func TestPolicyNamesAreReadBackAsTheyWere(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"yes", "null", "1e3", "0x1f", "2015-05-17", "1_0", "1.5"}))
		name := DimensionName(names.Draw(t, "name"))
		text, err := PolicyYAML([]Derived{{Dimension: name, Limit: quota.MaxUnits}})
		if err != nil {
			t.Fatal(err)
		}
		var doc struct {
			Dimensions []struct {
				Name  any
				Limit int64
			}
		}
		if err := yaml.Unmarshal(text, &doc); err != nil {
			t.Fatal(err)
		}
		if d := doc.Dimensions; len(d) != 1 || d[0].Name != any(name) || d[0].Limit != int64(quota.MaxUnits) {
			t.Fatalf("%q reads back as %+v", name, d)
		}
	})
}
