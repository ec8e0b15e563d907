package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/quotalease/quotalease/cmd/quotalease/demo"
	"github.com/quotalease/quotalease/ledger/ledgertest"
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
	if len(rows) != 6 || !report.OK() || len(report.Broken) != 0 {
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
