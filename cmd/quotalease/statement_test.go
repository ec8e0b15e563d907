package main

import (
	"encoding/csv"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// exported is the control plane of two pages of statements.
func exported() *fakeAdmin {
	next := &pb.StatementPage{Key: exportStatement().Key, Window: day()}
	return &fakeAdmin{series: map[string][]proto.Message{"ListStatements": {
		&pb.ListStatementsReply{Statements: []*pb.Statement{exportStatement()}, Next: next},
		&pb.ListStatementsReply{Next: next}, // all of its windows were of another local day
		&pb.ListStatementsReply{Statements: []*pb.Statement{viewsStatement()}},
	}}}
}

func TestAnExportGoesOnToTheLastPage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args []string
		rows func(string) (int, error)
	}{
		{[]string{"usage", "export"}, func(out string) (int, error) {
			rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
			return len(rows) - 1, err // the header
		}},
		{[]string{"usage", "export", "--format", "json"}, func(out string) (int, error) {
			var rows []statementView
			err := json.Unmarshal([]byte(out), &rows)
			return len(rows), err
		}},
	} {
		f := exported()
		r := f.serve(t).run(t, tt.args...)
		r.expect(t, exitDone)
		if n, err := tt.rows(r.out); n != 2 || err != nil {
			t.Errorf("%v: %d statements, %v", tt.args, n, err)
		}
		if len(f.requests) != 3 || last[*pb.ListStatementsRequest](t, f).GetAfter().GetKey().GetTenant() != "acme" {
			t.Errorf("%v: asked %v", tt.args, f.requests)
		}
	}
}

func TestAnEmptyExportHasAHeader(t *testing.T) {
	t.Parallel()
	c := idle().serve(t)
	r := c.run(t, "usage", "export")
	r.expect(t, exitDone)
	if r.out != strings.Join(statementColumns, ",")+"\n" || r.err != "no statements\n" {
		t.Errorf("stdout %q, stderr %q", r.out, r.err)
	}
	r = c.run(t, "usage", "export", "-o", "json")
	r.expect(t, exitDone)
	if r.out != "[]\n" || r.err != "" {
		t.Errorf("-o json: stdout %q, stderr %q", r.out, r.err)
	}
}

// CASES C9, C7: a window is shown on the clock of its zone with the offset of that day, also
// where the two ends of one month have two offsets.
func TestC9AnExportShowsTheTenantsClock(t *testing.T) {
	t.Parallel()
	at := func(s string) int64 {
		when, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return when.UnixMicro()
	}
	for _, tt := range []struct{ zone, start, end string }{
		{"Asia/Shanghai", "2026-11-30T00:00:00+08:00", "2026-12-01T00:00:00+08:00"},
		{"Europe/Berlin", "2027-02-28T02:30:00+01:00", "2027-03-31T02:30:00+02:00"},
		{"Asia/Kathmandu", "2026-11-30T00:00:00+05:45", "2026-12-01T00:00:00+05:45"},
		{"", "2026-11-30T00:00:00Z", "2026-12-01T00:00:00Z"},
		{"no/where", "2026-11-30T00:00:00Z", "2026-12-01T00:00:00Z"},
	} {
		v := newStatementView(&pb.Statement{Timezone: tt.zone, Window: &pb.Window{StartUs: at(tt.start), EndUs: at(tt.end)}})
		if v.WindowStart != tt.start || v.WindowEnd != tt.end {
			t.Errorf("%s: %s to %s, want %s to %s", tt.zone, v.WindowStart, v.WindowEnd, tt.start, tt.end)
		}
	}
}

// Whatever a tenant is called, a program reads back what the ledger has.
func TestAnExportIsReadBackAsItWas(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var views []statementView
		var out, text strings.Builder
		rows, objects := newStatementWriter(&out, formatCSV), newStatementWriter(&text, formatJSON)
		for range rapid.IntRange(1, 3).Draw(t, "statements") {
			s := exportStatement()
			// A tenant has no control characters: RFC 4180 could keep them, but a reader may not.
			s.Key.Tenant = rapid.StringMatching(`[^\x00-\x1f\x7f-\x{9f}]{1,12}`).Draw(t, "tenant")
			s.Billable = rapid.Int64Min(0).Draw(t, "billable")
			v := newStatementView(s)
			views = append(views, v)
			if err := rows.add(v); err != nil {
				t.Fatal(err)
			}
			if err := objects.add(v); err != nil {
				t.Fatal(err)
			}
		}
		if rows.end() != nil || objects.end() != nil {
			t.Fatal("not ended")
		}
		read, err := csv.NewReader(strings.NewReader(out.String())).ReadAll()
		if err != nil || len(read) != len(views)+1 || !slices.Equal(read[0], statementColumns) {
			t.Fatalf("%v, %v", read, err)
		}
		var back []statementView
		if err := json.Unmarshal([]byte(text.String()), &back); err != nil {
			t.Fatal(err)
		}
		for i, v := range views {
			if !slices.Equal(read[i+1], v.cells()) || back[i].Tenant != v.Tenant || back[i].Billable != v.Billable {
				t.Fatalf("%q and %+v, want %q", read[i+1], back[i], v.cells())
			}
		}
	})
}

