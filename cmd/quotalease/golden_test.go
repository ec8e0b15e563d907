package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares with testdata/name.golden, or writes it with -update.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run go test -update to write it)", err)
	}
	if got != string(want) {
		t.Errorf("%s differs\ngot:\n%s\nwant:\n%s", path, got, want)
	}
}

func (r result) String() string {
	return fmt.Sprintf("exit code %d\n--- stdout\n%s--- stderr\n%s", r.code, r.out, r.err)
}

const someID = "0193776e-1c00-7000-8000-000000000001"

// shown are the commands whose output is pinned, for people and for scripts.
var shown = []struct {
	name string
	args []string
}{
	{"policy_apply", []string{"policy", "apply", "-f", "-", "--why", "sale"}},
	{"policy_apply_dry_run", []string{"policy", "apply", "-f", "-", "--dry-run"}},
	{"policy_rollback", []string{"policy", "rollback", "3", "--why", "wrong plan"}},
	{"policy_get", []string{"policy", "get"}},
	{"policy_list", []string{"policy", "list"}},
	{"policy_history", []string{"policy", "history"}},
	{"policy_diff", []string{"policy", "diff", "-"}},
	{"policy_validate", []string{"policy", "validate", "-f", "-"}},
	{"policy_explain", []string{"policy", "explain", "acme", "report_export"}},
	{"override_add", []string{"override", "add", "--tenant", "acme", "--dimension", "report_export", "--limit", "80000",
		"--owner", "sales-ops", "--reason", "Q4 deal", "--expires", "2027-01-31"}},
	{"override_list", []string{"override", "list", "--all"}},
	{"override_remove", []string{"override", "remove", "--tenant", "acme", "--dimension", "report_export", "--why", "the deal is off"}},
	{"tenant_list", []string{"tenant", "list"}},
	{"tenant_show", []string{"tenant", "show", "acme"}},
	{"usage", []string{"usage"}},
	{"usage_export", []string{"usage", "export"}},
	{"usage_adjust", []string{"usage", "adjust", "--tenant", "acme", "--dimension", "report_export", "--credit", "500", "--why", "goodwill", "--id", someID}},
	{"ledger_release_held", []string{"ledger", "release-held", "--tenant", "acme", "--dimension", "report_export", "--units", "all", "--why", "lost", "--id", someID}},
	{"ledger_waiting", []string{"ledger", "waiting"}},
	{"lease_list", []string{"lease", "list", "--limit", "2"}},
	{"lease_show", []string{"lease", "show", someID}},
	{"lease_revoke", []string{"lease", "revoke", someID, "--why", "lost"}},
	{"agents", []string{"agents"}},
	{"bound", []string{"bound"}},
}

// raised is the current policy with a higher limit.
var raised = strings.Replace(currentYAML, "limit: 50000", "limit: 60000", 1)

func TestOutputForPeopleAndScripts(t *testing.T) {
	t.Parallel()
	c := busy().serve(t)
	c.stdin = raised
	for _, tt := range shown {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			golden(t, tt.name+"_table", c.run(t, tt.args...).String())
			r := c.run(t, append(tt.args, "-o", "json")...)
			if !json.Valid([]byte(r.out)) {
				t.Errorf("-o json writes no JSON:\n%s", r.out)
			}
			golden(t, tt.name+"_json", r.String())
		})
	}
}

func TestEmptyResultsSaySo(t *testing.T) {
	t.Parallel()
	c := idle().serve(t)
	for _, tt := range []struct {
		args []string
		says string
	}{
		{[]string{"policy", "history"}, "no policy versions\n"},
		{[]string{"tenant", "list"}, "no tenants\n"},
		{[]string{"usage"}, "no usage\n"},
		{[]string{"lease", "list"}, "no leases\n"},
		{[]string{"ledger", "waiting"}, "no callers in line\n"},
		{[]string{"agents"}, "no agents\n"},
		{[]string{"bound"}, "no dimensions\n"},
	} {
		r := c.run(t, tt.args...)
		r.expect(t, exitDone)
		if r.out != "" || r.err != tt.says {
			t.Errorf("%v: stdout %q, stderr %q; want nothing and %q", tt.args, r.out, r.err, tt.says)
		}
		r = c.run(t, append(tt.args, "-o", "json")...)
		if r.out != "[]\n" || r.err != "" {
			t.Errorf("%v -o json: stdout %q, stderr %q; want [] and nothing", tt.args, r.out, r.err)
		}
	}
}

