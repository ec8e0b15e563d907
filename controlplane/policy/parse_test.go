package policy

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// today is the time of day of these tests.
var today = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

const goodYAML = `unlisted_tenants: allow
default_plan: basic
tenants:
  - {tenant: acme, plan: enterprise}
  - {tenant: globex}
dimensions:
  - name: report_export
    description: reports a day
    unit: exports
    kind: period
    limit: 50000
    period: {every: day, timezone: Asia/Seoul}
    class: bounded
    overshoot: 0.5%
    lease: {ttl: 30s, max: auto, low_watermark: 20%}
    outage: {mode: closed, after: 10s}
    plans:
      basic: {limit: 1000}
      enterprise: {limit: unlimited, overshoot: 400}
    overrides:
      - {tenant: acme, limit: 80000, owner: sales-ops, reason: "Q4 deal", expires: 2027-01-31}
  - name: payouts
    kind: period
    limit: 120000
    period: {every: month, timezone: Asia/Seoul, anchor: {day: 31, time: "02:30"}}
    class: exact
`

func parseOne(text string) (*Document, error) {
	return Parse([]File{{Name: "policy.yaml", Text: []byte(text)}}, today)
}

func mustParse(t *testing.T, text string) *Document {
	t.Helper()
	d, err := parseOne(text)
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	return d
}

// dimensionWith is a good dimension on lines 1 to 6, and more lines from 7 on.
func dimensionWith(lines ...string) string {
	const base = "dimensions:\n- name: a\n  kind: period\n  limit: 1000\n  period: {every: day}\n  class: bounded\n"
	text := base
	for _, line := range lines {
		text += "  " + line + "\n"
	}
	return text
}

// swap replaces the line of the base that begins with a key.
func swap(key, line string) string {
	rows := strings.Split(dimensionWith(), "\n")
	for i, row := range rows {
		if strings.HasPrefix(strings.TrimLeft(row, "- "), key+":") {
			rows[i] = row[:2] + line
		}
	}
	return strings.Join(rows, "\n")
}

// overrideOf is a dimension with one override.
func overrideOf(fields string) string { return dimensionWith("overrides:", "- {"+fields+"}") }

type badInput struct{ name, text, want string }

