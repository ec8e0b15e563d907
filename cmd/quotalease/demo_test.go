package main

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/quotalease/quotalease/cmd/quotalease/demo"
	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger/ledgertest"
	"github.com/quotalease/quotalease/ledger/quota"
	"github.com/quotalease/quotalease/sim/trace"
)

// TestDemo plays the whole demo and then tampers with the ledger that it leaves.
func TestDemo(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("plays half a minute of traffic")
	}
	dsn := ledgertest.DB(t)
	c := console{env: map[string]string{databaseEnv: dsn}}
	r := c.run(t, "demo", "-o", "json")
	r.expect(t, exitDone)
	var report demo.Report
	if err := json.Unmarshal([]byte(r.out), &report); err != nil {
		t.Fatalf("%v in\n%s", err, r.out)
	}
	rows := map[string]demo.Dimension{}
	for _, d := range report.Dimensions {
		rows[d.Name] = d
	}
	if len(rows) != 8 || !report.OK() || len(report.Broken) != 0 {
		t.Fatalf("%d dimensions, broken: %v", len(rows), report.Broken)
	}
	hard := rows["report_export"]
	if hard.Held <= 0 || hard.Denied <= 0 || hard.Confirmed+hard.Held != hard.Limit || hard.Used > hard.Limit || hard.Overshoot != 0 {
		t.Errorf("the hard quota is spent to its last unit, what the killed agent held included: %+v", hard)
	}
	exact := rows["payments"]
	if exact.Used > exact.Limit || exact.Overshoot != 0 || exact.Held != 0 {
		t.Errorf("the exact quota: %+v", exact)
	}
	cut := rows["batch_rows"]
	if !cut.Cut || cut.OverLimit <= 0 || cut.Overshoot != 0 {
		t.Errorf("the cut shows apart from overshoot: %+v", cut)
	}
	if rate := rows["logins"]; rate.Kind != "rate" || rate.Denied <= 0 || rate.MostUsed <= rate.Limit || rate.MostUsed > rate.Bound {
		t.Errorf("the rate refills and denies: %+v", rate)
	}
	if jobs := rows["batch_jobs"]; jobs.Kind != "concurrency" || jobs.Denied <= 0 || jobs.MostUsed < 2 || jobs.MostUsed > jobs.Limit || jobs.Used <= jobs.Limit {
		t.Errorf("slots are used again and again, never more at once than there are: %+v", jobs)
	}
	if free := rows["status_reads"]; free.Open <= 0 {
		t.Errorf("the outage was played through: %+v", free)
	}
	if report.DecisionsPerCommit <= 1 {
		t.Errorf("%v decisions per commit", report.DecisionsPerCommit)
	}
	c.run(t, "ledger", "verify").expect(t, exitDone)
	grant := tamper(t, dsn)
	r = c.run(t, "ledger", "verify")
	r.expect(t, exitFound)
	wantText(t, "ledger verify", r.out, grant, "consumed_reported")
	// Usage of an earlier run would be counted against the callers of this one.
	r = c.run(t, "demo")
	r.expect(t, exitRefused)
	wantText(t, "a demo on a used database", r.err, "already holds usage")
}

func TestReplayToNobodyIsAnOutage(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	r := console{}.run(t, "replay", "../../sim/trace/testdata/usage.csv", "--speed", "max", "--agent", addr)
	r.expect(t, exitOutage)
	wantText(t, "stderr", r.err, "no take was decided", "The agents at "+addr+" give no answer", "--agent")
	said := undecided(map[quota.Key]demo.Count{{Tenant: "a", Dimension: "b"}: {Unavailable: 3}}, []string{addr})
	wantText(t, "agents in an outage", fmt.Sprint(said), "cannot reach their control plane")
	if err := undecided(map[quota.Key]demo.Count{{Tenant: "a", Dimension: "b"}: {Unavailable: 3, Denied: 1, Unknown: 2}}, nil); err != nil {
		t.Errorf("one denial is an answer: %v", err)
	}
}

