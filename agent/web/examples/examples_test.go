package examples_test

import (
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"github.com/quotalease/quotalease/agent/agenttest"
	"github.com/quotalease/quotalease/agent/embed"
	"github.com/quotalease/quotalease/agent/web"
)

var want = regexp.MustCompile(`^two calls: allowed
two more: exhausted, again in [12] s
two more: allowed
three at once: too_large, for good
an export: allowed
exports left: 9
an export: allowed
exports left: 9
a reservation: allowed
used: 740
$`)

// Every example does the same against a real agent's door, on a port of the loopback.
func TestEveryLanguage(t *testing.T) {
	t.Parallel()
	policy, err := os.ReadFile("policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	control, err := agenttest.Start(string(policy))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = control.Close() })
	q, err := embed.Start(t.Context(), embed.Config{ControlPlanes: []string{control.Addr()}, Region: "eu"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })
	handler, err := web.New(q, web.Config{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	for file, programs := range map[string][]string{"quota.sh": {"sh", "curl"}, "quota.py": {"python3"}, "quota.mjs": {"node"}} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			for _, program := range programs {
				if _, err := exec.LookPath(program); err != nil && os.Getenv("CI") == "true" {
					t.Fatalf("%s is not on this machine: %v", program, err)
				} else if err != nil {
					t.Skipf("%s is not on this machine: %v", program, err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, programs[0], file, "tenant of "+file)
			cmd.Env = append(os.Environ(), "QUOTALEASE="+server.URL, "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1")
			cmd.Stderr = t.Output()
			got, err := cmd.Output()
			if err != nil || !want.Match(got) {
				t.Errorf("%v\n%s\nwant\n%s", err, got, want)
			}
		})
	}
}