// badInputs are files with one mistake each, and what people read about it.
var badInputs = []badInput{
	{"unknown field", dimensionWith("limitt: 5"), `policy.yaml:7: dimensions[0].limitt: unknown field; allowed: name, description, unit, kind, limit,`},
	{"unknown field at the root", "dimension: []\n" + dimensionWith(), `policy.yaml:1: dimension: unknown field; allowed: unlisted_tenants, default_plan, tenants, dimensions`},
	{"wrong type", swap("limit", `limit: many`), `policy.yaml:4: dimensions[0].limit: "many" is text; allowed: a whole number of 0 or more, or the word unlimited`},
	{"quoted number", swap("limit", `limit: "5"`), `policy.yaml:4: dimensions[0].limit: "5" is text; allowed: a whole number`},
	{"list for a number", swap("limit", `limit: [5]`), `policy.yaml:4: dimensions[0].limit: is a list; allowed: a whole number`},
	{"number for a list", "tenants: 5\n" + dimensionWith(), `policy.yaml:1: tenants: 5 is a number; allowed: a list of`},
	{"list for a mapping", swap("period", `period: [day]`), `policy.yaml:5: dimensions[0].period: is a list; allowed: a mapping of every, timezone, anchor`},
	{"number for text", dimensionWith("unit: 5"), `policy.yaml:7: dimensions[0].unit: 5 is a number; allowed: text of 1 to 63 bytes`},
	{"below zero", swap("limit", `limit: -5`), `policy.yaml:4: dimensions[0].limit: -5 is below zero; allowed: a whole number of 0 or more, or the word unlimited`},
	{"fraction", swap("limit", `limit: 1.5`), `policy.yaml:4: dimensions[0].limit: 1.5 is not a plain whole number; allowed: a whole number`},
	{"exponent", swap("limit", `limit: 1e3`), `policy.yaml:4: dimensions[0].limit: 1e3 is not a plain whole number`},
	{"underscores", swap("limit", `limit: 50_000`), `policy.yaml:4: dimensions[0].limit: 50_000 is not a plain whole number`},
	{"octal", swap("limit", `limit: 010`), `policy.yaml:4: dimensions[0].limit: 010 begins with a 0`},
	{"empty", swap("limit", `limit:`), `policy.yaml:4: dimensions[0].limit: is empty; allowed: a whole number`},
	{"missing class", "dimensions:\n- name: a\n  kind: period\n  limit: 1\n  period: {every: day}\n", `policy.yaml:2: dimensions[0].class: is missing; allowed: exact, hard, bounded or best_effort`},
	{"unknown class", swap("class", `class: strict`), `policy.yaml:6: dimensions[0].class: "strict" is not a class; allowed: exact, hard, bounded or best_effort`},
	{"unknown kind", swap("kind", `kind: speed`), `policy.yaml:3: dimensions[0].kind: "speed" is not a kind; allowed: period, rate or concurrency`},
	{"bad name", swap("name", `name: A b`), `is not a name; allowed: 1 to 63 characters of a-z`},
	{"unknown zone", swap("period", `period: {every: day, timezone: Mars/Base}`), `policy.yaml:5: dimensions[0].period.timezone: "Mars/Base" is not allowed here; allowed: an IANA name`},
	{"unknown period", swap("period", `period: {every: fortnight}`), `policy.yaml:5: dimensions[0].period.every: "fortnight" is not allowed here; allowed: second, minute, hour, day`},
	{"anchor day 0", swap("period", `period: {every: month, anchor: {day: 0}}`), `policy.yaml:5: dimensions[0].period.anchor.day: "0" is not allowed here; allowed: 1 to 31`},
	{"anchor day of a day", swap("period", `period: {every: day, anchor: {day: 3}}`), `policy.yaml:5: dimensions[0].period.anchor.day: "3" is not allowed here; allowed: only with week and month`},
	{"anchor time", swap("period", `period: {every: day, anchor: {time: "24:00"}}`), `policy.yaml:5: dimensions[0].period.anchor.time: "24:00" is not allowed here; allowed: HH:MM`},
	{"ttl above the window", "dimensions:\n- name: a\n  kind: period\n  limit: 1\n  period: {every: minute}\n  class: bounded\n  lease: {ttl: 121s}\n", `policy.yaml:7: dimensions[0].lease.ttl: 121s is too long; allowed: a duration such as 30s, up to 2m (`},
	{"ttl of 1ms", dimensionWith("lease: {ttl: 1ms}"), `policy.yaml:7: dimensions[0].lease.ttl: 1ms is too short; allowed: a duration such as 30s, up to 24h (more than 1ms`},
	{"ttl without a unit", dimensionWith("lease: {ttl: 30}"), `policy.yaml:7: dimensions[0].lease.ttl: 30 is a number without a unit; allowed: a duration such as 30s`},
	{"grace 0", dimensionWith("lease: {ttl: 30s, grace: 0s}"), `policy.yaml:7: dimensions[0].lease.grace: 0s is too short; allowed: a duration such as 30s, from 15ms to 1h`},
	{"grace below drift", dimensionWith("lease: {ttl: 30s, grace: 14999us}"), `dimensions[0].lease.grace: 14999us is too short; allowed:`},
	{"lease max 0", dimensionWith("lease: {max: 0}"), `policy.yaml:7: dimensions[0].lease.max: 0 is too small; allowed: auto, or a whole number of 1 or more`},
	{"watermark", dimensionWith("lease: {low_watermark: 101%}"), `policy.yaml:7: dimensions[0].lease.low_watermark: "101%" is not a percentage; allowed: 0% to 100%`},
	{"overshoot of exact", "dimensions:\n- name: a\n  kind: period\n  limit: 1\n  period: {every: day}\n  class: exact\n  overshoot: 1%\n", `policy.yaml:7: dimensions[0].overshoot: class exact has no overshoot; allowed: only with class hard, bounded or best_effort`},
	{"overshoot above the limit", dimensionWith("overshoot: 1001"), `policy.yaml:7: dimensions[0].overshoot: 1001 is above the limit of 1000; allowed: 0 to 1000`},
	{"overshoot above 100%", dimensionWith("overshoot: 100.000001%"), `policy.yaml:7: dimensions[0].overshoot: "100.000001%" is neither; allowed: 0% to 100%`},
	{"overshoot below 0", dimensionWith("overshoot: -1"), `policy.yaml:7: dimensions[0].overshoot: -1 is below zero; allowed: 0% to 100%`},
	{"open exact", swap("class", "class: exact") + "  outage: {mode: open, for: 5m}\n", `policy.yaml:7: dimensions[0].outage.mode: class exact cannot be open; allowed: closed`},
	{"open without for", dimensionWith("outage: {mode: open}"), `policy.yaml:7: dimensions[0].outage.for: is missing; allowed: a duration such as 30s, from 1ms to 24h`},
	{"closed with for", dimensionWith("outage: {mode: closed, for: 5m}"), `policy.yaml:7: dimensions[0].outage.for: has no meaning with mode closed; allowed: only with mode open`},
	{"unknown mode", dimensionWith("outage: {mode: ajar}"), `policy.yaml:7: dimensions[0].outage.mode: "ajar" is not known; allowed: closed, open or extend`},
	{"debt of hard", swap("class", "class: hard") + "  cold: {then: debt}\n", `policy.yaml:7: dimensions[0].cold.then: class hard never lets units pass unleased; allowed: deny`},
	{"debt of exact", swap("class", "class: exact") + "  cold: {then: debt}\n", `policy.yaml:7: dimensions[0].cold.then: class exact never lets units pass unleased; allowed: deny`},
	{"cold wait", dimensionWith("cold: {wait: 11s}"), `policy.yaml:7: dimensions[0].cold.wait: 11s is too long; allowed: a duration such as 30s, from 0s to 10s`},
	{"cold units", dimensionWith("cold: {then: debt, units: 1001}"), `policy.yaml:7: dimensions[0].cold.units: 1001 is above the limit of 1000; allowed: a whole number from 1 to the limit`},
	{"expired override", overrideOf("tenant: t, limit: 5, owner: o, reason: r, expires: 2026-11-29"), `policy.yaml:8: dimensions[0].overrides[0].expires: 2026-11-29 has passed: the override expired; allowed: a date or time after 2026-11-29T12:00:00Z`},
	{"override expiring now", overrideOf(`tenant: t, limit: 5, owner: o, reason: r, expires: "2026-11-29T12:00:00Z"`), `has passed: the override expired`},
	{"override without an owner", overrideOf("tenant: t, limit: 5, reason: r, expires: 2027-01-01"), `policy.yaml:8: dimensions[0].overrides[0].owner: is missing; allowed: who answers for it`},
	{"override without an end", overrideOf("tenant: t, limit: 5, owner: o, reason: r"), `policy.yaml:8: dimensions[0].overrides[0].expires: is missing; allowed: a date such as 2027-01-31`},
	{"override until never", overrideOf("tenant: t, limit: 5, owner: o, reason: r, expires: never"), `policy.yaml:8: dimensions[0].overrides[0].expires: "never" is not a date; allowed: a date such as 2027-01-31`},
	{"override until no day", overrideOf("tenant: t, limit: 5, owner: o, reason: r, expires: 2027-02-30"), `"2027-02-30" is not a date`},
	{"tenant as a number", overrideOf("tenant: 12, limit: 5, owner: o, reason: r, expires: 2027-01-01"), `policy.yaml:8: dimensions[0].overrides[0].tenant: 12 is a number; allowed: a name (quote it)`},
	{"two overrides", dimensionWith("overrides:", "- {tenant: t, limit: 5, owner: o, reason: r, expires: 2027-01-01}", "- {tenant: t, limit: 6, owner: o, reason: r, expires: 2027-01-01}"), `policy.yaml:9: dimensions[0].overrides[1].tenant: tenant t has two overrides here; first at policy.yaml:8; allowed: one override`},
	{"two dimensions", dimensionWith() + strings.TrimPrefix(dimensionWith(), "dimensions:\n"), `policy.yaml:7: dimensions[1].name: dimension a is given twice; first at policy.yaml:2; allowed: one in all files`},
	{"two plans", dimensionWith("plans:", "  basic: {limit: 1}", "  basic: {limit: 2}"), `policy.yaml:9: dimensions[0].plans.basic: is given twice; first at policy.yaml:8; allowed: one value`},
	{"field twice", dimensionWith("limit: 6"), `policy.yaml:7: dimensions[0].limit: is given twice; first at policy.yaml:4; allowed: one value`},
	{"two tenants", "tenants: [{tenant: t}, {tenant: t}]\n" + dimensionWith(), `policy.yaml:1: tenants[1].tenant: tenant t is given twice; first at policy.yaml:1; allowed: one in all files`},
	{"unknown plan", "tenants: [{tenant: t, plan: gold}]\n" + dimensionWith("plans: {basic: {limit: 1}, pro: {limit: 2}}"), `policy.yaml:1: tenants[0].plan: no dimension knows the plan "gold"; allowed: a plan that some dimension lists (basic, pro)`},
	{"unknown default plan", "default_plan: gold\n" + dimensionWith(), `policy.yaml:1: default_plan: no dimension knows the plan "gold"; allowed: a plan that some dimension lists (there is none)`},
	{"plan without a limit", dimensionWith("plans: {basic: {}}"), `policy.yaml:7: dimensions[0].plans.basic.limit: is missing`},
	{"override of an unlisted tenant", "unlisted_tenants: deny\n" + overrideOf("tenant: t, limit: 5, owner: o, reason: r, expires: 2027-01-01"), `policy.yaml:9: dimensions[0].overrides[0].tenant: tenant "t" has no entry, and unlisted_tenants is deny; allowed: a tenant of the tenants list`},
	{"unlisted", "unlisted_tenants: maybe\n" + dimensionWith(), `policy.yaml:1: unlisted_tenants: "maybe" is not known; allowed: allow or deny`},
	{"anchor", "tenants: &t []\n" + dimensionWith(), `policy.yaml:1: tenants: &t is an anchor; allowed: the value without it`},
	{"alias of nothing", "# *\ntenants: *t\n", `policy.yaml:2: unknown anchor 't' referenced; allowed: YAML`},
	{"tag", swap("limit", `limit: !!int "5"`), `policy.yaml:4: dimensions[0].limit: !!int is a tag; allowed: the value without it`},
	{"merge key", dimensionWith("<<: {unit: x}"), `policy.yaml:7: dimensions[0]."<<": unknown field`},
	{"mapping as a key", "{a: b}: c\n", `policy.yaml:1: ?: a key that is not a word`},
	{"syntax", "dimensions:\n  - name: a\n bad\n", `policy.yaml:3: did not find expected key; allowed: YAML`},
	{"syntax of a quote", "dimensions:\n  - name: 'a\n", `policy.yaml:2: found unexpected end of stream; allowed: YAML`},
	{"syntax on line 1", "\tdimensions: []\n", `policy.yaml:1: found character that cannot start any token; allowed: YAML`},
	{"not a mapping", "- a\n", `policy.yaml:1: is a list; allowed: a mapping of unlisted_tenants, default_plan, tenants, dimensions`},
	{"control character", "dimensions: []\n# \x01\n", `policy.yaml:2: holds the control character U+0001; allowed: UTF-8 text`},
	{"escaped control character", dimensionWith(`description: "a\0b"`), `policy.yaml:7: dimensions[0].description: holds control characters; allowed: text of 1 to 1024 bytes`},
	{"not UTF-8", "dimensions: []\n# \xff\n", `policy.yaml:2: is not UTF-8`},
	{"directive", "%YAML 1.1\n---\n" + dimensionWith(), `policy.yaml:1: begins with %, a YAML directive`},
	{"empty file", "", `policy.yaml: dimensions: no dimension is defined; allowed: one or more in all files`},
	{"comments only", "# to be written\n", `policy.yaml: dimensions: no dimension is defined`},
}