func TestWrongUsageOfBillingSaysWhatIsAllowed(t *testing.T) {
	t.Parallel()
	c := busy().serve(t)
	for _, tt := range []struct {
		line string
		says []string
	}{
		{"usage list --over 80", []string{`--over: "80"; allowed: 0% to 100%, with at most 6 decimals`}},
		{"usage export --format xml", []string{`--format: "xml"; allowed: csv, json`}},
		{"usage export --from noon", []string{`--from: "noon"; allowed: a date such as 2026-11-29, or a time such as 2026-11-29T00:00:00+09:00`}},
		{"usage export --to 2026-13-01", []string{`--to: "2026-13-01"; allowed: a date`}},
		{"usage adjust --credit 5 --why x --tenant acme", []string{"--tenant, --dimension: missing; allowed: both"}},
		{"usage adjust --credit 0 --why x --tenant acme --dimension d", []string{"--credit: 0; allowed: 1 or more"}},
		{"usage adjust --credit 5 --tenant acme --dimension d", []string{"--why: missing; allowed: a reason"}},
		{"usage adjust --credit 5 --why x --tenant acme --dimension d --window now", []string{`--window: "now"; allowed: a date`}},
		{"usage adjust --credit 5 --why x --tenant acme --dimension d --id 5c9a", []string{`--id: "5c9a"; allowed: a UUID of version 7`}},
		{"ledger release-held --why x --tenant acme --dimension d", []string{`--units: ""; allowed: a number of 1 or more, or all`}},
		{"ledger release-held --why x --tenant acme --dimension d --units -3", []string{`--units: "-3"; allowed: a number of 1 or more, or all`}},
	} {
		r := c.run(t, strings.Fields(tt.line)...)
		if r.code != exitRefused || r.out != "" {
			t.Errorf("%s: exit code %d, stdout %q", tt.line, r.code, r.out)
		}
		wantText(t, tt.line, r.err, tt.says...)
	}
}

func TestAnAdjustmentThatMayBeDoneTellsItsID(t *testing.T) {
	t.Parallel()
	c := console{env: map[string]string{serverEnv: "127.0.0.1:1", "USER": "mina"}}
	r := c.run(t, "usage", "adjust", "--tenant", "acme", "--dimension", "d", "--credit", "5", "--why", "x", "--id", someID)
	r.expect(t, exitOutage)
	wantText(t, "stderr", r.err, "repeat it with --id "+someID)
}

func TestARepeatedAdjustmentSaysSo(t *testing.T) {
	t.Parallel()
	f := busy()
	f.replies["AdjustUsage"] = &pb.AdjustUsageReply{Repeated: true, Usage: credited(exportUsage()), Timezone: "Asia/Seoul"}
	r := f.serve(t).run(t, "usage", "adjust", "--tenant", "acme", "--dimension", "report_export", "--credit", "500", "--why", "x", "--id", someID)
	r.expect(t, exitDone)
	wantText(t, "stdout", r.out, "done before under "+someID+": nothing changed now")
}

// Without --id each command is one of its own.
func TestAnAdjustmentGetsAFreshID(t *testing.T) {
	t.Parallel()
	f := busy()
	c := f.serve(t)
	var ids [][]byte
	for range 2 {
		c.run(t, "ledger", "release-held", "--tenant", "acme", "--dimension", "report_export", "--units", "1", "--why", "x").expect(t, exitDone)
		ids = append(ids, last[*pb.ReleaseHeldRequest](t, f).GetId())
	}
	if len(ids[0]) != 16 || ids[0][6]>>4 != 7 || slices.Equal(ids[0], ids[1]) {
		t.Errorf("ids %x", ids)
	}
}
