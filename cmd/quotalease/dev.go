package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/quotalease/quotalease/cmd/quotalease/stage"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

//go:embed dev_policy.yaml
var devPolicy string

type devFlags struct {
	dataDir, policyDir           string
	controlGRPC, controlHTTP     string
	agentGRPC, agentHTTP, region string
	verbose, pprof               bool
}

func newDevCommand(sh *shell) *cobra.Command {
	var f devFlags
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run everything on this machine, until Ctrl-C",
		Long: `Run Postgres, a control plane and an agent on this machine, with example policies that
any tenant may use. Without --database-url a private Postgres is started from the server
binaries found here (on PATH, then where distributions put them), on a socket of its own.
Its data is temporary unless --data-dir names a folder.

A process that dies is started again after ten seconds: kill -9 the control plane and see
what the agent does meanwhile. Ctrl-C stops everything and leaves nothing behind.`,
		Example: `  quotalease dev
  quotalease dev --policy-dir ./policies --data-dir ~/.local/share/quotalease`,
		Args: arguments(0, 0, "none"),
		RunE: func(cmd *cobra.Command, _ []string) error { return sh.runDev(cmd.Context(), f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.dataDir, "data-dir", "", "folder for the private Postgres's data, kept (default temporary)")
	flags.StringVar(&f.policyDir, "policy-dir", "", "folder of policy files, re-read on change (default the examples)")
	flags.StringVar(&f.controlGRPC, "control-grpc", "127.0.0.1:7600", "the control plane's gRPC address")
	flags.StringVar(&f.controlHTTP, "control-http", "127.0.0.1:7601", "the control plane's HTTP address")
	flags.StringVar(&f.agentGRPC, "agent-grpc", "127.0.0.1:7610", "the agent's gRPC address")
	flags.StringVar(&f.agentHTTP, "agent-http", "127.0.0.1:7611", "the agent's HTTP address")
	flags.StringVar(&f.region, "region", "local", "the agent's region")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "show what the processes log")
	pprofFlag(flags, &f.pprof)
	sh.databaseFlag(cmd)
	return cmd
}

func (sh *shell) runDev(ctx context.Context, f devFlags) (err error) {
	if f.dataDir != "" && sh.databaseURL != "" {
		return misuse("--data-dir: the data of --database-url is where it is; allowed: one of the two")
	}
	for _, door := range []struct{ flag, addr string }{
		{"--control-grpc", f.controlGRPC}, {"--control-http", f.controlHTTP}, {"--agent-grpc", f.agentGRPC}, {"--agent-http", f.agentHTTP},
	} {
		// Before anything is started: is the address one that may be used, and free?
		l, err := listenLoopback(ctx, door.flag, door.addr)
		if err != nil {
			return err
		}
		_ = l.Close()
	}
	say := func(line string) { sh.note("%s", line) }
	st, err := stage.Start(ctx, stage.Config{
		DatabaseURL: sh.databaseURL, DataDir: f.dataDir, PolicyDir: f.policyDir, Log: say, Verbose: f.verbose, Profiles: f.pprof,
	})
	defer func() {
		sh.note("stopping")
		err = errors.Join(err, st.Close())
	}()
	if err != nil {
		return stopped(ctx, err)
	}
	st.Listen(f.controlGRPC, f.controlHTTP)
	if err := st.StartControl(ctx); err != nil {
		return stopped(ctx, err)
	}
	if f.policyDir == "" {
		if err := sh.applyExamples(ctx, st); err != nil {
			return stopped(ctx, err)
		}
	}
	a, err := st.StartAgent(ctx, f.region, f.agentGRPC, f.agentHTTP)
	if err != nil {
		return stopped(ctx, err)
	}
	sh.welcome(st, a, f.policyDir)
	return stopped(ctx, sh.superviseDev(ctx, st, a))
}

