package controlplane

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

func TestR2_4BoundIsComputedBeforeItIsAccepted(t *testing.T) {
	t.Parallel()
	const dayLong = 24 * time.Hour
	for _, tc := range []struct {
		name           string
		terms          BoundTerms
		cap, risk      int64
		line           string
		lastsUs, milli int64
	}{
		{"6 regions x 10 agents x 50", BoundTerms{Class: quota.Bounded, Limit: quota.LimitOf(1_000_000), Budget: quota.LimitOf(3_000), Agents: 60},
			50, 3_000, "up to 1,003,000 (0.3 % over)", 0, 0},
		{"50,000 a day over 24 agents at 0.5 %", BoundTerms{Class: quota.Bounded, Limit: quota.LimitOf(50_000), Budget: quota.LimitOf(250), Agents: 24, Window: dayLong, TTL: 30 * time.Second},
			10, 240, "up to 50,250 (0.5 % over)", 414_720_000, 57},
		{"the same over 40", BoundTerms{Class: quota.Bounded, Limit: quota.LimitOf(50_000), Budget: quota.LimitOf(250), Agents: 40, Window: dayLong, TTL: 30 * time.Second},
			6, 240, "up to 50,250 (0.5 % over)", 414_720_000, 96},
		{"N x L of 16,000", BoundTerms{Class: quota.Bounded, Limit: quota.LimitOf(120_000), Budget: quota.LimitOf(16_000), Agents: 40},
			400, 16_000, "up to 136,000 (13.3 % over)", 0, 0},
		{"1 % of 120,000 a minute over 24", BoundTerms{Class: quota.Bounded, Limit: quota.LimitOf(120_000), Budget: quota.LimitOf(1_200), Agents: 24, Window: time.Minute, TTL: 30 * time.Second},
			50, 1_200, "up to 121,200 (1 % over)", 600_000, 40_000},
		{"a peak that is given", BoundTerms{Class: quota.Bounded, Limit: quota.LimitOf(120_000), Budget: quota.LimitOf(1_200), Agents: 24, Peak: 4_000, TTL: 30 * time.Second},
			50, 1_200, "up to 121,200 (1 % over)", 300_000, 80_000},
		{"hard", BoundTerms{Class: quota.Hard, Limit: quota.LimitOf(1_000), Budget: quota.LimitOf(100), Agents: 10},
			10, 100, "up to 1,000 (0 % over)", 0, 0},
		{"exact", BoundTerms{Class: quota.Exact, Limit: quota.LimitOf(1_000), Agents: 10, Window: dayLong},
			0, 0, "up to 1,000 (0 % over)", 0, 0},
		{"best_effort", BoundTerms{Class: quota.BestEffort, Limit: quota.LimitOf(1_000), Budget: quota.LimitOf(100), Agents: 10},
			10, 100, "up to 1,100 (10 % over)", 0, 0},
		{"unlimited", BoundTerms{Class: quota.BestEffort, Limit: quota.NoLimit, Budget: quota.NoLimit, LeaseMax: 5, Agents: 10},
			5, 50, "unlimited", 0, 0},
		{"limit 0", BoundTerms{Class: quota.Bounded, Agents: 10, Window: dayLong}, 0, 0, "up to 0 (0 % over)", 0, 0},
		{"the largest limit", BoundTerms{Class: quota.Bounded, Limit: quota.LimitOf(quota.MaxUnits - 1), Budget: quota.LimitOf(1), Agents: 1, Window: time.Second},
			1, 1, "up to 9,223,372,036,854,775,807 (below 0.1 % over)", 0, int64(quota.MaxUnits)},
	} {
		b := ComputeBound(tc.terms)
		if b.LeaseCap != tc.cap || b.AtRisk != tc.risk || BoundLine(b) != tc.line || b.LeaseLastsUs != tc.lastsUs || b.FetchesPerSecondMilli != tc.milli {
			t.Errorf("%s: L %d, at risk %d, %q, lasts %d us, %d fetches/1000 s; want %d, %d, %q, %d, %d", tc.name,
				b.LeaseCap, b.AtRisk, BoundLine(b), b.LeaseLastsUs, b.FetchesPerSecondMilli, tc.cap, tc.risk, tc.line, tc.lastsUs, tc.milli)
		}
	}
}

