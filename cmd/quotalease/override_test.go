package main

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

const aWholeOverride = "override add --tenant acme --dimension report_export --limit 80000 --owner sales-ops --reason Q4 --expires 2027-01-31"

func TestOverrideAddSendsWhatWasGiven(t *testing.T) {
	t.Parallel()
	f := busy()
	c := f.serve(t)
	c.run(t, strings.Fields(aWholeOverride+" --burst 7 --who jo")...).expect(t, exitDone)
	want := &pb.AddOverrideRequest{Override: &pb.CommandOverride{
		Key: &pb.Key{Tenant: "acme", Dimension: "report_export"}, Limit: "80000", Burst: "7", Owner: "sales-ops", Reason: "Q4",
		Expires: "2027-01-31", Who: "jo"}}
	if got := last[*pb.AddOverrideRequest](t, f); !proto.Equal(got, want) {
		t.Errorf("asked for %v, want %v", got, want)
	}
	c.run(t, "override", "remove", "--tenant", "acme", "--dimension", "d", "--why", "off", "--who", "jo").expect(t, exitDone)
	if got := last[*pb.RemoveOverrideRequest](t, f); !proto.Equal(got, &pb.RemoveOverrideRequest{Key: &pb.Key{Tenant: "acme", Dimension: "d"}, Who: "jo", Why: "off"}) {
		t.Errorf("asked for %v", got)
	}
}

func TestOverrideRefusalsAreTold(t *testing.T) {
	t.Parallel()
	f := &fakeAdmin{faults: map[string]error{
		"AddOverride":    status.Error(codes.InvalidArgument, "override of acme in report_export: limit: \"x\" is text; allowed: a whole number"),
		"RemoveOverride": status.Error(codes.NotFound, "remove override: no such override by command"),
	}}
	c := f.serve(t)
	for line, says := range map[string]string{
		aWholeOverride: "limit: \"x\" is text; allowed: a whole number",
		"override remove --tenant t --dimension d --why x": "no such override by command",
	} {
		r := c.run(t, strings.Fields(line)...)
		r.expect(t, exitRefused)
		wantText(t, "stderr", r.err, says)
	}
}

// TestOverrideListShowsWhatCounts: of a file's and a command's the second, and none that has
// expired; with --all every one, with what it is worth.
func TestOverrideListShowsWhatCounts(t *testing.T) {
	t.Parallel()
	f := busy()
	stored := proto.Clone(f.replies["GetPolicy"]).(*pb.GetPolicyReply)
	stored.Text = strings.Replace(currentYAML, "    plans: {basic: {limit: 1000}}\n", `    plans: {basic: {limit: 1000}}
    overrides:
      - {tenant: acme, limit: 70000, owner: sales, reason: earlier deal, expires: 2027-06-30}
      - {tenant: initech, limit: 5000, owner: sales, reason: trial, expires: 2026-12-31}
`, 1)
	f.replies["GetPolicy"] = stored
	c := f.serve(t)
	r := c.run(t, "override", "list")
	r.expect(t, exitDone)
	want := `TENANT   DIMENSION       LIMIT  OWNER      EXPIRES     SOURCE   STATE     REASON
acme     report_export  80,000  sales-ops  2027-01-31  command  in force  Q4 deal
initech  report_export   5,000  sales      2026-12-31  file     in force  trial
`
	if r.out != want {
		t.Errorf("stdout:\n%s\nwant:\n%s", r.out, want)
	}
	r = c.run(t, "override", "list", "--all")
	r.expect(t, exitDone)
	wantText(t, "stdout", r.out,
		"globex   page_views     unlimited  sre        2026-11-01  command  expired   migration\n",
		"acme     report_export     70,000  sales      2027-06-30  file     replaced  earlier deal\n")
}

// TestDiffKeepsOverridesByCommand: files cannot take away what was granted by command.
func TestDiffKeepsOverridesByCommand(t *testing.T) {
	t.Parallel()
	c := busy().serve(t)
	r := c.run(t, "policy", "diff", write(t, "less.yaml", strings.Replace(currentYAML, "report_export", "report_exports", 1)))
	r.expect(t, exitFound)
	wantText(t, "stdout", r.out, "overrides.report_export.acme: removed (limit 80000", "dimensions.report_exports: added (")
	r = c.run(t, "policy", "diff", write(t, "more.yaml", raised))
	if strings.Contains(r.out, "overrides.") {
		t.Errorf("files are said to change overrides:\n%s", r.out)
	}
}