// stopped turns the end that Ctrl-C asked for into success.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// superviseDev starts again what dies, until ctx ends.
func (sh *shell) superviseDev(ctx context.Context, st *stage.Stage, a *stage.Agent) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-st.DatabaseDone():
			return fmt.Errorf("the private Postgres ended: %w", st.DatabaseErr())
		case <-st.ControlProc().Done():
			sh.note("control plane (pid %d) died; starting it again in %s", st.ControlProc().Pid(), restartAfter)
			if !rest(ctx) {
				return nil
			}
			if err := st.StartControl(ctx); err != nil {
				return err
			}
			sh.note("control plane is back, pid %d", st.ControlProc().Pid())
		case <-a.Done():
			sh.note("agent (pid %d) died; starting it again in %s", a.Pid(), restartAfter)
			if !rest(ctx) {
				return nil
			}
			again, err := st.StartAgent(ctx, a.Region, a.GRPC, a.HTTP)
			if err != nil {
				return err
			}
			a = again
			sh.note("agent is back, pid %d", a.Pid())
		}
	}
}

// restartAfter leaves time to see what the others do without the one that died, and keeps
// what dies at once again from being restarted in a hurry.
const restartAfter = 10 * time.Second

// rest waits that long; false means that dev is to stop.
func rest(ctx context.Context) bool {
	timer := time.NewTimer(restartAfter)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// applyExamples loads the example policies, unless the database has policies of its own.
func (sh *shell) applyExamples(ctx context.Context, st *stage.Stage) error {
	conn, err := st.Dial()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(ctx, sh.timeout)
	defer cancel()
	admin := pb.NewAdminServiceClient(conn)
	history, err := admin.ListPolicies(ctx, &pb.ListPoliciesRequest{Limit: 1})
	if err != nil {
		return fmt.Errorf("look for policies: %w", err)
	}
	if len(history.GetVersions()) > 0 {
		return nil
	}
	_, err = admin.ApplyPolicy(ctx, &pb.ApplyPolicyRequest{
		Files: []*pb.PolicyFile{{Name: "dev_policy.yaml", Text: devPolicy}}, Who: "quotalease dev", Why: "examples",
	})
	if err != nil {
		return fmt.Errorf("apply the example policies: %w", err)
	}
	return nil
}

func (sh *shell) welcome(st *stage.Stage, a *stage.Agent, policyDir string) {
	where := "the one given"
	verify := "quotalease ledger verify"
	if sh.databaseURL == "" {
		where = "private, " + st.DSN()
		verify = databaseEnv + `="` + st.DSN() + `" ` + verify
	}
	fmt.Fprintf(sh.out, `quotalease dev is up; Ctrl-C stops it

  agent          http://%s  gRPC %s  pid %d
  control plane  http://%s  gRPC %s  pid %d
  Postgres       %s

Try, in another terminal:
`, a.HTTP, a.GRPC, a.Pid(), st.Console(), st.ControlPlane(), st.ControlProc().Pid(), where)
	if policyDir == "" {
		for _, example := range []struct{ body, path string }{
			{`"tenant":"hobbyist","dimension":"report_export","cost":9`, "take"},
			{`"tenant":"hobbyist","dimension":"api_calls","cost":3`, "take"},
			{`"tenant":"hobbyist","dimension":"llm_tokens","estimate":2000`, "reserve"},
			{`"tenant":"hobbyist","operation":"start_export","id":"job-1"`, "acquire"},
			{`"tenant":"hobbyist","id":"job-1"`, "release"},
		} {
			fmt.Fprintf(sh.out, "  curl -i -d '{%s}' http://%s/v1/%s\n", example.body, a.HTTP, example.path)
		}
	}
	for _, command := range []string{"policy list", "usage", "bound"} {
		fmt.Fprintf(sh.out, "  quotalease --server %s %s\n", st.ControlPlane(), command)
	}
	fmt.Fprintf(sh.out, "  %s\n", verify)
}