func TestBadInputIsRefused(t *testing.T) {
	t.Parallel()
	for _, tc := range slices.Concat(badInputs, badKinds, badLeases, badOutages, badOperations, badDescriptors, badLocalRules) {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d, err := parseOne(tc.text)
			var faults Faults
			if d != nil || !errors.As(err, &faults) {
				t.Fatalf("document %v, error %v; want no document and faults", d, err)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got\n%v\nwant\n%s", err, tc.want)
			}
			if len(faults) != 1 {
				t.Errorf("%d faults for one mistake:\n%v", len(faults), err)
			}
		})
	}
}

func TestAllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	files := []File{
		{Name: "b.yaml", Text: []byte(dimensionWith("unit: 5", "colour: red", "lease: {ttl: 48h, max: -1}"))},
		{Name: "a.yaml", Text: []byte("unlisted_tenants: no\n" + dimensionWith())},
		{Name: "c.yaml", Text: []byte("dimensions: [\n")},
	}
	_, err := Parse(files, today)
	want := []string{
		"b.yaml:7: dimensions[0].unit: ", "b.yaml:8: dimensions[0].colour: ",
		"b.yaml:9: dimensions[0].lease.ttl: ", "b.yaml:9: dimensions[0].lease.max: ",
		"a.yaml:1: unlisted_tenants: ", "a.yaml:3: dimensions[0].name: dimension a is given twice; first at b.yaml:2;",
		"c.yaml:2: did not find expected node content",
	}
	var faults Faults
	if !errors.As(err, &faults) || len(faults) != len(want) {
		t.Fatalf("want %d faults, got\n%v", len(want), err)
	}
	for i, f := range faults {
		if !strings.HasPrefix(f.Error(), want[i]) {
			t.Errorf("fault %d: got %s, want %s...", i, f, want[i])
		}
	}
	if f := faults[2]; f.Column != 16 {
		t.Errorf("the ttl begins in column 16, not %d", f.Column)
	}
}

