package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func walk(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, sub := range cmd.Commands() {
		walk(sub, visit)
	}
}

func TestEveryCommandTeachesItself(t *testing.T) {
	t.Parallel()
	walk(newRootCommand(processShell()), func(cmd *cobra.Command) {
		t.Run(cmd.CommandPath(), func(t *testing.T) {
			t.Parallel()
			if cmd.Short == "" || len(cmd.Long) <= len(cmd.Short) {
				t.Errorf("Short %q, Long %q: each command needs both", cmd.Short, cmd.Long)
			}
			if !strings.Contains(cmd.Example, cmd.CommandPath()) {
				t.Errorf("the example does not show %q: %q", cmd.CommandPath(), cmd.Example)
			}
			r := console{}.run(t, append(strings.Fields(cmd.CommandPath())[1:], "--help")...)
			r.expect(t, exitDone)
			wantText(t, "--help", r.out, cmd.Long, "Examples:")
		})
	})
}

func TestHelpNamesTheExitCodes(t *testing.T) {
	t.Parallel()
	r := console{}.run(t, "--help")
	r.expect(t, exitDone)
	wantText(t, "--help", r.out, "Exit codes:", "0    done", "1    ", "2    ", "3    outage", "130  interrupted")
}

func TestHelpShowsNoSecret(t *testing.T) {
	t.Parallel()
	c := console{env: map[string]string{databaseEnv: "postgres://u:hunter2@127.0.0.1/x"}}
	r := c.run(t, "ledger", "verify", "--help")
	r.expect(t, exitDone)
	wantText(t, "--help", r.out, "--database-url")
	if strings.Contains(r.out, "hunter2") {
		t.Errorf("--help prints the password:\n%s", r.out)
	}
}

func TestVersionSaysWhichBuild(t *testing.T) {
	t.Parallel()
	r := console{}.run(t, "version")
	r.expect(t, exitDone)
	wantText(t, "version", r.out, "quotalease ", ", go1.")
	r = console{}.run(t, "version", "-o", "json")
	r.expect(t, exitDone)
	wantText(t, "version -o json", r.out, `"version": `, `"go": "go1.`, `"commit": `)
}

func TestCompletionIsThere(t *testing.T) {
	t.Parallel()
	r := console{}.run(t, "completion", "bash")
	r.expect(t, exitDone)
	wantText(t, "completion", r.out, "quotalease")
}
