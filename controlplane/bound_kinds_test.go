package controlplane

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

var tenASecond = quota.Rate{Units: 10, Per: time.Second}

func TestBoundOfEveryKind(t *testing.T) {
	t.Parallel()
	rateOf := func(class quota.Class, budget quota.Units) BoundTerms {
		return BoundTerms{Kind: quota.RateLimit, Class: class, Limit: quota.LimitOf(20), Rate: tenASecond, Budget: quota.LimitOf(budget), Agents: 2, TTL: 30 * time.Second}
	}
	slots := func(class quota.Class, budget quota.Units) BoundTerms {
		return BoundTerms{Kind: quota.Concurrency, Class: class, Limit: quota.LimitOf(20), Budget: quota.LimitOf(budget), Agents: 2,
			TTL: 30 * time.Second, Grace: 3 * time.Second, MaxHold: 2 * time.Hour}
	}
	extended := BoundTerms{Class: quota.Bounded, Limit: quota.LimitOf(50_000), Budget: quota.LimitOf(250), Agents: 24, Outage: policy.Outage{Extend: true, Budget: 500}}
	credited := extended
	credited.Credit, credited.Outage = 500, policy.Outage{}
	scheduled := extended
	scheduled.TTL, scheduled.Longest = 10*time.Second, time.Minute
	for _, tc := range []struct {
		name    string
		terms   BoundTerms
		most    int64
		line    string
		wanted  []string
		lasts   int64
		fetches int64
	}{
		{"a rate", rateOf(quota.Bounded, 4), 24, "up to 24 + 10/s x t in any interval t (20 % over the burst)",
			[]string{"burst + rate x t + B: in 1 s 20 + 10 + 4 = 34; in 1m 20 + 600 + 4 = 624; in 1h 20 + 36,000 + 4 = 36,024", "L = floor(B / N) = floor(4 / 2) = 2"}, 400_000, 5_000},
		{"a hard rate, which adds what is out as well", rateOf(quota.Hard, 2), 22, "up to 22 + 10/s x t in any interval t (10 % over the burst)", nil, 200_000, 10_000},
		{"an exact rate", rateOf(quota.Exact, 0), 20, "up to 20 + 10/s x t in any interval t (0 % over the burst)",
			[]string{"burst + rate x t + B: in 1 s 20 + 10 + 0 = 30; in 1m 20 + 600 + 0 = 620; in 1h 20 + 36,000 + 0 = 36,020"}, 0, 0},
		{"hard slots", slots(quota.Hard, 4), 20, "up to 20 at once (0 % over)",
			[]string{"at once = Q = 20, while no run is longer than max_hold = 2h", "L = floor(B / N) = floor(4 / 2) = 2 idle slots beside those in use",
				"slots of a lost agent stay charged for ttl + grace + max_hold = 30 s + 3 s + 2h at most"}, 0, 0},
		{"bounded slots", slots(quota.Bounded, 4), 24, "up to 24 at once (20 % over)", []string{"at once = Q + B = 20 + 4 = 24, while no run is longer than max_hold = 2h"}, 0, 0},
		{"best_effort slots", slots(quota.BestEffort, 4), -1, "no bound on top of 20",
			[]string{"what runs on at lost agents is given back at once and not counted: there is no number for it"}, 0, 0},
		{"outage mode extend", extended, 50_250, "up to 50,250 (0.5 % over)",
			[]string{"most = Q + B = 50,000 + 250 = 50,250", "with outage mode extend = Q + B + E = 50,250 + 500 = 50,750", "L = floor(B / N) = floor(250 / 24) = 10"}, 0, 0},
		{"a credit", credited, 50_750, "up to 50,750 (0.5 % over)", []string{"Q = 50,000 + a credit of 500 in this window = 50,500", "most = Q + B = 50,500 + 250 = 50,750"}, 0, 0},
		{"a ttl that is longer at night", scheduled, 50_250, "up to 50,250 (0.5 % over)", []string{"after a cut what is out, at most B = 250, stays usable for one ttl of 1m at most"}, 0, 0},
		{"the end of the range", BoundTerms{Kind: quota.RateLimit, Class: quota.Hard, Limit: quota.LimitOf(1 << 62), Rate: quota.Rate{Units: 1 << 62, Per: time.Second}, Budget: quota.LimitOf(1 << 61)},
			1<<62 + 1<<61, "up to 6,917,529,027,641,081,856 + 4611686018427387904/s x t in any interval t (50 % over the burst)", nil, 500_000, 2_000},
	} {
		b := ComputeBound(tc.terms)
		if b.Most != tc.most || BoundLine(b) != tc.line || b.LeaseLastsUs != tc.lasts || b.FetchesPerSecondMilli != tc.fetches {
			t.Errorf("%s: most %d, %q, lasts %d us, %d fetches/1000 s; want %d, %q, %d, %d", tc.name, b.Most, BoundLine(b), b.LeaseLastsUs,
				b.FetchesPerSecondMilli, tc.most, tc.line, tc.lasts, tc.fetches)
		}
		for _, line := range tc.wanted {
			if !slices.Contains(b.Worked, line) {
				t.Errorf("%s: worked out as\n%s\nwithout %q", tc.name, strings.Join(b.Worked, "\n"), line)
			}
		}
	}
}

