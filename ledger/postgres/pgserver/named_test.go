//go:build unix

package pgserver

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestNamedFolderKeepsItsDataOverRestarts(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachableDir(t), "new", "db")
	for run := range 3 {
		server := mustStart(t, Config{Dir: dir})
		if run == 0 {
			execSQL(t, server.DSN(), "CREATE TABLE run (n int)")
		}
		execSQL(t, server.DSN(), fmt.Sprintf("INSERT INTO run VALUES (%d)", run))
		if got, want := query(t, server.DSN(), "SELECT count(*)::text FROM run"), fmt.Sprint(run+1); got != want {
			t.Errorf("run %d sees %s rows, want %s", run, got, want)
		}
		mustStop(t, server)
		if got := remains(server.scratch.dir, server.Pid()); got != "" {
			t.Error(got)
		}
	}
}

func TestASecondHolderIsRefused(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachableDir(t), "db")
	first := mustStart(t, Config{Dir: dir})
	second, err := Start(testContext(t), Config{Dir: dir})
	if err == nil {
		mustStop(t, second)
		t.Fatal("two servers share a folder")
	}
	want := fmt.Sprintf("use folder %s: process %d uses it: stop that one, or name another folder", dir, os.Getpid())
	if err.Error() != want {
		t.Errorf("error = %q\n want   %q", err, want)
	}
	if got := query(t, first.DSN(), "SELECT 1::text"); got != "1" {
		t.Errorf("the first server says %s", got)
	}
}

func TestAFolderWithOtherContentIsRefusedAndLeftAlone(t *testing.T) {
	t.Parallel()
	needServer(t)
	dir := reachableDir(t)
	if err := os.WriteFile(filepath.Join(dir, "thesis.txt"), []byte("years of work"), 0o600); err != nil {
		t.Fatal(err)
	}
	server, err := Start(testContext(t), Config{Dir: dir})
	if err == nil {
		mustStop(t, server)
		t.Fatal("a folder with other content was taken")
	}
	if want := "use folder " + dir + ": it has other content: name a new or an empty folder"; err.Error() != want {
		t.Errorf("error = %q\n want   %q", err, want)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 || entries[0].Name() != "thesis.txt" {
		t.Errorf("the folder now holds %v", entries)
	}
}

func TestDataOfAnotherMajorVersionIsRefused(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachableDir(t), "db")
	first := mustStart(t, Config{Dir: dir})
	mustStop(t, first)
	version := filepath.Join(dir, "data", "PG_VERSION")
	if err := os.WriteFile(version, []byte("9.6\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	server, err := Start(testContext(t), Config{Dir: dir})
	if err == nil {
		mustStop(t, server)
		t.Fatal("data of another major version was opened")
	}
	for _, want := range []string{filepath.Join(dir, "data"), "PostgreSQL 9.6 made it", first.binDir, BinEnv} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not name %q", err, want)
		}
	}
}

func TestAnUnfinishedDatabaseIsMadeAnew(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachableDir(t), "db")
	// What a power cut in the middle of initdb leaves.
	if err := os.MkdirAll(filepath.Join(dir, "data.new", "base"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, lockName), []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := mustStart(t, Config{Dir: dir})
	if got := query(t, server.DSN(), "SELECT 1::text"); got != "1" {
		t.Errorf("SELECT 1 = %s", got)
	}
	if there, err := exists(filepath.Join(dir, "data.new")); there || err != nil {
		t.Errorf("the unfinished database is still there (%v)", err)
	}
}

func TestAFolderBehindAClosedDoorIsNamed(t *testing.T) {
	t.Parallel()
	dir := reachableDir(t)
	closed := filepath.Join(dir, "closed")
	if err := os.MkdirAll(filepath.Join(closed, "db"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	// Ids that own nothing here, so that the test means the same for every user.
	stranger := &account{name: "stranger", uid: 4_000_001, gid: 4_000_001}
	got, err := stranger.blocked(filepath.Join(closed, "db"))
	if err != nil {
		t.Fatal(err)
	}
	if got != closed {
		t.Errorf("blocked at %q, want %q", got, closed)
	}
	if got, err := stranger.blocked(dir); err != nil || got != "" {
		t.Errorf("blocked(%s) = %q, %v; everybody may pass there", dir, got, err)
	}
	err = letIn(filepath.Join(closed, "db"), stranger)
	if err == nil || !strings.Contains(err.Error(), "user stranger, who cannot enter "+closed) {
		t.Errorf("error = %v, want the user and the folder", err)
	}
}

func TestScratchGoesWhereASocketFits(t *testing.T) {
	t.Parallel()
	dir := reachableDir(t)
	long := filepath.Join(dir, strings.Repeat("x", maxSocketPath))
	comma := filepath.Join(dir, "a,b")
	for _, made := range []string{long, comma} {
		if err := os.Mkdir(made, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	made, err := newScratch([]string{long, comma, dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Dir(made.dir) != dir {
		t.Errorf("made %s, want it in %s", made.dir, dir)
	}
	if socket := filepath.Join(made.socketDir(), socketFile); len(socket) > maxSocketPath {
		t.Errorf("%s has %d bytes, at most %d fit", socket, len(socket), maxSocketPath)
	}
	if err := made.remove(); err != nil {
		t.Error(err)
	}
	if _, err := newScratch([]string{long, comma}, nil); err == nil ||
		!strings.Contains(err.Error(), "too long") || !strings.Contains(err.Error(), "comma") {
		t.Errorf("error = %v, want the reason for each folder", err)
	}
}

func TestSweepTakesOnlyWhatNobodyHolds(t *testing.T) {
	t.Parallel()
	dir := reachableDir(t)
	held, err := newScratch([]string{dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"quotalease-pg-free/data", "quotalease-pg-empty", "quotalease-pg-foreign/data", "other"} {
		if err := os.MkdirAll(filepath.Join(dir, path), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "quotalease-pg-free", lockName), []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	removeStale(dir)
	for name, want := range map[string]bool{
		filepath.Base(held.dir): true, "quotalease-pg-free": false, "quotalease-pg-empty": false,
		"quotalease-pg-foreign": true, "other": true,
	} {
		if there, err := exists(filepath.Join(dir, name)); err != nil || there != want {
			t.Errorf("after the sweep %s is there: %t (%v), want %t", name, there, err, want)
		}
	}
	if err := held.remove(); err != nil {
		t.Error(err)
	}
}
