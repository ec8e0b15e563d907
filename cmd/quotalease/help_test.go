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

func TestHelpWritesDurationsAsPeopleDo(t *testing.T) {
	t.Parallel()
	r := console{}.run(t, "controlplane", "--help")
	r.expect(t, exitDone)
	wantText(t, "--help", r.out, "(default 720h)", "(default 10s)")
	if strings.Contains(r.out, "0m0s") {
		t.Errorf("--help:\n%s", r.out)
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

func TestCompletionOffersFilesOnlyForFiles(t *testing.T) {
	t.Parallel()
	r := console{}.run(t, "completion", "bash")
	r.expect(t, exitDone)
	wantText(t, "completion", r.out, "quotalease")
	const files, none = ":0\n", ":4\n"
	for line, want := range map[string]string{
		"usage -o":                    "table\njson\n" + none,
		"demo --format":               "auto\naccess-log\ncsv\n" + none,
		"usage export --format":       "csv\njson\n" + none,
		"ledger release-held --units": "all\n" + none,
		"usage list":                  none,
		"usage --dimension":           none,
		"lease show":                  none,
		"policy explain acme":         none,
		"policy rollback --why":       none,
		"usage --server":              none,
		"policy diff":                 files,
		"policy import":               files,
		"policy import --from":        "envoy\n" + none,
		"policy import --class":       "exact\nhard\nbounded\nbest_effort\n" + none,
		"replay":                      files,
		"policy apply -f":             files,
		"bound -f":                    files,
		"controlplane --policy-dir":   files,
	} {
		r := console{}.run(t, append(append([]string{"__complete"}, strings.Fields(line)...), "")...)
		if r.out != want {
			t.Errorf("%s <TAB> offers %q, want %q", line, r.out, want)
		}
	}
}