func TestAdviceForSlots(t *testing.T) {
	t.Parallel()
	for class, want := range map[quota.Class]string{
		quota.Exact:      "every start costs one round trip",
		quota.Bounded:    "choose class hard if no more than the limit may ever run",
		quota.BestEffort: "choose class bounded if a number is wanted",
	} {
		terms := BoundTerms{Kind: quota.Concurrency, Class: class, Limit: quota.LimitOf(20), Budget: quota.LimitOf(4), Agents: 2, MaxHold: time.Hour}
		if got := strings.Join(ComputeBound(terms).Advice, "\n"); !strings.Contains(got, want) {
			t.Errorf("%s: advice %q, want %q", class, got, want)
		}
		if class == quota.Exact {
			continue
		}
		terms.Agents = 5
		if got := strings.Join(ComputeBound(terms).Advice, "\n"); !strings.Contains(got, "L is 0 and no slot is leased ahead") {
			t.Errorf("%s without leases: advice %q", class, got)
		}
	}
}

func TestRegionsDivideWhatIsAtRisk(t *testing.T) {
	t.Parallel()
	terms := BoundTerms{Class: quota.Bounded, Limit: quota.LimitOf(50_000), Budget: quota.LimitOf(250), Agents: 24,
		Regions: []policy.Region{{Name: "eu", Floor: 40_000_000, Ceiling: 100_000_000}, {Name: "us", Ceiling: 50_000_000}}}
	b := ComputeBound(terms)
	if b.AtRisk != 250 || len(b.Regions) != 2 || b.Regions[0].Floor != 100 || b.Regions[1].Ceiling != 125 || b.Regions[0].LeaseCap != 0 {
		t.Errorf("agents in places not known: at risk %d, regions %v; want all of the budget, 100 to 250 and 0 to 125", b.AtRisk, b.Regions)
	}
	terms.Places = map[string]int{"eu": 2, "us": 21, "": 1}
	b = ComputeBound(terms)
	var caps []int64
	for _, r := range b.Regions {
		caps = append(caps, r.LeaseCap)
	}
	// eu has its floor of 100 for two agents, us its ceiling of 125 for 21, and 25 are left for one.
	if !slices.Equal(caps, []int64{50, 5, 25}) || b.AtRisk != 230 {
		t.Errorf("L by region %v, at risk %d; want 50, 5 and 25: 230", caps, b.AtRisk)
	}
	if !slices.ContainsFunc(b.Worked, func(s string) bool { return s == "region eu: 100 to 250 of B, 2 agents x 50 = 100 unspent at most" }) {
		t.Errorf("worked out as %q", b.Worked)
	}
}

const looseOperations = `
dimensions:
  - name: report_export
    kind: period
    limit: 50000
    period: {every: day}
    class: bounded
    overshoot: 0.5%
    lease: {ttl: 10s, schedule: [{from: "22:00", to: "06:00", ttl: 1m, max: 3}]}
  - {name: payments, kind: period, limit: 10, period: {every: day}, class: exact}
operations:
  - {name: start_export, takes: [{dimension: report_export}], outage: {mode: open, for: 5m}}
  - {name: pay, takes: [{dimension: payments}, {dimension: report_export}], outage: closed}
`

