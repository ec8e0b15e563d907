//go:build unix

package pgserver

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// fetched runs download against a repository and an empty cache of its own. The library keeps
// connections in http's default client; they must not outlive the test.
func fetched(t *testing.T, cache string, handler http.HandlerFunc) (string, error) {
	t.Helper()
	repository := httptest.NewServer(handler)
	defer http.DefaultClient.CloseIdleConnections()
	defer repository.Close()
	return download(testContext(t), cache, repository.URL, func(string) {})
}

// archive is what the repository holds: a zip around a .txz around the programs.
func archive(t *testing.T, names ...string) []byte {
	t.Helper()
	xz, err := exec.LookPath("xz")
	if err != nil {
		t.Skip("skipped: no xz to make an archive with: ", err)
	}
	var plain bytes.Buffer
	files := tar.NewWriter(&plain)
	for _, name := range names {
		body := []byte("#!/bin/sh\nexit 1\n")
		if err := files.WriteHeader(&tar.Header{Name: "bin/" + name, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(body))}); err != nil {
			t.Fatal(err)
		}
		if _, err := files.Write(body); err != nil {
			t.Fatal(err)
		}
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	compress := exec.CommandContext(testContext(t), xz, "-c")
	compress.Stdin = &plain
	packed, err := compress.Output()
	if err != nil {
		t.Fatal(err)
	}
	var jar bytes.Buffer
	outer := zip.NewWriter(&jar)
	inner, err := outer.Create("postgres.txz")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := inner.Write(packed); err != nil {
		t.Fatal(err)
	}
	if err := outer.Close(); err != nil {
		t.Fatal(err)
	}
	return jar.Bytes()
}

// ownTemp moves the temporary folder of this process, in which the library leaves a log. It
// is a process-wide setting, so these tests do not run in parallel.
func ownTemp(t *testing.T) {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
}

func entriesOf(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return strings.Join(names, " ")
}

func TestDownloadIsKeptForTheNextStart(t *testing.T) {
	ownTemp(t)
	jar := archive(t, "initdb", "postgres", "pg_ctl")
	sum := sha256.Sum256(jar)
	var asked atomic.Int32
	serve := func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if strings.HasSuffix(r.URL.Path, ".sha256") {
			_, _ = w.Write([]byte(hex.EncodeToString(sum[:])))
			return
		}
		_, _ = w.Write(jar)
	}
	cache, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	want := filepath.Join(cache, "postgres-"+string(downloadVersion), "bin")
	for range 2 {
		if got, err := fetched(t, cache, serve); err != nil || got != want {
			t.Fatalf("download = %q, %v; want %q", got, err, want)
		}
	}
	if got := asked.Load(); got != 2 {
		t.Errorf("the repository was asked %d times, want 2: the archive and its sum, once", got)
	}
	if got := entriesOf(t, cache); got != "postgres-"+string(downloadVersion) {
		t.Errorf("the cache holds %q", got)
	}
}

func TestDownloadThatFailsLeavesNothing(t *testing.T) {
	ownTemp(t)
	jar := archive(t, "initdb", "postgres", "pg_ctl")
	for name, serve := range map[string]http.HandlerFunc{
		"not there": http.NotFound,
		"wrong sum": func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, ".sha256") {
				_, _ = w.Write([]byte(strings.Repeat("0", 64)))
				return
			}
			_, _ = w.Write(jar)
		},
	} {
		cache := t.TempDir()
		_, err := fetched(t, cache, serve)
		if err == nil || !strings.Contains(err.Error(), "--database-url") {
			t.Errorf("%s: error = %v, want one that says what else can be done", name, err)
		}
		if got := entriesOf(t, cache); got != "" {
			t.Errorf("%s: the cache holds %q", name, got)
		}
	}
}

func TestDownloadEndsWithItsContext(t *testing.T) {
	ownTemp(t)
	ctx, cancel := context.WithCancel(testContext(t))
	release := make(chan struct{})
	repository := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cancel()
		<-release
		http.NotFound(w, r)
	}))
	defer http.DefaultClient.CloseIdleConnections()
	defer repository.Close()
	cache := t.TempDir()
	_, err := download(ctx, cache, repository.URL, func(string) {})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("download = %v while the repository hangs, want the context's end", err)
	}
	close(release)
	eventually(t, func() string { return entriesOf(t, cache) }) // the fetch clears up when it comes back
}