// TestR2_4BoundPrintsTheWorkedNumbers holds what users read to the figures of R2.4.
func TestR2_4BoundPrintsTheWorkedNumbers(t *testing.T) {
	t.Parallel()
	r := busy().serve(t).run(t, "bound")
	r.expect(t, exitDone)
	wantText(t, "bound", r.out,
		"24 agents x 50 unspent = 1,200 units at risk",
		"a lease lasts 0.6 s at peak, 40 fetches/s in all",
		"api_calls of acme: up to 136,000 (13.3 % over)",
		"payouts: up to 1,000 (0 % over)",
		"page_views: unlimited")
}

// TestBoundOfFilesNeedsNoServer computes what is not applied anywhere yet.
func TestBoundOfFilesNeedsNoServer(t *testing.T) {
	t.Parallel()
	c := console{stdin: strings.Replace(currentYAML, "lease: {ttl: 30s}", "lease: {ttl: 30s}\n    outage: {mode: open, for: 2h}\n    cold: {then: debt, units: 7}", 1)}
	r := c.run(t, "bound", "-f", "-", "report_export", "--agents", "24")
	r.expect(t, exitDone)
	if lines := strings.Split(r.out, "\n"); len(lines) < 5 || lines[0] != "report_export: up to 50,250 (0.5 % over)" ||
		lines[1] != "  plus whatever outage mode open lets pass, without a limit, for up to 2h of each outage" ||
		lines[2] != "  plus 7 units at each start of an agent (cold: debt)" || !strings.Contains(r.out, "24 agents x 10 unspent = 240 units at risk") {
		t.Errorf("bound of a file:\n%s", r.out)
	}
	r = c.run(t, "bound", "-f", "-", "--tenant", "acme")
	r.expect(t, exitDone)
	wantText(t, "bound of a tenant", r.out, "report_export of acme: up to 1,005 (0.5 % over)", "1 agent x 5 unspent = 5 units", "payouts of acme: up to 120,000 (0 % over)")
	for line, says := range map[string]string{
		"bound -f - exports":    "the files define page_views, payouts, report_export",
		"bound -f no/such/file": "no such file",
		"bound -f - --peak 0":   "--peak: 0; allowed: 1 or more",
	} {
		r = c.run(t, strings.Fields(line)...)
		if r.code != exitRefused {
			t.Errorf("%s: exit code %d", line, r.code)
		}
		wantText(t, line, r.err, says)
	}
	r = console{stdin: faulty}.run(t, "bound", "-f", "-")
	r.expect(t, exitRefused)
	if !strings.HasPrefix(r.err, "stdin:4: ") {
		t.Errorf("faults: %s", r.err)
	}
	r = console{stdin: "unlisted_tenants: deny\n" + currentYAML}.run(t, "bound", "-f", "-", "--tenant", "nobody")
	r.expect(t, exitRefused)
	wantText(t, "an unlisted tenant", r.err, `--tenant: tenant "nobody" is not listed`)
}

func TestNumbersInJSONAreNumbers(t *testing.T) {
	t.Parallel()
	r := busy().serve(t).run(t, "usage", "-o", "json")
	r.expect(t, exitDone)
	decoder := json.NewDecoder(bytes.NewReader([]byte(r.out)))
	decoder.UseNumber()
	var rows []map[string]any
	if err := decoder.Decode(&rows); err != nil {
		t.Fatal(err)
	}
	if got := rows[0]["limit"]; got != json.Number("80000") || rows[0]["unlimited"] != false {
		t.Errorf("limit is %v (%T), unlimited %v", got, got, rows[0]["unlimited"])
	}
	if got, present := rows[1]["limit"]; !present || got != nil || rows[1]["unlimited"] != true {
		t.Errorf("without a limit: limit is %v, present %v, unlimited %v", got, present, rows[1]["unlimited"])
	}
}
