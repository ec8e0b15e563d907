//go:build unix

package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
)

// patience is how long a test waits for something that is sure to come.
const patience = 60 * time.Second

// ownerEnv turns the test binary into a process that starts a server and never stops it.
const ownerEnv = "PGSERVER_TEST_OWNER"

func TestMain(m *testing.M) {
	if dir, ok := os.LookupEnv(ownerEnv); ok {
		ownServer(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

// ownServer tells on stdout how far it has come, and then waits to be killed. Standard input
// is a pipe from the test, so it does not outlive the test either.
func ownServer(dir string) {
	server, err := Start(context.Background(), Config{Dir: dir, Log: func(line string) { fmt.Println("log", line) }})
	if err != nil {
		fmt.Println("fault", err)
		os.Exit(1)
	}
	fmt.Println("up", server.Pid(), server.guard.cmd.Process.Pid, server.scratch.dir)
	_, _ = os.Stdin.Read(make([]byte, 1))
}

// needServer skips a test where no PostgreSQL is installed, which must not happen in CI.
func needServer(t *testing.T) {
	t.Helper()
	_, err := find(os.Getenv(BinEnv), os.Getenv("PATH"), packageGlobs)
	switch {
	case err == nil:
	case errors.Is(err, ErrNoBinaries{}) && os.Getenv("CI") != "true":
		t.Skip("skipped: ", err)
	default:
		t.Fatal(err)
	}
}

// reachableDir is a folder below /tmp that the server's account can enter: t.TempDir's parent
// is closed to others, and a test run by root starts the server as another user.
func reachableDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "pgserver-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func mustStart(t *testing.T, cfg Config) *Server {
	t.Helper()
	needServer(t)
	server, err := Start(testContext(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mustStop(t, server) })
	return server
}

// mustStop has a context of its own: the test's is over when clean-up runs.
func mustStop(t *testing.T, server *Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := server.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// query returns the one text value that the statement yields.
func query(t *testing.T, dsn, statement string) string {
	t.Helper()
	ctx := testContext(t)
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	var value string
	if err := conn.QueryRow(ctx, statement).Scan(&value); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return value
}

func execSQL(t *testing.T, dsn string, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if err := execute(testContext(t), dsn, statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// eventually waits until check has nothing to complain about.
func eventually(t *testing.T, check func() string) {
	t.Helper()
	ctx := testContext(t)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for complaint := check(); complaint != ""; complaint = check() {
		select {
		case <-ctx.Done():
			t.Fatalf("still after %s: %s", patience, complaint)
		case <-tick.C:
		}
	}
}

// remains says what is left of a folder and of the processes that were given it, "" if nothing.
func remains(dir string, pids ...int) string {
	if there, err := exists(dir); there || err != nil {
		return fmt.Sprintf("folder %s is there (%v)", dir, err)
	}
	for _, pid := range pids {
		if alive(pid) {
			return fmt.Sprintf("process %d is alive", pid)
		}
	}
	if users := processesNaming(dir); len(users) > 0 {
		return fmt.Sprintf("processes use %s: %v", dir, users)
	}
	return ""
}

// alive does not count a process that has ended and only waits to be reaped.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		_, err := os.Stat("/proc/self/stat")
		return err != nil // without a /proc the signal's answer is all there is
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}

// processesNaming lists the processes that have dir in their arguments or work below it, where
// the system shows that.
func processesNaming(dir string) (found []string) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		args, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		cwd, _ := os.Readlink(filepath.Join("/proc", entry.Name(), "cwd"))
		line := strings.ReplaceAll(string(args), "\x00", " ")
		if strings.Contains(line, dir) || strings.HasPrefix(cwd, dir) {
			found = append(found, fmt.Sprintf("%d %s", pid, line))
		}
	}
	return found
}
