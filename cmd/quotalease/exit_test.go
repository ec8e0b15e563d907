package main

import (
	"context"
	"math"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

func TestWrongUsageSaysWhatIsAllowed(t *testing.T) {
	t.Parallel()
	c := busy().serve(t)
	missing := filepath.Join(t.TempDir(), "none.yaml")
	for _, tt := range []struct {
		line string
		says []string
	}{
		{"usage --wrong", []string{"unknown flag: --wrong", "see quotalease usage --help"}},
		{"usage a b", []string{"2 arguments; allowed: a tenant, or none for all"}},
		{"usge", []string{`no such command: "usge"; near: usage`}},
		{"policy aply", []string{`no such command: "aply"; near: apply`, "see quotalease policy --help"}},
		{"usage -o xml", []string{`--output: "xml"; allowed: table, json`}},
		{"usage --timeout 0s", []string{"--timeout: 0s; allowed: more than 0s"}},
		{"usage --timeout soon", []string{`--timeout: "soon"; allowed: a duration such as 10s`}},
		{"usage --server nowhere", []string{`--server: "nowhere"; allowed: host:port`}},
		{"usage --limit 0", []string{"--limit: 0; allowed: 1 or more"}},
		{"policy history --limit -1", []string{"--limit: -1; allowed: 1 or more"}},
		{"policy apply --why x", []string{"-f: missing; allowed: a policy file, a directory, or - for stdin"}},
		{"policy apply -f -", []string{"--why: missing; allowed: a reason"}},
		{"policy apply -f - -f - --why x", []string{"-f: stdin is named twice"}},
		{"policy apply --why x -f " + missing, []string{"-f: ", "none.yaml"}},
		{"policy get zero", []string{`VERSION: "zero"; allowed: a number from 1`}},
		{"policy rollback 0 --why x", []string{`VERSION: "0"; allowed: a number from 1`}},
		{"policy rollback 3", []string{"--why: missing"}},
		{"policy diff", []string{"either files, or --from with or without --to"}},
		{"policy diff - --from 3", []string{"either files, or --from with or without --to"}},
		{"policy diff --to 3", []string{"--from, --to: allowed: numbers from 1"}},
		{"policy explain acme", []string{"1 argument; allowed: a tenant and a dimension"}},
		{"override add --dimension d --limit 5 --owner o --reason r --expires 2027-01-31", []string{"--tenant: missing; allowed: the tenant's name"}},
		{"override add --tenant t --limit 5 --owner o --reason r --expires 2027-01-31", []string{"--dimension: missing; allowed: a dimension"}},
		{"override add --tenant t --dimension d --owner o --reason r --expires 2027-01-31", []string{"--limit: missing; allowed: a whole number"}},
		{"override add --tenant t --dimension d --limit 5 --reason r --expires 2027-01-31", []string{"--owner: missing; allowed: who answers for it"}},
		{"override add --tenant t --dimension d --limit 5 --owner o --expires 2027-01-31", []string{"--reason: missing; allowed: why it is granted"}},
		{"override add --tenant t --dimension d --limit 5 --owner o --reason r", []string{"--expires: missing; allowed: a date such as 2027-01-31"}},
		{"override remove --tenant t --dimension d", []string{"--why: missing"}},
		{"lease show x", []string{`ID: "x"; allowed: a UUID`}},
		{"lease list --agent x", []string{`--agent: "x"; allowed: a UUID`}},
		{"lease revoke --why x", []string{"either ids, or --tenant with --dimension"}},
		{"lease revoke --why x --tenant acme", []string{"--tenant, --dimension: allowed: both or neither"}},
		{"lease revoke --why x --tenant acme --dimension d " + someID, []string{"either ids, or --tenant with --dimension"}},
		{"lease revoke " + someID, []string{"--why: missing"}},
		{"ledger waiting acme", []string{"1 argument; allowed: none, callers are chosen by flags"}},
		{"ledger waiting --limit 0", []string{"--limit: 0; allowed: 1 or more"}},
		{"bound --agents 0", []string{"--agents: 0; allowed: 1 or more"}},
		{"bound --agents 99999999999", []string{`--agents: "99999999999"; allowed: a whole number up to 2,147,483,647`}},
		{"controlplane --database-url postgres://127.0.0.1/x --database-connections 0", []string{"--database-connections: 0; allowed: 1 or more"}},
		{"bound --peak -5", []string{"--peak: -5; allowed: 1 or more"}},
		{"migrate down", []string{"--database-url: missing"}},
		{"migrate down --database-url postgres://127.0.0.1/x", []string{`migrate: "down"; allowed: up, status`}},
		{"ledger verify", []string{"--database-url: missing; allowed: a Postgres connection string, here or in QUOTALEASE_DATABASE_URL"}},
	} {
		t.Run(tt.line, func(t *testing.T) {
			t.Parallel()
			r := c.run(t, strings.Fields(tt.line)...)
			r.expect(t, exitRefused)
			wantText(t, "stderr", r.err, tt.says...)
			if r.out != "" {
				t.Errorf("stdout: %q, want nothing", r.out)
			}
		})
	}
}

func TestChangesNeedAName(t *testing.T) {
	t.Parallel()
	f := busy()
	c := f.serve(t)
	delete(c.env, "USER")
	r := c.run(t, "policy", "rollback", "3", "--why", "x")
	r.expect(t, exitRefused)
	wantText(t, "stderr", r.err, "--who: missing, and neither $USER, $LOGNAME nor the system names the user")
	for _, tt := range []struct{ user, logname, login, want string }{
		{"mina", "jo", "root", "mina"}, {"", "jo", "root", "jo"}, {"", "", "root", "root"},
	} {
		c.env["USER"], c.env["LOGNAME"], c.login = tt.user, tt.logname, tt.login
		c.run(t, "policy", "rollback", "3", "--why", "x").expect(t, exitDone)
		if got := last[*pb.RollbackPolicyRequest](t, f).GetWho(); got != tt.want {
			t.Errorf("%+v: who is %q", tt, got)
		}
	}
}

func TestApplyTellsFaultsOfFilesAndFlagsAtOnce(t *testing.T) {
	t.Parallel()
	f := busy()
	c := f.serve(t)
	delete(c.env, "USER")
	path := write(t, "faulty.yaml", faulty)
	r := c.run(t, "policy", "apply", "-f", path)
	r.expect(t, exitRefused)
	lines := strings.Split(r.err, "\n")
	for i, place := range []string{":4: ", ":5: ", ":6: ", ":7: "} {
		if !strings.HasPrefix(lines[i], path+place) {
			t.Errorf("line %d is %q, want it to begin with %s", i+1, lines[i], path+place)
		}
	}
	wantText(t, "stderr", r.err, "\nquotalease: read policy files: 4 faults; nothing was done\n--who: missing")
	if len(f.requests) != 0 {
		t.Errorf("the control plane was asked: %v", f.requests)
	}
	c.stdin = raised
	c.run(t, "policy", "apply", "-f", "-", "--dry-run").expect(t, exitDone) // records nobody
}

func TestAnAddressIsCheckedBeforeTheDatabase(t *testing.T) {
	t.Parallel()
	c := console{env: map[string]string{databaseEnv: "postgres://127.0.0.1:1/none?connect_timeout=1"}}
	r := c.run(t, "controlplane", "--grpc", "0.0.0.0:0")
	r.expect(t, exitRefused)
	wantText(t, "stderr", r.err, "--grpc: 0.0.0.0:0 is not a loopback address")
	r = c.run(t, "controlplane", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0")
	r.expect(t, exitOutage)
	wantText(t, "stderr", r.err, "Postgres gives no answer")
}

func TestRefusalsOfTheControlPlane(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		err  error
		code int
		says []string
	}{
		{"faulty files", status.Error(codes.InvalidArgument, "a.yaml:3: limit: -1; allowed: 0 or above\na.yaml:9: class: soft; allowed: exact, hard"), exitRefused,
			[]string{"apply policy:\na.yaml:3: limit: -1; allowed: 0 or above\na.yaml:9: class"}},
		{"overtaken", status.Error(codes.Aborted, "the policy was changed by someone else"), exitRefused, []string{"apply policy: the policy was changed by someone else"}},
		{"no Postgres", status.Error(codes.Unavailable, "control plane is unavailable"), exitOutage,
			[]string{"apply policy: control plane is unavailable", "is there and cannot work: see that its Postgres runs"}},
		{"late", status.Error(codes.DeadlineExceeded, "deadline"), exitOutage, []string{"within 10s", "longer --timeout", "may have been made"}},
		{"not a control plane", status.Error(codes.Unimplemented, "unknown service"), exitRefused, []string{"is no control plane of this version", "--server"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := &fakeAdmin{faults: map[string]error{"ApplyPolicy": tt.err}}
			c := f.serve(t)
			c.stdin = raised
			r := c.run(t, "policy", "apply", "-f", "-", "--why", "x")
			r.expect(t, tt.code)
			wantText(t, "stderr", r.err, tt.says...)
		})
	}
}

func TestAnUnreachableControlPlaneIsAnOutage(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	r := console{}.run(t, "agents", "--server", addr)
	r.expect(t, exitOutage)
	wantText(t, "stderr", r.err, addr+" gives no answer", "quotalease controlplane", "--server")
}

// A listener that nobody accepts from lets a client connect and never answers.
func TestASilentControlPlaneIsAnOutage(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	r := console{}.run(t, "agents", "--timeout", "50ms", "--server", listener.Addr().String())
	r.expect(t, exitOutage)
	wantText(t, "stderr", r.err, "within 50ms", "--timeout")
}

func TestAnInterruptHasItsOwnCode(t *testing.T) {
	t.Parallel()
	c := busy().serve(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var said strings.Builder
	sh := &shell{in: strings.NewReader(""), out: &said, err: &said, getenv: func(n string) string { return c.env[n] }, now: time.Now, login: func() string { return "" }}
	if code := run(ctx, sh, []string{"agents"}); code != exitInterrupted {
		t.Errorf("exit code %d, want %d: %s", code, exitInterrupted, said.String())
	}
}

func TestWhatIsNotThere(t *testing.T) {
	t.Parallel()
	f := idle()
	f.faults = map[string]error{
		"ExplainPolicy": status.Error(codes.NotFound, `dimension "exports" is not defined; near: report_export`),
		"GetPolicy":     status.Error(codes.NotFound, "read policy: no such policy version"),
	}
	c := f.serve(t)
	for line, says := range map[string]string{
		"policy explain acme exports": "near: report_export",
		"policy get 9":                "quotalease: read policy: no such policy version",
		"policy list":                 "read policy: no such policy version",
		"tenant show nobody":          `"nobody" is not listed by the policy`,
		"lease show " + someID:        "the ledger has no grant " + someID,
	} {
		r := c.run(t, strings.Fields(line)...)
		r.expect(t, exitRefused)
		wantText(t, line, r.err, says)
	}
	r := c.run(t, "lease", "revoke", someID, "--why", "x")
	r.expect(t, exitRefused)
	wantText(t, "stdout", r.out, "revoked 0 leases")
	wantText(t, "stderr", r.err, "none of these is a live lease")
	// A key without leases is what the command is to bring about.
	r = c.run(t, "lease", "revoke", "--tenant", "acme", "--dimension", "d", "--why", "x")
	r.expect(t, exitDone)
	wantText(t, "stderr", r.err, "this does not stop the tenant")
}

func TestFlagsReachTheControlPlane(t *testing.T) {
	t.Parallel()
	files := []*pb.PolicyFile{{Name: "stdin", Text: raised}}
	acme := &pb.Key{Tenant: "acme", Dimension: "report_export"}
	for _, tt := range []struct {
		line string
		want proto.Message
	}{
		{"policy apply -f - --why sale", &pb.ApplyPolicyRequest{Files: files, Who: "mina", Why: "sale"}},
		{"policy apply -f - --dry-run --who jo", &pb.ApplyPolicyRequest{Files: files, Who: "jo", Why: "dry run", DryRun: true}},
		{"policy rollback 3 --why x --who jo", &pb.RollbackPolicyRequest{To: 3, Who: "jo", Why: "x"}},
		{"policy get 3", &pb.GetPolicyRequest{Version: 3}},
		{"policy history", &pb.ListPoliciesRequest{Limit: 50}},
		{"policy explain acme report_export", &pb.ExplainPolicyRequest{Key: acme}},
		{"tenant list --limit 7", &pb.ListTenantsRequest{Limit: 7}},
		{"tenant show acme", &pb.ListTenantsRequest{Tenant: "acme"}},
		{"usage", &pb.ListUsageRequest{Limit: 1000}},
		{"usage list", &pb.ListUsageRequest{Limit: 1000}},
		{"usage list acme --over 99.5%", &pb.ListUsageRequest{Tenant: "acme", Limit: 1000, Over: proto.Int64(99_500_000)}},
		{"usage list --over 0%", &pb.ListUsageRequest{Limit: 1000, Over: proto.Int64(0)}},
		{"usage export", &pb.ListStatementsRequest{}},
		{"usage export --tenant acme --dimension report_export --from 2026-11-01 --to 2026-12-01T00:00:00+09:00 --final-only --revisions",
			&pb.ListStatementsRequest{Tenant: "acme", Dimension: "report_export", FinalOnly: true, Revisions: true,
				From: &pb.WindowStart{AtUs: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC).UnixMicro(), Local: true},
				To:   &pb.WindowStart{AtUs: time.Date(2026, 11, 30, 15, 0, 0, 0, time.UTC).UnixMicro()}}},
		{"usage adjust --tenant acme --dimension report_export --credit 5 --reason x --id " + someID,
			&pb.AdjustUsageRequest{Id: grantID(1), Key: acme, Credit: 5, Who: "mina", Why: "x"}},
		{"usage adjust --tenant acme --dimension report_export --credit 5 --why x --who jo --window 2026-11-29T02:30 --id " + someID,
			&pb.AdjustUsageRequest{Id: grantID(1), Key: acme, Credit: 5, Who: "jo", Why: "x",
				Window: &pb.WindowStart{AtUs: time.Date(2026, 11, 29, 2, 30, 0, 0, time.UTC).UnixMicro(), Local: true}}},
		{"ledger release-held --tenant acme --dimension report_export --units 7 --why x --id " + someID,
			&pb.ReleaseHeldRequest{Id: grantID(1), Key: acme, Units: 7, Who: "mina", Why: "x"}},
		{"ledger release-held --tenant acme --dimension report_export --units all --why x --id " + someID,
			&pb.ReleaseHeldRequest{Id: grantID(1), Key: acme, Units: math.MaxInt64, Who: "mina", Why: "x"}},
		{"usage acme --dimension report_export --all-windows --limit 5",
			&pb.ListUsageRequest{Tenant: "acme", Dimension: "report_export", AllWindows: true, Limit: 5}},
		{"lease list --tenant acme --dimension report_export --all-states --agent " + someID,
			&pb.ListLeasesRequest{Tenant: "acme", Dimension: "report_export", AllStates: true, Agent: grantID(1), Limit: 1000}},
		{"lease show " + someID, &pb.ListLeasesRequest{GrantId: grantID(1), AllStates: true}},
		{"lease revoke --why x " + someID, &pb.RevokeLeasesRequest{GrantIds: [][]byte{grantID(1)}, Who: "mina", Why: "x"}},
		{"lease revoke --why x --tenant acme --dimension report_export", &pb.RevokeLeasesRequest{Key: acme, Who: "mina", Why: "x"}},
		{"ledger waiting", &pb.ListWaitingRequest{Limit: 1000}},
		{"ledger waiting --tenant acme --operation start_export --limit 5", &pb.ListWaitingRequest{Tenant: "acme", Operation: "start_export", Limit: 5}},
		{"agents", &pb.ListAgentsRequest{}},
		{"bound report_export --agents 40 --tenant acme --peak 2000",
			&pb.GetBoundRequest{Dimension: "report_export", Agents: 40, Tenant: "acme", PeakPerSecond: 2000}},
	} {
		t.Run(tt.line, func(t *testing.T) {
			t.Parallel()
			f := busy()
			c := f.serve(t)
			c.stdin = raised
			c.run(t, append(strings.Fields(tt.line), "-o", "json")...).expect(t, exitDone)
			if got := f.requests[len(f.requests)-1]; !proto.Equal(got, tt.want) {
				t.Errorf("asked %T %v\nwant  %T %v", got, got, tt.want, tt.want)
			}
		})
	}
}
