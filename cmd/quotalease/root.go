package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const rootLong = `quotalease enforces contractual tenant quotas across regions without a central round
trip per request. A control plane keeps a grant ledger in Postgres and leases small
amounts of each quota to regional agents, which spend them locally. Every limit comes
with an overshoot bound that is computed, shown and enforced.

Most commands ask a control plane, at ` + defaultServer + ` unless --server or ` + serverEnv + `
says otherwise. migrate and ledger verify talk to Postgres themselves.

Exit codes:
  0    done
  1    what the command looks for is there: policy diff found a difference, policy
       validate a fault, migrate status a missing step, ledger verify a sum that is off
  2    not carried out: wrong usage, faulty input, or a refusal
  3    outage: the control plane or Postgres gave no answer
  130  interrupted`

// commands lists every command, in this one place.
func commands(sh *shell) []*cobra.Command {
	return []*cobra.Command{
		newDemoCommand(sh),
		newDevCommand(sh),
		newControlPlaneCommand(sh),
		newAgentCommand(sh),
		newReplayCommand(sh),
		newSimCommand(sh),
		newBenchCommand(sh),
		newMigrateCommand(sh),
		newPolicyCommand(sh),
		newOverrideCommand(sh),
		newTenantCommand(sh),
		newUsageCommand(sh),
		newLeaseCommand(sh),
		newAgentsCommand(sh),
		newBoundCommand(sh),
		newLedgerCommand(sh),
		newVersionCommand(sh),
	}
}

func newRootCommand(sh *shell) *cobra.Command {
	root := group("quotalease", "Lease quotas to regional agents, within a bound", rootLong,
		"  quotalease policy apply -f policy.yaml --why \"first policy\"\n  quotalease usage acme",
		commands(sh)...)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return sh.settle(cmd) }
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return misuseOf(cmd, "%w", flagFault(err))
	})
	sh.globalFlags(root)
	complete(root)
	return root
}

// flagFault says which values a flag takes, instead of what its parser could not do.
func flagFault(err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	allowed, ok := map[string]string{
		"int": "a whole number", "int32": "a whole number up to 2,147,483,647", "int64": "a whole number",
		"uint64": "a whole number of 0 or more", "duration": "a duration such as 10s or 1m30s", "bool": "true or false",
	}[invalid.GetFlag().Value.Type()]
	if !ok {
		return err
	}
	return fmt.Errorf("--%s: %q; allowed: %s", invalid.GetFlag().Name, invalid.GetValue(), allowed)
}

// run executes one command line and returns the exit code.
func run(ctx context.Context, sh *shell, args []string) int {
	root := newRootCommand(sh)
	root.SetArgs(args)
	root.SetIn(sh.in)
	root.SetOut(sh.out)
	root.SetErr(sh.err)
	return report(ctx, sh.err, root.ExecuteContext(ctx))
}

// group is a command that only holds others. Left to itself cobra answers an unknown one
// below it with help and success, which a script takes for done.
func group(use, short, long, example string, below ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Example: example,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			cmd.SuggestionsMinimumDistance = 2
			near := ""
			if names := cmd.SuggestionsFor(args[0]); len(names) > 0 {
				near = "; near: " + strings.Join(names, ", ")
			}
			return misuseOf(cmd, "no such command: %q%s", args[0], near)
		},
	}
	cmd.AddCommand(below...)
	return cmd
}

// arguments holds a command to a number of arguments and says which they are.
func arguments(least, most int, allowed string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || most >= 0 && len(args) > most {
			return misuseOf(cmd, "%s; allowed: %s", count(len(args), "argument"), allowed)
		}
		return nil
	}
}

// misuseOf is a misuse with the place where the right use is described.
func misuseOf(cmd *cobra.Command, format string, args ...any) error {
	return misuse(format+"\nsee %s --help", append(args, cmd.CommandPath())...)
}
