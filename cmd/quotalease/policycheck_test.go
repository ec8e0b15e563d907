package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const faulty = `dimensions:
  - name: report_export
    kind: period
    limit: -5
    period: {every: fortnight}
    class: soft
  - name: report_export
    kind: period
    limit: 10
    period: {every: day}
    class: exact
`

func TestValidatePrintsEveryFaultWithItsPlace(t *testing.T) {
	t.Parallel()
	path := write(t, "faulty.yaml", faulty)
	r := console{}.run(t, "policy", "validate", "-f", path)
	r.expect(t, exitFound)
	lines := strings.Split(strings.TrimSuffix(r.out, "\n"), "\n")
	for i, place := range []string{":4: ", ":5: ", ":6: ", ":7: "} {
		if i >= len(lines) {
			t.Fatalf("%d lines, want one for each of 4 faults:\n%s", len(lines), r.out)
		}
		if !strings.HasPrefix(lines[i], path+place) {
			t.Errorf("line %d is %q, want it to begin with %s", i+1, lines[i], path+place)
		}
		if i < 3 {
			wantText(t, "fault", lines[i], "; allowed: ")
		}
	}
	if len(lines) != 4 || r.err != "" {
		t.Errorf("%d lines and stderr %q; want 4 and nothing", len(lines), r.err)
	}
}

func TestValidateFaultsAsJSON(t *testing.T) {
	t.Parallel()
	r := console{stdin: faulty}.run(t, "policy", "validate", "-f", "-", "-o", "json")
	r.expect(t, exitFound)
	golden(t, "policy_validate_faults_json", r.String())
}

func TestValidateNeedsNoServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{"a.yaml": currentYAML, "b.yml": "tenants:\n  - {tenant: globex}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := console{}.run(t, "policy", "validate", "-f", dir)
	r.expect(t, exitDone)
	if r.out != "valid: 3 dimensions, 2 tenants\n" {
		t.Errorf("stdout: %q", r.out)
	}
}

func TestDiffExitsLikeDiff(t *testing.T) {
	t.Parallel()
	c := busy().serve(t)
	same := write(t, "same.yaml", "# only a comment is new\n"+currentYAML)
	r := c.run(t, "policy", "diff", same)
	r.expect(t, exitDone)
	if r.out != "" || r.err != "no difference\n" {
		t.Errorf("stdout %q, stderr %q", r.out, r.err)
	}
	r = c.run(t, "policy", "diff", write(t, "raised.yaml", raised))
	r.expect(t, exitFound)
	if r.out != "dimensions.report_export.limit: 50000 -> 60000\n" || r.err != "" {
		t.Errorf("stdout %q, stderr %q", r.out, r.err)
	}
	r = c.run(t, "policy", "diff", write(t, "faulty.yaml", faulty))
	r.expect(t, exitRefused)
	wantText(t, "stderr", r.err, "faulty.yaml:4: ", "read policy files: 4 faults; nothing was done")
	c.run(t, "policy", "diff", "--from", "4").expect(t, exitDone)
}

func TestDiffBetweenVersionsReadsBoth(t *testing.T) {
	t.Parallel()
	f := busy()
	c := f.serve(t)
	c.run(t, "policy", "diff", "--from", "3", "--to", "5").expect(t, exitDone)
	want := []proto.Message{&pb.GetPolicyRequest{Version: 3}, &pb.GetPolicyRequest{Version: 5}}
	for i, w := range want {
		if !proto.Equal(f.requests[i], w) {
			t.Errorf("request %d is %v, want %v", i, f.requests[i], w)
		}
	}
}

func TestDiffAgainstNoPolicyAddsAll(t *testing.T) {
	t.Parallel()
	f := &fakeAdmin{faults: map[string]error{"GetPolicy": status.Error(codes.NotFound, "no policy has been applied")}}
	r := f.serve(t).run(t, "policy", "diff", write(t, "first.yaml", currentYAML))
	r.expect(t, exitFound)
	wantText(t, "stdout", r.out,
		"dimensions.report_export: added (limit 50000, class bounded, overshoot 0.5%, kind period, period.every day, period.timezone Asia/Seoul, description \"reports a day\")\n",
		"dimensions.page_views: added (limit unlimited, class best_effort, kind period, period.every minute)\n",
		"dimensions.report_export.plans.basic: added (limit 1000, overshoot 0.5%)\n")
}

func TestChangesAreShownWithoutDefaults(t *testing.T) {
	t.Parallel()
	const removed = `dimensions.a.b: removed (limit 5, class hard, overshoot 10%, kind period, period.every day, lease.ttl 30s, unit "x, \" (y), z", description "")`
	got := changeLines([]string{removed, "dimensions.a.limit: 5 -> 6", `tenants."a: added (b)": added (plan none)`, "policy: added (class soft)"})
	want := []string{
		`dimensions.a.b: removed (limit 5, class hard, kind period, period.every day, unit "x, \" (y), z")`,
		"dimensions.a.limit: 5 -> 6", `tenants."a: added (b)": added (plan none)`, "policy: added (class soft)",
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got  %s\nwant %s", got[i], want[i])
		}
	}
}

func TestGetPrintsWhatApplyTakes(t *testing.T) {
	t.Parallel()
	r := busy().serve(t).run(t, "policy", "get")
	r.expect(t, exitDone)
	if r.out != currentYAML {
		t.Errorf("policy get prints\n%s", r.out)
	}
}

func TestAddedRatesAndSlotsAreShownWithoutDefaults(t *testing.T) {
	t.Parallel()
	f := &fakeAdmin{faults: map[string]error{"GetPolicy": status.Error(codes.NotFound, "no policy has been applied")}}
	r := f.serve(t).run(t, "policy", "diff", write(t, "kinds.yaml", `dimensions:
  - {name: api_calls, kind: rate, limit: 100/s, burst: 200, class: bounded, overshoot: 5%}
  - {name: batch_jobs, kind: concurrency, limit: 20, max_hold: 2h, class: hard}
operations:
  - {name: start_job, takes: [{dimension: api_calls, cost: 2}, {dimension: batch_jobs}]}
`))
	r.expect(t, exitFound)
	want := `dimensions.api_calls: added (limit 100/s, burst 200, class bounded, overshoot 5%, kind rate)
dimensions.batch_jobs: added (limit 20, class hard, kind concurrency, max_hold 2h)
operations.start_job: added (outage.mode as its dimensions)
operations.start_job.takes.api_calls: added (cost 2)
operations.start_job.takes.batch_jobs: added (cost 1)
policy: added (unlisted_tenants allow, default_plan none)
`
	if r.out != want {
		t.Errorf("stdout:\n%s\nwant:\n%s", r.out, want)
	}
}