func TestA2OverflowInConfig(t *testing.T) {
	t.Parallel()
	const most = "9223372036854775807"
	for _, tc := range []struct{ name, text, want string }{
		{"limit", swap("limit", "limit: 9223372036854775808"), "dimensions[0].limit: 9223372036854775808 leaves the int64 range; allowed: a whole number of 0 or more, or the word unlimited, up to " + most},
		{"limit by far", swap("limit", "limit: "+strings.Repeat("9", 500)), "dimensions[0].limit: 9999"},
		{"limit below", swap("limit", "limit: -9223372036854775809"), "dimensions[0].limit: -9223372036854775809 leaves the int64 range"},
		{"limit and budget", swap("limit", "limit: "+most), "dimensions[0].limit: " + most + " and its overshoot of 92233720368547758 together leave the int64 range"},
		{"plan and budget", dimensionWith("plans: {big: {limit: " + most + "}}"), "dimensions[0].plans.big.limit: " + most + " and its overshoot"},
		{"override and the plan's budget", dimensionWith("plans: {big: {limit: 5, overshoot: 100%}}", "overrides: [{tenant: t, limit: 5000000000000000000, owner: o, reason: r, expires: 2027-01-01}]"), "dimensions[0].overrides[0].limit: 5000000000000000000 and its overshoot"},
		{"ttl", dimensionWith("lease: {ttl: 2562048h}"), `dimensions[0].lease.ttl: "2562048h" is not a duration, or more than one holds; allowed: a duration`},
		{"ttl below", dimensionWith("lease: {ttl: -2562047h}"), `dimensions[0].lease.ttl: -2562047h is too short`},
		{"after", dimensionWith("outage: {after: 25h}"), `dimensions[0].outage.after: 25h is too long; allowed: a duration such as 30s, from 0s to 24h`},
		{"anchor day", swap("period", "period: {every: month, anchor: {day: 4294967297}}"), `dimensions[0].period.anchor.day: "4294967297" is not allowed here`},
		{"expiry", dimensionWith("overrides: [{tenant: t, limit: 5, owner: o, reason: r, expires: 99999-01-01}]"), `dimensions[0].overrides[0].expires: "99999-01-01" is not a date`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := parseOne(tc.text)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
	// The largest limit is fine where nothing is added to it.
	d := mustParse(t, strings.Replace(swap("limit", "limit: "+most), "class: bounded", "class: exact", 1))
	if got := d.Dimensions[0].Limit; got != quota.LimitOf(quota.MaxUnits) {
		t.Errorf("limit %v, want the largest", got)
	}
}

func TestCapsAreRefused(t *testing.T) {
	t.Parallel()
	var many strings.Builder
	many.WriteString("dimensions:\n")
	for i := range MaxDimensions + 2 {
		fmt.Fprintf(&many, "- {name: d%d, kind: period, limit: 5000, class: hard, period: {every: day}}\n", i)
	}
	var tenants strings.Builder
	tenants.WriteString(dimensionWith() + "tenants:\n")
	for i := range MaxTenants + 2 {
		fmt.Fprintf(&tenants, "- {tenant: t%d}\n", i)
	}
	for _, tc := range []struct{ name, text, want string }{
		{"file", strings.Repeat("#", MaxFileBytes+1), "policy.yaml: is 4194306 bytes long; allowed: at most 4194304"},
		{"dimensions", many.String(), "policy.yaml:1002: dimensions[1000]: too many dimensions; allowed: at most 1000"},
		{"tenants", tenants.String(), "policy.yaml:100008: tenants[100000]: too many tenants; allowed: at most 100000"},
		{"depth", strings.Repeat("[", 20_000), "exceeded max depth"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := parseOne(tc.text)
			var faults Faults
			if !errors.As(err, &faults) || len(faults) != 1 || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %.300v, want %s", err, tc.want)
			}
		})
	}
}

