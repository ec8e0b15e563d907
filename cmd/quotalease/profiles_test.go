package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quotalease/quotalease/agent/agenttest"
	"github.com/quotalease/quotalease/cmd/quotalease/stage"
	"github.com/quotalease/quotalease/controlplane"
	"github.com/quotalease/quotalease/controlplane/rpc"
)

// get asks a handler as if from a peer.
func get(h http.Handler, peer, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.RemoteAddr = peer
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestProfilesAreThereOnlyIfAskedFor(t *testing.T) {
	t.Parallel()
	pages := rpc.Handler(&controlplane.ControlPlane{}, prometheus.NewRegistry())
	for _, path := range []string{profilesPath, profilesPath + "heap", profilesPath + "cmdline", profilesPath + "profile?seconds=1"} {
		if w := get(withProfiles(false, pages), "127.0.0.1:1", path); w.Code != http.StatusNotFound {
			t.Errorf("%s without the flag: %d", path, w.Code)
		}
	}
	on := withProfiles(true, pages)
	if w := get(on, "127.0.0.1:1", profilesPath); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "goroutine") {
		t.Errorf("the index with the flag: %d %s", w.Code, w.Body)
	}
	if w := get(on, "[::ffff:127.0.0.1]:1", profilesPath+"heap?debug=1"); w.Code != http.StatusOK {
		t.Errorf("a profile with the flag: %d %s", w.Code, w.Body)
	}
	if w := get(on, "127.0.0.1:1", "/healthz"); w.Code != http.StatusOK || w.Body.String() != "alive\n" {
		t.Errorf("another page with the flag: %d %s", w.Code, w.Body)
	}
}

func TestProfilesAreForThisMachineAlone(t *testing.T) {
	t.Parallel()
	h := withProfiles(true, http.NotFoundHandler())
	for _, peer := range []string{"192.0.2.7:1", "[2001:db8::1]:1", "@", ""} {
		if w := get(h, peer, profilesPath+"heap"); w.Code != http.StatusForbidden {
			t.Errorf("from %q: %d", peer, w.Code)
		}
	}
}

// An agent as it is started says no by default, and yes when it is told to.
func TestAnAgentServesProfilesWhenItIsToldTo(t *testing.T) {
	t.Parallel()
	control, err := agenttest.Start("dimensions:\n- {name: calls, kind: period, limit: 5, period: {every: day}, class: hard}\n")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := control.Close(); err != nil {
			t.Error(err)
		}
	})
	for want, flags := range map[int][]string{http.StatusNotFound: nil, http.StatusOK: {"--pprof"}} {
		args := append([]string{"agent", "--control-plane", control.Addr(), "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"}, flags...)
		p, err := stage.Spawn(os.Args[0], "agent", nil, nil, args...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Stop(stageStop) })
		at, err := p.Ready(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.Get("http://" + at["http"] + profilesPath + "goroutine?debug=1")
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("with %v: %s %s", flags, answer.Status, body)
		}
	}
}
