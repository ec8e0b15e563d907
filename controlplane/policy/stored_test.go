package policy

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

func TestTextRoundTrip(t *testing.T) {
	t.Parallel()
	odd := " odd\n\"name\"\xff.yaml"
	d, err := Parse([]File{
		{Name: "policies/a.yaml", Text: []byte(named("a") + "  description: |+\n    kept\n\n")},
		{Name: odd, Text: []byte("# only\n---\n" + named("b") + "---\n" + named("c") + "...\n")},
		{Name: "", Text: []byte(named("d") + "  unit: no line break at the end")},
	}, today)
	if err != nil {
		t.Fatal(err)
	}
	text := d.Text()
	again, err := ParseText(text)
	if err != nil {
		t.Fatal(err)
	}
	if changes := Diff(d, again); len(changes) > 0 || d.Sum() != again.Sum() || again.Text() != text {
		t.Errorf("the text comes back as something else: %v\n%s\n%s", changes, text, again.Text())
	}
	for i, want := range []string{"policies/a.yaml", odd, ""} {
		if got := again.files[i].Name; got != want {
			t.Errorf("file %d is named %q, want %q", i, got, want)
		}
	}
	if !strings.HasPrefix(text, "---\n# file: policies/a.yaml\ndimensions:\n") {
		t.Errorf("text begins with %.60q", text)
	}
}

func TestStoredTextIsAPolicyFile(t *testing.T) {
	t.Parallel()
	d, err := Parse([]File{{Name: "a.yaml", Text: []byte(named("a"))}, {Name: "b.yaml", Text: []byte(named("b"))}}, today)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse([]File{{Name: "saved.yaml", Text: []byte(d.Text())}}, today)
	if err != nil {
		t.Fatal(err)
	}
	if got.Sum() != d.Sum() || got.Text() != d.Text() {
		t.Errorf("saved and applied again it is %s", got.Text())
	}
}