func TestAliasesAreRefused(t *testing.T) {
	t.Parallel()
	// The shape of a billion laughs: each alias would multiply what it stands for.
	_, err := parseOne("tenants: &a [{tenant: x}]\ndimensions: [*a, *a, *a]\n")
	want := `policy.yaml:1: tenants: &a is an anchor; allowed: the value without it
policy.yaml:2: dimensions[0]: *a is an alias; allowed: the value itself
policy.yaml:2: dimensions[1]: *a is an alias; allowed: the value itself
policy.yaml:2: dimensions[2]: *a is an alias; allowed: the value itself`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestDefaultsAreFilledIn(t *testing.T) {
	t.Parallel()
	d := mustParse(t, goodYAML)
	payouts, report := d.Dimensions[0], d.Dimensions[1] // by name
	if payouts.Name != "payouts" || report.Name != "report_export" {
		t.Fatalf("dimensions are not in the order of their names: %s, %s", payouts.Name, report.Name)
	}
	if got := payouts.Overshoot.Of(payouts.Limit); got != quota.LimitOf(0) {
		t.Errorf("budget of exact is %v, want 0", got)
	}
	if got, want := report.Lease, (Lease{TTL: 30 * time.Second, Grace: 3 * time.Second, LowWatermark: 20 * onePercent}); !reflect.DeepEqual(got, want) {
		t.Errorf("lease %+v, want %+v", got, want)
	}
	if got, want := report.Outage, (Outage{After: 10 * time.Second}); got != want {
		t.Errorf("outage %+v, want %+v", got, want)
	}
	if got, want := report.Cold, (Cold{Wait: 10 * time.Millisecond, Units: 1}); got != want {
		t.Errorf("cold %+v, want %+v", got, want)
	}
	if got, want := payouts.Period.String(), "month, Asia/Seoul, from day 31, at 02:30"; got != want {
		t.Errorf("period %s, want %s", got, want)
	}
	// 2027-01-31 begins in Seoul nine hours before it does in UTC.
	if got, want := report.Overrides[0].Expires, time.Date(2027, 1, 30, 15, 0, 0, 0, time.UTC); !got.Equal(want) {
		t.Errorf("the override expires at %s, want %s", got, want)
	}
}

func TestDefaultTTLAndGrace(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		every, lease string
		ttl, grace   time.Duration
	}{
		{"second", "{}", time.Second, 500 * time.Millisecond},
		{"minute", "{}", 30 * time.Second, 3 * time.Second},
		{"day", "{ttl: 10m}", 10 * time.Minute, 5 * time.Second},
		{"month", "{ttl: 24h}", 24 * time.Hour, 43200 * time.Millisecond}, // 500 ppm of a day
		{"day", "{ttl: 30s, grace: 15ms}", 30 * time.Second, 15 * time.Millisecond},
		{"day", "{ttl: 30s, grace: 1h}", 30 * time.Second, time.Hour},
	} {
		d := mustParse(t, swap("period", "period: {every: "+tc.every+"}")+"  lease: "+tc.lease+"\n")
		if got := d.Dimensions[0].Lease; got.TTL != tc.ttl || got.Grace != tc.grace {
			t.Errorf("every %s, lease %s: ttl %s and grace %s, want %s and %s", tc.every, tc.lease, got.TTL, got.Grace, tc.ttl, tc.grace)
		}
	}
}