// An operation may go on where its dimensions would not: that is in their bound.
func TestBoundNamesOperationsThatGoOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, looseOperations)
	got, err := w.cp.GetBound(t.Context(), &pb.GetBoundRequest{})
	if err != nil {
		t.Fatal(err)
	}
	payments, export := got.Bounds[0], got.Bounds[1]
	if len(payments.Beyond) != 0 {
		t.Errorf("payments: %q beyond the bound", payments.Beyond)
	}
	if want := []string{"plus whatever operation start_export lets pass in outage mode open, without a limit, for up to 5m of each outage"}; !slices.Equal(export.Beyond, want) {
		t.Errorf("exports: %q, want %q", export.Beyond, want)
	}
	if export.TtlUs != 10_000_000 || export.LeaseCap != 250 {
		t.Errorf("at noon: ttl %d us, L %d", export.TtlUs, export.LeaseCap)
	}
	w.ledger.move(12 * time.Hour)
	got, err = w.cp.GetBound(t.Context(), &pb.GetBoundRequest{Dimension: "report_export"})
	if err != nil || got.Bounds[0].TtlUs != 60_000_000 || got.Bounds[0].LeaseCap != 3 {
		t.Errorf("at midnight: %v, %v; want a ttl of 1m and L of 3", got, err)
	}
}