func TestR2_4BoundSaysWhatToChange(t *testing.T) {
	t.Parallel()
	fast := BoundTerms{Class: quota.Bounded, Limit: quota.LimitOf(120_000), Budget: quota.LimitOf(120), Agents: 24, Window: time.Minute, TTL: 30 * time.Second}
	peaked := BoundTerms{Class: quota.Bounded, Limit: quota.LimitOf(50_000), Budget: quota.LimitOf(5_000), Agents: 10, Window: 24 * time.Hour, TTL: 30 * time.Second, Peak: 4}
	slow := BoundTerms{Class: quota.Bounded, Limit: quota.LimitOf(50_000), Budget: quota.LimitOf(5_000), Agents: 10, Window: 24 * time.Hour, TTL: 30 * time.Second}
	steady := BoundTerms{Class: quota.Bounded, Limit: quota.LimitOf(120_000), Budget: quota.LimitOf(1_200), Agents: 24, Window: time.Minute, TTL: 30 * time.Second}
	crowded := BoundTerms{Class: quota.Bounded, Limit: quota.LimitOf(500), Budget: quota.LimitOf(5), Agents: 24}
	capped := fast
	capped.LeaseMax = 2
	alone, rare := fast, peaked
	alone.Agents = 1
	rare.Peak, rare.Agents = 1, 40
	for _, tc := range []struct {
		name  string
		terms BoundTerms
		want  string
	}{
		{"below two round trips", fast, "a lease lasts less than two round trips (2 x 50 ms): callers will wait; raise overshoot to at least 216 units, or use fewer agents"},
		{"below two round trips for its lease max", capped, "raise lease.max to at least 9"},
		{"below two round trips, alone", alone, "raise overshoot to at least 201 units"},
		{"more than a ttl needs", peaked, "choose a smaller L: at peak an agent spends 12 units in one ttl of 30 s; lease.max: 12 lowers what is at risk from 5,000 to 120"},
		{"a peak of next to nothing", rare, "an agent spends 1 unit in one ttl"},
		{"cheap enough to be exact", slow, "choose the exact lane if no overshoot at all is wanted: on average it costs at most 1 round trip a second"},
		{"cheap enough to be exact at its peak", peaked, "at peak it costs at most 5 round trips a second"},
		{"spent long before its ttl", steady, "choose a shorter ttl: a lease is spent long before it ends, and what a crash or a cut leaves out lives for up to 30 s"},
		{"no leases", crowded, "24 agents share a budget of 5: L is 0 and every take goes to the exact lane; leases need a budget of at least 24"},
		{"no leases, alone", BoundTerms{Class: quota.Bounded, Limit: quota.LimitOf(50), Agents: 1}, "1 agent has a budget of 0: L is 0"},
		{"exact", BoundTerms{Class: quota.Exact, Limit: quota.LimitOf(5)}, "every take costs one round trip"},
		{"best_effort", BoundTerms{Class: quota.BestEffort, Limit: quota.LimitOf(500), Budget: quota.LimitOf(50)}, "the budget limits what is outstanding or uncertain"},
		{"limit 0", BoundTerms{Class: quota.Hard}, "everything is denied"},
	} {
		if got := strings.Join(ComputeBound(tc.terms).Advice, "\n"); !strings.Contains(got, tc.want) {
			t.Errorf("%s: advice %q, want %q", tc.name, got, tc.want)
		}
	}
	if got := ComputeBound(steady).Advice; strings.Contains(strings.Join(got, "\n"), "two round trips") {
		t.Errorf("a lease of 600 ms is warned about: %q", got)
	}
	steady.RoundTrip = 400 * time.Millisecond
	if got := ComputeBound(steady).Advice; !strings.Contains(strings.Join(got, "\n"), "two round trips (2 x 0.4 s)") {
		t.Errorf("with a round trip of 400 ms: %q", got)
	}
}