func TestEmptyListsAreAccepted(t *testing.T) {
	t.Parallel()
	d := mustParse(t, "tenants:\n"+dimensionWith("plans:", "overrides:", "  # none now"))
	if len(d.Tenants)+len(d.Dimensions[0].Plans)+len(d.Dimensions[0].Overrides) != 0 {
		t.Error("empty lists hold something")
	}
}

func TestWarningsSayWhatHasNoEffect(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		swap("limit", "limit: 99"):                              "policy.yaml:4: dimensions[0].limit: the overshoot budget of 99 (1%) is 0 units: every take goes to the exact lane",
		swap("limit", "limit: 100"):                             "policy.yaml:4: dimensions[0].limit: the overshoot budget of 100 (1%) is 1 unit: with more agents than that, every take goes to the exact lane",
		swap("limit", "limit: 900"):                             "policy.yaml:4: dimensions[0].limit: the overshoot budget of 900 (1%) is 9 units: with more agents than that, every take goes to the exact lane",
		swap("limit", "limit: 0"):                               "",
		swap("limit", "limit: 1000"):                            "",
		dimensionWith("lease: {max: 11}"):                       "policy.yaml:7: dimensions[0].lease.max: 11 has no effect: the overshoot budget is 10",
		swap("class", "class: exact") + "  lease: {ttl: 10s}\n": "policy.yaml:7: dimensions[0].lease: has no effect: class exact has no leases",
	} {
		got := Faults(mustParse(t, text).Warnings).Error()
		if got != want {
			t.Errorf("warnings %q, want %q", got, want)
		}
	}
}

