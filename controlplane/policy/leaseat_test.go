package policy

import (
	"reflect"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

var badLeases = []badInput{
	{"region name", dimensionWith("lease: {regions: {AP Seoul: {floor: 1%}}}"), `policy.yaml:7: dimensions[0].lease.regions."AP Seoul": "AP Seoul" is not a name; allowed: 1 to 63 characters of a-z`},
	{"region field", dimensionWith("lease: {regions: {eu: {roof: 1%}}}"), `policy.yaml:7: dimensions[0].lease.regions.eu.roof: unknown field; allowed: floor, ceiling`},
	{"floors above the whole", dimensionWith("lease: {regions: {eu: {floor: 60%}, us: {floor: 40.000001%}}}"), `policy.yaml:7: dimensions[0].lease.regions: the floors together are 100.000001%; allowed: floors of at most 100% together`},
	{"floor above the ceiling", dimensionWith("lease: {regions: {eu: {floor: 60%, ceiling: 20%}}}"), `policy.yaml:7: dimensions[0].lease.regions.eu.floor: 60% is above the ceiling of 20%; allowed: 0% to the ceiling`},
	{"floor in units", dimensionWith("lease: {regions: {eu: {floor: 5}}}"), `policy.yaml:7: dimensions[0].lease.regions.eu.floor: 5 is a number; allowed: 0% to 100%`},
	{"region twice", dimensionWith("lease: {regions: {eu: {floor: 5%}, eu: {floor: 6%}}}"), `policy.yaml:7: dimensions[0].lease.regions.eu: is given twice`},
	{"slot without an end", dimensionWith(`lease: {schedule: [{from: "08:00", max: 5}]}`), `policy.yaml:7: dimensions[0].lease.schedule[0].to: is missing; allowed: HH:MM from 00:00 to 23:59`},
	{"slot of no time", dimensionWith(`lease: {schedule: [{from: "8:00", to: "20:00", max: 5}]}`), `policy.yaml:7: dimensions[0].lease.schedule[0].from: "8:00" is not a time of day; allowed: HH:MM from 00:00 to 23:59`},
	{"slot past the day", dimensionWith(`lease: {schedule: [{from: "08:00", to: "24:00", max: 5}]}`), `policy.yaml:7: dimensions[0].lease.schedule[0].to: "24:00" is not a time of day`},
	{"empty slot", dimensionWith(`lease: {schedule: [{from: "08:00", to: "08:00", max: 5}]}`), `policy.yaml:7: dimensions[0].lease.schedule[0].to: is the same as from; allowed: another time`},
	{"slot that says nothing", dimensionWith(`lease: {schedule: [{from: "08:00", to: "20:00"}]}`), `policy.yaml:7: dimensions[0].lease.schedule[0]: says nothing about leases; allowed: max, ttl or both`},
	{"slot of auto", dimensionWith(`lease: {schedule: [{from: "08:00", to: "20:00", max: auto}]}`), `policy.yaml:7: dimensions[0].lease.schedule[0].max: "auto" is text; allowed: a whole number of 1 or more`},
	{"slot outliving its window", swap("period", "period: {every: minute}") + `  lease: {schedule: [{from: "08:00", to: "20:00", ttl: 61s}]}` + "\n", `policy.yaml:7: dimensions[0].lease.schedule[0].ttl: 61s is too long; allowed: a duration such as 30s, up to 1m`},
	{"slots that overlap", dimensionWith("lease:", "  schedule:", `  - {from: "08:00", to: "20:00", max: 5}`, `  - {from: "19:59", to: "21:00", max: 5}`), `policy.yaml:10: dimensions[0].lease.schedule[1]: 19:59-21:00 overlaps 08:00-20:00, given at policy.yaml:9; allowed: parts of the day that do not overlap`},
	{"slots that overlap past midnight", dimensionWith("lease:", "  schedule:", `  - {from: "05:00", to: "06:00", max: 5}`, `  - {from: "22:00", to: "05:01", max: 5}`), `policy.yaml:10: dimensions[0].lease.schedule[1]: 22:00-05:01 overlaps 05:00-06:00`},
	{"slots around the clock", dimensionWith("lease:", "  schedule:", `  - {from: "22:00", to: "21:00", max: 5}`, `  - {from: "12:00", to: "11:00", max: 5}`), `policy.yaml:10: dimensions[0].lease.schedule[1]: 12:00-11:00 overlaps 22:00-21:00`},
	{"plan's lease", dimensionWith("plans: {pro: {limit: 5000, lease: {ttl: 5s}}}"), `policy.yaml:7: dimensions[0].plans.pro.lease.ttl: unknown field; allowed: max`},
	{"plan's lease of nothing", dimensionWith("plans: {pro: {limit: 5000, lease: {max: 0}}}"), `policy.yaml:7: dimensions[0].plans.pro.lease.max: 0 is too small; allowed: auto, or a whole number of 1 or more`},
}

// TestR2_11LeaseSizeByPlanAndTimeOfDay: night and day in Seoul, a small plan, a large one.
func TestR2_11LeaseSizeByPlanAndTimeOfDay(t *testing.T) {
	t.Parallel()
	d := mustParse(t, `dimensions:
- name: a
  kind: period
  limit: 100000
  class: hard
  period: {every: day, timezone: Asia/Seoul}
  lease:
    ttl: 30s
    max: 50
    schedule:
    - {from: "08:00", to: "20:00", max: 100, ttl: 10s}
    - {from: "22:00", to: "06:00", max: 20}
  plans: {basic: {limit: 1000, lease: {max: 5}}, large: {limit: unlimited, lease: {max: 80}}, plain: {limit: 500}}
`).Dimensions[0]
	seoul := time.FixedZone("KST", 9*3600)
	for _, tc := range []struct {
		clock, plan string
		max         quota.Units
		ttl, grace  time.Duration
	}{
		{"07:59", "", 50, 30 * time.Second, 3 * time.Second},
		{"08:00", "", 100, 10 * time.Second, time.Second},
		{"19:59", "plain", 100, 10 * time.Second, time.Second},
		{"20:00", "", 50, 30 * time.Second, 3 * time.Second},
		{"21:59", "large", 80, 30 * time.Second, 3 * time.Second}, // the plan's in the place of the dimension's
		{"12:00", "large", 80, 10 * time.Second, time.Second},     // the smaller of two
		{"23:00", "large", 20, 30 * time.Second, 3 * time.Second},
		{"00:00", "", 20, 30 * time.Second, 3 * time.Second},
		{"05:59", "", 20, 30 * time.Second, 3 * time.Second},
		{"06:00", "", 50, 30 * time.Second, 3 * time.Second},
		{"12:00", "basic", 5, 10 * time.Second, time.Second},
		{"07:00", "basic", 5, 30 * time.Second, 3 * time.Second},
	} {
		at, err := time.ParseInLocation("2006-01-02 15:04", "2026-11-29 "+tc.clock, seoul)
		if err != nil {
			t.Fatal(err)
		}
		if l := d.LeaseAt(tc.plan, at.UTC()); l.Max != tc.max || l.TTL != tc.ttl || l.Grace != tc.grace {
			t.Errorf("%s, plan %q: at most %d for %s and %s, want %d, %s and %s", tc.clock, tc.plan, l.Max, l.TTL, l.Grace, tc.max, tc.ttl, tc.grace)
		}
	}
	terms, _ := resolve(t, mustParse(t, "default_plan: basic\n"+dimensionWith("lease: {max: 7}", "plans: {basic: {limit: 900, lease: {max: 5}}}")).Snapshot(1), "x", "a", today)
	if terms.LeaseMax != 5 {
		t.Errorf("terms say at most %d, want the plan's 5", terms.LeaseMax)
	}
}

func TestSlotGraceCoversDrift(t *testing.T) {
	t.Parallel()
	d := mustParse(t, dimensionWith(`lease: {ttl: 10s, grace: 5ms, schedule: [{from: "08:00", to: "20:00", ttl: 20h}]}`)).Dimensions[0]
	if got, want := d.LeaseAt("", today).Grace, 36*time.Second; got != want { // 500 ppm of 20 h
		t.Errorf("grace %s, want %s", got, want)
	}
}

func TestRegionsShareTheBudget(t *testing.T) {
	t.Parallel()
	d := mustParse(t, dimensionWith("lease: {regions: {us: {ceiling: 50%}, ap-seoul: {floor: 20%, ceiling: 60%}, eu: {floor: 80%}}}")).Dimensions[0]
	want := []Region{{"ap-seoul", 20 * onePercent, 60 * onePercent}, {"eu", 80 * onePercent, wholePercent}, {"us", 0, 50 * onePercent}}
	if !reflect.DeepEqual(d.Lease.Regions, want) {
		t.Errorf("regions %v, want %v", d.Lease.Regions, want)
	}
}