func TestDerivedPolicyIsALineADimension(t *testing.T) {
	t.Parallel()
	text, err := trace.PolicyYAML([]trace.Derived{{Dimension: "api", Limit: 6}, {Dimension: "login", Limit: 1}})
	if err != nil {
		t.Fatal(err)
	}
	brief := onePerLine(text)
	if n := strings.Count(brief, "\n"); n != 3 || !strings.Contains(brief, "\n    - {name: api, kind: period, limit: 6, ") {
		t.Errorf("%d lines:\n%s", n, brief)
	}
	long, err := policy.Parse([]policy.File{{Text: text}}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	short, err := policy.Parse([]policy.File{{Text: []byte(brief)}}, time.Time{})
	if err != nil || short.Sum() != long.Sum() {
		t.Errorf("the lines mean something else: %v\n%s", err, brief)
	}
	if got := onePerLine([]byte("no: [policy")); got != "no: [policy" {
		t.Errorf("what cannot be read is shown as it is: %q", got)
	}
}

// TestDemoTableFitsATerminal also pins the words that say what was shown.
func TestDemoTableFitsATerminal(t *testing.T) {
	t.Parallel()
	r := &demo.Report{Held: true, Agree: true, Seconds: 27, Decisions: 20_673, Commits: 1_391, DecisionsPerCommit: 14.9, Dimensions: []demo.Dimension{
		{Name: "api_calls", Class: "bounded", Tenants: 2, Limit: 8_000, MostUsed: 5_410, Bound: 8_080, Denied: 3, Unavailable: 2_474, Held: 52},
		{Name: "batch_jobs", Kind: "concurrency", Class: "hard", Tenants: 1, Limit: 6, MostUsed: 6, Used: 151, Bound: 6, Denied: 48},
		{Name: "batch_rows", Class: "hard", Tenants: 1, Limit: 2_224, Cut: true, MostUsed: 4_600, Bound: 20_000, Denied: 425, Held: 154, OverLimit: 2_339},
		{Name: "llm_tokens", Class: "best_effort", Tenants: 1, Limit: 4_000_000, MostUsed: 3_485_510, Bound: 4_120_577, Denied: 202, Uncertain: 120_577},
		{Name: "logins", Kind: "rate", Rate: "40/s", Class: "hard", Tenants: 1, Limit: 100, MostUsed: 981, Used: 981, Bound: 1_071, Denied: 210},
		{Name: "payments", Class: "exact", Tenants: 1, Limit: 300, MostUsed: 300, Bound: 300, Denied: 55},
		{Name: "report_export", Class: "hard", Tenants: 1, Limit: 4_000, MostUsed: 3_888, Bound: 4_000, Denied: 313, Held: 116},
		{Name: "status_reads", Class: "best_effort", Tenants: 1, Limit: 100_000, MostUsed: 1_959, Bound: 100_402, Open: 402},
		{Name: "uploads", Unavailable: 9},
	}}
	var out strings.Builder
	if err := printDemo(&out, r); err != nil {
		t.Fatal(err)
	}
	golden(t, "demo_table", out.String())
	table, _, _ := strings.Cut(strings.TrimPrefix(out.String(), "\n"), "\n\n")
	for _, line := range strings.Split(table, "\n") {
		if len(line) > 118 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
}

// tamper changes one grant's consumption by SQL and returns its id.
func tamper(t *testing.T, dsn string) (id string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	err = conn.QueryRow(t.Context(), `UPDATE lease_grant SET consumed_reported = consumed_reported + 1
		WHERE id = (SELECT id FROM lease_grant WHERE consumed_reported > 0 LIMIT 1) RETURNING id::text`).Scan(&id)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestDemoOfATrace(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"access log": {"--trace", "../../sim/trace/testdata/access.log"},
		"csv":        {"--trace", "../../sim/trace/testdata/usage.csv", "--speed", "max"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := console{env: map[string]string{databaseEnv: ledgertest.DB(t)}}
			r := c.run(t, append([]string{"demo", "-o", "json", "--length", "6s"}, args...)...)
			r.expect(t, exitDone)
			var report demo.Report
			if err := json.Unmarshal([]byte(r.out), &report); err != nil {
				t.Fatal(err)
			}
			var denied int64
			for _, d := range report.Dimensions {
				denied += d.Denied
			}
			if denied == 0 || len(report.Dimensions) == 0 {
				t.Errorf("limits of half the busiest tenant's use must deny: %+v", report.Dimensions)
			}
			wantText(t, "stderr", r.err, "policy derived from the trace", "class: hard", "events of")
			if name == "access log" {
				wantText(t, "stderr", r.err, "malformed lines were left out", "line ")
			}
		})
	}
}

func TestDemoRefusesWhatItCannotPlay(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--length 1s":          "--length",
		"--speed 2":            "--trace FILE",
		"--trace no/such/file": "no such file",
		"--trace ../../sim/trace/testdata/usage.csv --speed -1":           "--speed",
		"--trace ../../sim/trace/testdata/usage.csv --tenant-column nope": "nope",
	} {
		r := console{}.run(t, append([]string{"demo"}, strings.Fields(args)...)...)
		r.expect(t, exitRefused)
		wantText(t, fmt.Sprintf("demo %s", args), r.err, want)
	}
}