// What one agent needs at peak does not follow from what a month holds.
func TestSmallerLeasesAreAdvisedOnlyForAPeakThatIsGiven(t *testing.T) {
	t.Parallel()
	tokens := BoundTerms{Class: quota.Bounded, Limit: quota.LimitOf(1_000_000), Budget: quota.LimitOf(10_000), Agents: 3, Window: 30 * 24 * time.Hour, TTL: 30 * time.Second}
	if got := strings.Join(ComputeBound(tokens).Advice, "\n"); strings.Contains(got, "smaller L") || strings.Contains(got, "at peak") {
		t.Errorf("without a peak: %q", got)
	}
	tokens.Peak = 100
	if got := strings.Join(ComputeBound(tokens).Advice, "\n"); !strings.Contains(got, "lease.max: 1000 ") {
		t.Errorf("with a peak of 100 a second: %q", got)
	}
}

func TestR2_4BoundNamesWhatLiesOutsideOfIt(t *testing.T) {
	t.Parallel()
	open := policy.Outage{Open: true, For: 24 * time.Hour}
	debt := policy.Cold{Debt: true, Units: 50}
	for _, tc := range []struct {
		name  string
		terms BoundTerms
		want  []string
	}{
		{"closed and deny", BoundTerms{Cold: policy.Cold{Units: 1}, Outage: policy.Outage{After: time.Second}}, nil},
		{"open", BoundTerms{Outage: open}, []string{"plus whatever outage mode open lets pass, without a limit, for up to 24h of each outage"}},
		{"debt", BoundTerms{Cold: debt}, []string{"plus 50 units at each start of an agent (cold: debt)"}},
		{"a debt of one", BoundTerms{Cold: policy.Cold{Debt: true, Units: 1}}, []string{"plus 1 unit at each start of an agent (cold: debt)"}},
		{"both", BoundTerms{Outage: open, Cold: debt}, []string{
			"plus whatever outage mode open lets pass, without a limit, for up to 24h of each outage",
			"plus 50 units at each start of an agent (cold: debt)"}},
	} {
		tc.terms.Class, tc.terms.Limit, tc.terms.Budget = quota.Bounded, quota.LimitOf(100), quota.LimitOf(10)
		if got := ComputeBound(tc.terms).Beyond; !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestDurationsReadOneWay(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0 s", 250 * time.Microsecond: "below 1 ms", time.Millisecond: "1 ms", 48 * time.Millisecond: "48 ms",
		600 * time.Millisecond: "0.6 s", 4800 * time.Millisecond: "4.8 s", 30 * time.Second: "30 s", time.Minute - 1: "59.999 s",
		time.Minute: "1m", 90 * time.Second: "1m30s", 24 * time.Hour: "24h", time.Hour + time.Second: "1h0m1s", 70 * time.Minute: "1h10m",
		1<<63 - 1: "2562047h47m16s",
	} {
		if got := Lasting(d); got != want {
			t.Errorf("%d ns read %q, want %q", d, got, want)
		}
	}
}

func TestWindowBoundCoversEveryClass(t *testing.T) {
	t.Parallel()
	account := func(class quota.Class, limit, budget quota.Limit, t ledger.Tally, committed ledger.Units) ledger.Account {
		return ledger.Account{Terms: ledger.Terms{Kind: quota.Period, Class: class, Limit: limit, Budget: budget}, Tally: t, Committed: committed}
	}
	q := quota.LimitOf(100)
	for _, tc := range []struct {
		name string
		a    ledger.Account
		want int64
	}{
		{"fresh, bounded", account(quota.Bounded, q, quota.LimitOf(10), ledger.Tally{}, 0), 110},
		{"all of the budget is uncertain", account(quota.Bounded, q, quota.LimitOf(10), ledger.Tally{Uncertain: 10}, 50), 110},
		{"uncertain beyond a budget that was cut", account(quota.Bounded, q, quota.LimitOf(3), ledger.Tally{Uncertain: 10}, 50), 110},
		{"hard", account(quota.Hard, q, quota.LimitOf(10), ledger.Tally{Outstanding: 10}, 50), 100},
		{"hard, something released by an operator", account(quota.Hard, q, quota.LimitOf(10), ledger.Tally{Uncertain: 4}, 50), 104},
		{"exact", account(quota.Exact, q, quota.Limit{}, ledger.Tally{Spent: 70}, 70), 100},
		{"after a cut", account(quota.Hard, quota.LimitOf(50), quota.LimitOf(5), ledger.Tally{Leased: 80, Outstanding: 10}, 90), 90},
		{"after a cut, with all leases ended", account(quota.Bounded, quota.LimitOf(5_000), quota.LimitOf(50), ledger.Tally{Leased: 10_000}, 18_000), 10_000},
		{"after a cut, with units out", account(quota.Bounded, quota.LimitOf(5_000), quota.LimitOf(50), ledger.Tally{Leased: 10_000, Outstanding: 40, Held: 3, Uncertain: 2}, 18_000), 10_045},
		{"a little above the limit", account(quota.Bounded, q, quota.LimitOf(10), ledger.Tally{Leased: 104}, 100), 110},
		{"unleased use above the limit", account(quota.BestEffort, q, quota.LimitOf(10), ledger.Tally{Unleased: 130}, 0), 130},
		{"unlimited", account(quota.Bounded, quota.NoLimit, quota.LimitOf(1), ledger.Tally{}, 0), -1},
		{"the end of the range", account(quota.Bounded, quota.LimitOf(quota.MaxUnits), quota.LimitOf(9), ledger.Tally{}, 0), int64(quota.MaxUnits)},
	} {
		if got := windowBound(tc.a); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestBoundNeverOverflows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		amount := func(name string) quota.Units {
			return quota.Units(rapid.OneOf(rapid.Int64Range(0, 1000), rapid.Int64Range(0, int64(quota.MaxUnits))).Draw(t, name))
		}
		terms := BoundTerms{
			Class: quota.Class(rapid.IntRange(1, 4).Draw(t, "class")),
			Limit: quota.LimitOf(amount("limit")), Budget: quota.LimitOf(amount("budget")),
			LeaseMax: amount("max"), Agents: rapid.IntRange(0, 1<<40).Draw(t, "agents"), Peak: amount("peak"),
			TTL:    time.Duration(rapid.Int64Range(1, int64(24*time.Hour)).Draw(t, "ttl")),
			Window: time.Duration(rapid.Int64Range(0, int64(366*24*time.Hour)).Draw(t, "window")),
			Kind:   quota.Kind(rapid.IntRange(1, 3).Draw(t, "kind")), Credit: amount("credit"), Tenant: "acme",
			Rate:   quota.Rate{Units: amount("rate"), Per: time.Duration(rapid.Int64Range(1, int64(24*time.Hour)).Draw(t, "per"))},
			Outage: policy.Outage{Extend: rapid.Bool().Draw(t, "extend"), Budget: amount("pot")},
		}
		b := ComputeBound(terms)
		if b.AtRisk < 0 || b.LeaseCap < 0 || b.Most < b.Limit && b.Most != unlimited || b.LeaseLastsUs < 0 || b.FetchesPerSecondMilli < 0 || b.Agents < 1 {
			t.Fatalf("%+v: %v", terms, b)
		}
	})
}

func TestNumbersAreGrouped(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 7: "7", 999: "999", 1000: "1,000", 136000: "136,000", -1234567: "-1,234,567"} {
		if got := Grouped(n); got != want {
			t.Errorf("%d reads %q, want %q", n, got, want)
		}
	}
}