// What operators did in a tenant's window is in its bound.
func TestBoundOfATenantHasItsCreditsAndReleases(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	w.agent().lease("small", 40)
	w.ledger.move(time.Hour)
	w.agent().lease("small", 1) // by then the first lease is found to be dead
	w.adjust("small", 50)
	_, err := w.cp.ReleaseHeld(t.Context(), &pb.ReleaseHeldRequest{Id: w.id().Bytes(), Key: acme("small"), Units: 40, Who: "mina", Why: "gone"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := w.cp.GetBound(t.Context(), &pb.GetBoundRequest{Dimension: "small", Tenant: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	b := got.Bounds[0]
	if b.Limit != 150 || b.Credit != 50 || b.Most != 150 || !slices.Equal(b.Beyond, []string{"plus 40 units that an operator released of what was held"}) {
		t.Errorf("%v, want a limit of 150 with 40 released", b)
	}
	if !strings.Contains(b.Clause, "with credits of 50 it is 150 in the present one") || !strings.Contains(b.Clause, "By decision of an operator 40 ") {
		t.Errorf("the contract says %s", b.Clause)
	}
	if got, err := w.cp.GetBound(t.Context(), &pb.GetBoundRequest{Tenant: "a\nb"}); err == nil {
		t.Errorf("a tenant of two lines has the bound %v", got)
	}
}

// No number is promised for best_effort slots: this is what happens.
func TestBestEffortSlotsGoOnAtLostAgents(t *testing.T) {
	t.Parallel()
	w := newWorld(t, strings.Replace(slotsPolicy, "class: hard", "class: best_effort", 1))
	for range 3 { // each takes all 20 and is not heard of again
		ask := w.ask("batch_jobs", 20)
		ask.Need = 20
		if d := w.agent().sync(&pb.SyncRequest{Asks: []*pb.Ask{ask}}).Decisions[0]; d.Amount != 20 {
			t.Fatalf("granted %v, want 20", d)
		}
		w.ledger.move(40 * time.Second)
	}
	if _, err := w.cp.Desk().Sync(t.Context(), &pb.SyncRequest{Hello: w.agent().hello(), Keys: []*pb.Key{acme("batch_jobs")}}); err != nil {
		t.Fatal(err)
	}
	if a := w.account("batch_jobs"); a.Uncertain+a.Outstanding+a.Settled() != 60 || windowBound(a) != unlimited {
		t.Errorf("%+v, bound %d: want 60 that may run, and no bound", a.Tally, windowBound(a))
	}
}

func TestUsageOfEveryKind(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slotsPolicy+strings.TrimPrefix(ratePolicy, "\ndimensions:\n"))
	a := w.agent()
	jobs := w.ask("batch_jobs", 9)
	jobs.Need = 3
	allowance := w.ask("free_reads", 40)
	allowance.Emergency = true
	granted := a.sync(&pb.SyncRequest{Asks: []*pb.Ask{w.ask("api_calls", 14), jobs, allowance}}).Decisions
	report := &pb.Report{GrantId: granted[2].GrantId, Key: acme("free_reads"), Window: granted[2].Window, Taken: 15, Emergency: true}
	a.sync(&pb.SyncRequest{Reports: []*pb.Report{report}})
	w.ledger.move(500 * time.Millisecond)
	usage := func() (rate, slots, quota *pb.Usage) {
		got, err := w.cp.ListUsage(t.Context(), &pb.ListUsageRequest{Tenant: "acme"})
		if err != nil || len(got.Usage) != 3 {
			t.Fatalf("usage %v, %v", got, err)
		}
		return got.Usage[0], got.Usage[1], got.Usage[2]
	}
	calls, running, reads := usage()
	if calls.Kind != "rate" || calls.Rate != "10/s" || calls.Limit != 20 || calls.Outstanding != 14 || calls.Headroom != 11 || calls.Bound != 40 {
		t.Errorf("rate: %v, want 6 left and 5 that came since, at most 20 + 20 beyond the rate", calls)
	}
	if running.Kind != "concurrency" || running.Settled != 3 || running.Outstanding != 2 || running.Headroom != 15 || running.Bound != 20 {
		t.Errorf("slots: %v, want 3 in use, 2 idle, 15 free", running)
	}
	if reads.Kind != "period" || reads.Emergency != 40 || reads.Extended != 15 || reads.Pot != 40 || reads.Settled != 15 || reads.Bound != 240 {
		t.Errorf("allowance: %v, want 15 used of 40, at most 100 + 100 + 40", reads)
	}
	w.ledger.move(time.Minute)
	if calls, _, _ = usage(); calls.Headroom != 20 {
		t.Errorf("a minute later the bucket has %d, want 20", calls.Headroom)
	}
	w.verified()
}

func TestWindowBoundOfEveryKind(t *testing.T) {
	t.Parallel()
	account := func(kind quota.Kind, class quota.Class, limit, budget quota.Units, t ledger.Tally) ledger.Account {
		return ledger.Account{Terms: ledger.Terms{Kind: kind, Class: class, Limit: quota.LimitOf(limit), Budget: quota.LimitOf(budget), Rate: tenASecond}, Tally: t}
	}
	potted := func(pot quota.Units, a ledger.Account) ledger.Account { a.Pot = pot; return a }
	for _, tc := range []struct {
		name string
		a    ledger.Account
		want int64
	}{
		{"a rate", account(quota.RateLimit, quota.Hard, 20, 2, ledger.Tally{Leased: 1_000_000, Outstanding: 2, Held: 70}), 22},
		{"a rate whose budget was cut", account(quota.RateLimit, quota.Hard, 20, 2, ledger.Tally{Outstanding: 9}), 29},
		{"slots", account(quota.Concurrency, quota.Hard, 20, 2, ledger.Tally{Leased: 8, Outstanding: 2, Held: 5}), 20},
		{"slots after a cut", account(quota.Concurrency, quota.Hard, 5, 2, ledger.Tally{Leased: 8, Outstanding: 2, Held: 5}), 15},
		{"bounded slots", account(quota.Concurrency, quota.Bounded, 20, 4, ledger.Tally{Leased: 8, Uncertain: 3}), 24},
		{"a pot that nobody has asked of", potted(30, account(quota.Period, quota.Hard, 100, 10, ledger.Tally{})), 130},
		{"a pot that is used in part", potted(30, account(quota.Period, quota.Hard, 100, 10, ledger.Tally{Emergency: 20, Extended: 15})), 130},
		{"a pot under a limit that was cut", potted(30, account(quota.Period, quota.Hard, 10, 1, ledger.Tally{Leased: 100, Emergency: 20, Extended: 15})), 130},
		{"a pot that was cut", potted(5, account(quota.Period, quota.Bounded, 100, 10, ledger.Tally{Emergency: 20, Extended: 15})), 130},
	} {
		if got := windowBound(tc.a); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

// A name stands for itself, whatever it is made of.
func TestNamesInAContractAreNoMarkup(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"acme-corp": "acme-corp", "a_b": `a\_b`, "*x*": `\*x\*`, "[a](b)": `\[a\](b)`, "<script>": `\<script\>`, "a|b": `a\|b`,
		"`x`": "\\`x\\`", `\`: `\\`, "http://x": `http\://x`, "www.x": `www\.x`, "&lt;": `\&lt;`, "김": "김",
	} {
		if got := markdown(name); got != want {
			t.Errorf("%s becomes %s, want %s", name, got, want)
		}
	}
}
