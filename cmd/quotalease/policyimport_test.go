package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// envoyRules are messaging and logins, with lines that cannot be carried over.
const envoyRules = `domain: messaging
descriptors:
  - key: message_type
    value: marketing
    descriptors:
      - key: to_number
        detailed_metric: true
        rate_limit: {unit: day, requests_per_unit: 5}
  - key: login
    rate_limit: {unit: minute, requests_per_unit: 5}
  - key: remote_address
    rate_limit: {unit: second, requests_per_unit: 10}
`

// TestR4_2ImportPrintsThePolicy pins what people and scripts get.
func TestR4_2ImportPrintsThePolicy(t *testing.T) {
	t.Parallel()
	c := console{stdin: envoyRules}
	r := c.run(t, "policy", "import", "--from", "envoy", "-")
	r.expect(t, exitDone)
	golden(t, "policy_import_table", r.String())
	as := c.run(t, "policy", "import", "--from", "envoy", "-", "-o", "json")
	as.expect(t, exitDone)
	golden(t, "policy_import_json", as.String())
	var view struct{ Text string }
	if err := json.Unmarshal([]byte(as.out), &view); err != nil || view.Text != r.out {
		t.Errorf("-o json has another text, %v:\n%s", err, view.Text)
	}
	valid := console{stdin: r.out}.run(t, "policy", "validate", "-f", "-")
	valid.expect(t, exitDone)
	if want := "valid: 2 dimensions, 1 local limit, 3 descriptors\n"; valid.out != want {
		t.Errorf("validate says %q, want %q", valid.out, want)
	}
}

func TestImportReadsSeveralFilesAndFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.yaml": "domain: one\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 1}}]\n",
		"b.yaml": "domain: one\ndescriptors: [{key: b, rate_limit: {unit: day, requests_per_unit: 2}}]\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := console{stdin: envoyRules}
	r := c.run(t, "policy", "import", "--from", "envoy", "-", dir)
	r.expect(t, exitRefused)
	wantText(t, "stderr", r.err, "b.yaml:1: domain: domain \"one\" is given twice; first at ", "import rule files: 1 fault; nothing was done")
	if r.out != "" {
		t.Errorf("stdout: %s", r.out)
	}
	r = c.run(t, "policy", "import", "--from", "envoy", "--merge-domains", "--class", "best_effort", "--overshoot", "20%", "-", dir)
	r.expect(t, exitDone)
	wantText(t, "stdout", r.out, "name: one.a # ", "a.yaml:2\n", "name: one.b # ", "    class: best_effort\n    overshoot: 20%\n")
	wantText(t, "stderr", r.err, "4 dimensions, 1 local limit, 5 descriptors, 2 notes\n")
	r = console{stdin: "domain: d\ndescriptors: [{key: k, rate_limit: {unlimited: true}}]\n"}.run(t, "policy", "import", "--from", "envoy", "-")
	r.expect(t, exitDone)
	wantText(t, "stderr", r.err, "no quota is carried over: ", "0 dimensions, 0 local limits, 1 descriptor, 0 notes\n")
}

func TestImportNamesEveryFaultAndEachWrongFlag(t *testing.T) {
	t.Parallel()
	c := console{stdin: "domain: d\ndescriptors:\n  - value: v\n  - key: k\n    rate_limit: {unit: eon}\n"}
	r := c.run(t, "policy", "import", "--from", "envoy", "-")
	r.expect(t, exitRefused)
	want := `stdin:3: descriptors[0]: has no key; allowed: a key that is not empty
stdin:5: descriptors[1].rate_limit.unit: "eon" is not a unit; allowed: second, minute, hour, day, week, month or year
quotalease: import rule files: 2 faults; nothing was done
`
	if r.out != "" || r.err != want {
		t.Errorf("stdout %q, stderr\n%s\nwant\n%s", r.out, r.err, want)
	}
	for line, says := range map[string]string{
		"policy import --from envoy":                                "0 arguments; allowed: rule files, directories, or - for stdin",
		"policy import -":                                           `--from: missing; allowed: envoy`,
		"policy import --from kong -":                               `--from: "kong"; allowed: envoy`,
		"policy import --from envoy --class soft -":                 `--class: "soft"; allowed: exact, hard, bounded or best_effort`,
		"policy import --from envoy --overshoot 5 -":                `--overshoot: "5"; allowed: 0% to 100%`,
		"policy import --from envoy --class exact --overshoot 1% -": `--overshoot: "1%"; allowed: only with class hard, bounded or best_effort`,
		"policy import --from envoy no/such/file":                   "FILE: read policy files: stat no/such/file: no such file or directory",
	} {
		r := c.run(t, strings.Fields(line)...)
		if r.code != exitRefused {
			t.Errorf("%s: exit code %d", line, r.code)
		}
		wantText(t, line, r.err, says)
	}
}