func TestFaultsOfStoredTextNameTheOriginalLines(t *testing.T) {
	t.Parallel()
	_, err := ParseText("---\n# file: a.yaml\n" + named("a") + "---\n# file: b.yaml\n" + named("b") + "  limitt: 5\n")
	if err == nil || !strings.HasPrefix(err.Error(), "b.yaml:7: dimensions[0].limitt: unknown field") {
		t.Errorf("got %v", err)
	}
	if _, err := ParseText(""); err == nil {
		t.Error("an empty text was accepted")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(goodYAML)
	f.Add(dimensionWith())
	f.Add(dimensionWith("overshoot: 250", "lease: {ttl: 2ms, grace: 1s, max: 5, low_watermark: 0.5%}",
		"outage: {mode: open, after: 0s, for: 5m}", "cold: {wait: 0s, then: debt, units: 3}"))
	f.Add(rateWith("limit: 1000/60s", "burst: 2000", "plans: {pro: {limit: 5/d, burst: 0, lease: {max: 5}}}",
		"overrides:", "- {tenant: t, limit: 5/90s, owner: o, reason: r, expires: 2027-01-01}"))
	f.Add(rateWith())
	f.Add(slotsWith("limit: 20", "max_hold: 2h", "overshoot: 3"))
	f.Add(dimensionWith("statement: {final_after: 24h}", "outage: {mode: extend, after: 3s, rate: 50/s, budget: 500}",
		"lease:", "  regions: {ap-seoul: {floor: 20%, ceiling: 60%}, eu: {}}",
		"  schedule:", `  - {from: "08:00", to: "20:00", max: 3, ttl: 10s}`, `  - {from: "22:00", to: "06:00", max: 5}`))
	f.Add(operationsWith("- {name: x, takes: [{dimension: a, cost: 2}], outage: closed}", "- {name: y, takes: [{dimension: a}], outage: {mode: open, for: 5m}}"))
	f.Add(rulesPolicy)
	f.Add(rulesWith("- {domain: d, match: [{key: k, value: v*}, {key: l}], dimension: a, tenant: [l], overrides: accept, name: n, replaces: [m]}"))
	f.Add(localRulesPolicy)
	f.Add(localRules("- {domain: d, match: [{key: k, value: 1.*}, {key: l}], local: client, caller: {address: l, actor: k}, tenant: [l]}"))
	f.Add(swap("limit", "limit: unlimited"))
	f.Add(swap("limit", "limit: 9223372036854775807"))
	f.Add("---\n# file: a.yaml\n" + dimensionWith() + "---\n# file: \"\\x00\"\n# nothing\n")
	f.Add("---\n# file: a.yaml\n---\n# file: b.yaml\n" + dimensionWith())
	f.Add("---\n#e: a.yaml\n" + dimensionWith() + "---\n# file: ") // a mark that Text would not write
	f.Add("tenants: &a [{tenant: x}]\ndimensions: [*a, *a]\n")
	f.Add("? [a]\n: b\n<<: {a: b}\n!!str c: !x d\n")
	f.Add("%YAML 1.1\n---\n\ta: 'b\n")
	f.Add("dimensions: [[[[{{{{")
	f.Add("\xef\xbb\xbfdimensions:\r\n- name: a\r\n")
	f.Add("tenants:\n- {tenant: \"a\\0b\"}\n- {tenant: \"\\u2028\"}\n")
	f.Add(localWith("- {name: x, algorithm: leaky_bucket, limit: 5/s, queue: 9, key: [address, route], ipv6_prefix: 56, start: full}",
		"- {name: y, algorithm: concurrency, limit: 3, queue: {count: 5, bytes: 7, age: 2s}}") + "operations: [{name: o, takes: [{dimension: a}], local: [x]}]\n")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := Parse([]File{{Name: "fuzz.yaml", Text: []byte(text)}}, time.Time{})
		var faults Faults
		if err != nil {
			if d != nil || !errors.As(err, &faults) || len(faults) == 0 {
				t.Fatalf("document %v with error %v", d, err)
			}
			for _, fault := range faults {
				if fault.File == "" || fault.Problem == "" || fault.Allowed == "" {
					t.Fatalf("a fault that does not say enough: %+v", fault)
				}
			}
			return
		}
		again, err := ParseText(d.Text())
		if err != nil {
			t.Fatalf("parse its own text: %v\n%s", err, d.Text())
		}
		if again.Sum() != d.Sum() || again.Text() != d.Text() {
			t.Fatalf("the text comes back as something else: %v", Diff(d, again))
		}
		for _, dim := range d.Snapshot(1).Dimensions() {
			soundDimension(t, dim)
			if b := dim.Overshoot.Of(dim.Limit); !dim.Limit.Unlimited && (b.Unlimited || b.Units < 0 || b.Units > dim.Limit.Units) {
				t.Fatalf("budget %+v of limit %+v", b, dim.Limit)
			}
		}
	})
}

// soundDimension holds a dimension that was accepted to what others rely on.
func soundDimension(t *testing.T, dim *Dimension) {
	t.Helper()
	period := dim.Kind == quota.Period
	if period == (dim.Period == quota.Calendar{}) || period == (dim.FinalAfter == 0) || (dim.Kind == quota.Concurrency) == (dim.MaxHold == 0) {
		t.Fatalf("kind %s with period %s, final after %s, hold %s", dim.Kind, dim.Period, dim.FinalAfter, dim.MaxHold)
	}
	if rated := dim.Kind == quota.RateLimit && !dim.Limit.Unlimited; rated != (dim.Rate.Per > 0) || dim.Rate.Units < 0 ||
		rated && dim.Rate.Units == 0 && dim.Limit.Units > 0 {
		t.Fatalf("kind %s with rate %v and limit %v", dim.Kind, dim.Rate, dim.Limit)
	}
	if o := dim.Outage; o.Extend && (!period || dim.Class == quota.Exact || o.Budget < 1 || o.Rate.Units < 1 || o.Open) {
		t.Fatalf("outage %+v of a %s %s", o, dim.Class, dim.Kind)
	}
	var floors Percent
	for _, r := range dim.Lease.Regions {
		floors += r.Floor
	}
	if floors > wholePercent {
		t.Fatalf("floors of %s together", floors)
	}
	for minute := range minutesPerDay {
		at := today.Add(time.Duration(minute) * time.Minute)
		l := dim.LeaseAt("pro", at)
		if l.TTL <= time.Millisecond || l.Grace < leastGrace(l.TTL) || l.Max < 0 || period && l.TTL > dim.Period.Shortest() {
			t.Fatalf("lease %+v in windows of %s", l, dim.Period)
		}
		if len(l.Schedule) == 0 {
			break // the same all day
		}
	}
}