func TestW7TypoInTheFileNamesTheField(t *testing.T) {
	t.Parallel()
	_, err := parseOne(strings.Replace(goodYAML, "timezone", "time_zone", 1))
	if err == nil || !strings.Contains(err.Error(), "policy.yaml:12: dimensions[0].period.time_zone: unknown field; allowed: every, timezone, anchor") {
		t.Errorf("got %v", err)
	}
}

func TestFilesMakeOneDocument(t *testing.T) {
	t.Parallel()
	one := mustParse(t, goodYAML)
	head, dims, _ := strings.Cut(goodYAML, "dimensions:\n")
	two, err := Parse([]File{
		{Name: "1.yaml", Text: []byte("dimensions:\n" + dims)},
		{Name: "2.yaml", Text: []byte("\xef\xbb\xbf# tenants\n" + head)},
	}, today)
	if err != nil {
		t.Fatal(err)
	}
	if one.Sum() != two.Sum() {
		t.Errorf("one file and two mean different things: %v", Diff(one, two))
	}
	if _, err := Parse(nil, today); err == nil {
		t.Error("no file at all was accepted")
	}
	big := strings.Repeat("#", MaxFileBytes-1)
	var files []File
	for i := range 5 {
		files = append(files, File{Name: fmt.Sprint(i), Text: []byte(big)})
	}
	if _, err := Parse(files, today); err == nil || !strings.Contains(err.Error(), "bytes together; allowed: at most 16777216") {
		t.Errorf("got %.200v", err)
	}
}
