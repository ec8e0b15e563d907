//go:build unix

package pgserver

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestAnswersOnTheSocketOnly(t *testing.T) {
	t.Parallel()
	server := mustStart(t, Config{})
	for _, want := range []struct{ statement, value string }{
		{"SELECT 1::text", "1"},
		{"SELECT current_user::text", superuser},
		{"SHOW listen_addresses", ""},
		{"SELECT coalesce(inet_server_addr()::text, 'socket')", "socket"},
		{"SHOW server_encoding", "UTF8"},
		{"SHOW TimeZone", "UTC"},
	} {
		if got := query(t, server.DSN(), want.statement); got != want.value {
			t.Errorf("%s = %q, want %q", want.statement, got, want.value)
		}
	}
	info, err := os.Stat(server.scratch.socketDir())
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o700 {
		t.Errorf("the socket's folder has mode %v: other users must not get in", info.Mode())
	}
}

func TestDurableIsWhatTheConfigSays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg  func(t *testing.T) Config
		want string
	}{
		"for tests":    {func(*testing.T) Config { return Config{} }, "off"},
		"durable":      {func(*testing.T) Config { return Config{Durable: true} }, "on"},
		"named folder": {func(t *testing.T) Config { return Config{Dir: filepath.Join(reachableDir(t), "db")} }, "on"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := mustStart(t, c.cfg(t))
			for _, setting := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
				if got := query(t, server.DSN(), "SHOW "+setting); got != c.want {
					t.Errorf("%s = %s, want %s", setting, got, c.want)
				}
			}
		})
	}
}

func TestStopLeavesNothing(t *testing.T) {
	t.Parallel()
	server := mustStart(t, Config{})
	if got := remains(server.scratch.dir); got == "" {
		t.Fatal("the check for remains does not see a running server")
	}
	mustStop(t, server)
	// Backends notice the end of their server by themselves, so they may be a moment behind.
	eventually(t, func() string { return remains(server.scratch.dir, server.Pid(), server.guard.cmd.Process.Pid) })
	select {
	case <-server.Done():
	default:
		t.Error("Done is not closed after Stop")
	}
	if err := server.Err(); err != nil {
		t.Errorf("Err after an ordinary Stop: %v", err)
	}
	mustStop(t, server) // a second time is fine
}

func TestStopDoesNotWaitForClients(t *testing.T) {
	t.Parallel()
	server := mustStart(t, Config{})
	ctx := testContext(t)
	slow := make(chan error, 1)
	go func() { slow <- execute(ctx, server.DSN(), "SELECT pg_sleep(3600)") }()
	eventually(t, func() string {
		if query(t, server.DSN(), "SELECT count(*)::text FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == "1" {
			return ""
		}
		return "the slow statement has not begun"
	})
	mustStop(t, server)
	if err := <-slow; err == nil {
		t.Error("the slow statement succeeded")
	}
}

func TestAHungServerIsStoppedByForce(t *testing.T) {
	t.Parallel()
	needServer(t)
	server, err := Start(testContext(t), Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(server.Pid(), syscall.SIGSTOP); err != nil { // deaf to all but kill -9
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if err := server.Stop(over); !errors.Is(err, context.Canceled) {
		t.Errorf("stop = %v, want word that it was not clean", err)
	}
	if err := server.Stop(testContext(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("second stop = %v, want the first one's outcome", err)
	}
	eventually(t, func() string { return remains(server.scratch.dir, server.Pid()) })
}

func TestAnEndByItselfIsReported(t *testing.T) {
	t.Parallel()
	server := mustStart(t, Config{})
	if err := server.Err(); err != nil {
		t.Fatalf("Err while it runs: %v", err)
	}
	if err := syscall.Kill(server.Pid(), syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	select {
	case <-server.Done():
	case <-testContext(t).Done():
		t.Fatal("Done is not closed though the server has ended")
	}
	err := server.Err()
	if err == nil || !strings.Contains(err.Error(), "ended by itself") ||
		!strings.Contains(err.Error(), "received immediate shutdown request") {
		t.Errorf("Err = %v, want the end and the log's last lines", err)
	}
	mustStop(t, server)
	eventually(t, func() string { return remains(server.scratch.dir) })
}

func TestAStartThatFailsShowsTheLogAndLeavesNothing(t *testing.T) {
	t.Parallel()
	needServer(t)
	dir := filepath.Join(reachableDir(t), "db")
	mustStop(t, mustStart(t, Config{Dir: dir}))
	if err := os.Remove(filepath.Join(dir, "data", "global", "pg_control")); err != nil {
		t.Fatal(err)
	}
	server, err := Start(testContext(t), Config{Dir: dir})
	if err == nil {
		mustStop(t, server)
		t.Fatal("a server without its control file started")
	}
	if !strings.Contains(err.Error(), "pg_control") {
		t.Errorf("error %q does not show the server's own words", err)
	}
	eventually(t, func() string {
		if users := processesNaming(dir); len(users) > 0 {
			return strings.Join(users, ", ")
		}
		return ""
	})
}

func TestACancelledStartLeavesNothing(t *testing.T) {
	t.Parallel()
	needServer(t)
	dir := filepath.Join(reachableDir(t), "db")
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	// The line comes just before initdb runs.
	_, err := Start(ctx, Config{Dir: dir, Log: func(string) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("start: %v, want the context's end", err)
	}
	eventually(t, func() string {
		if users := processesNaming(dir); len(users) > 0 {
			return strings.Join(users, ", ")
		}
		return ""
	})
	server := mustStart(t, Config{Dir: dir}) // and the folder can still be used
	if got := query(t, server.DSN(), "SELECT 1::text"); got != "1" {
		t.Errorf("SELECT 1 = %s", got)
	}
}

func TestDatabasesAreCopiedAndDropped(t *testing.T) {
	t.Parallel()
	server := mustStart(t, Config{})
	ctx := testContext(t)
	template, err := CreateDatabase(ctx, server.DSN(), "model", "")
	if err != nil {
		t.Fatal(err)
	}
	execSQL(t, template, "CREATE TABLE colour (name text)", "INSERT INTO colour VALUES ('green')")
	const odd = `it's "odd" \ 1`
	clone, err := CreateDatabase(ctx, server.DSN(), odd, "model")
	if err != nil {
		t.Fatal(err)
	}
	if got := query(t, clone, "SELECT name FROM colour"); got != "green" {
		t.Errorf("the copy holds %q, want green", got)
	}
	if got := query(t, clone, "SELECT current_database()::text"); got != odd {
		t.Errorf("connected to %q, want %q", got, odd)
	}
	if _, err := CreateDatabase(ctx, server.DSN(), odd, "model"); err == nil {
		t.Error("a database was made twice")
	}
	for range 2 { // the second finds nothing to drop
		if err := DropDatabase(ctx, server.DSN(), odd); err != nil {
			t.Fatal(err)
		}
	}
	if got := query(t, server.DSN(), "SELECT count(*)::text FROM pg_database WHERE datname LIKE 'it%'"); got != "0" {
		t.Errorf("%s copies left after the drop", got)
	}
}

func TestPidIsTheServer(t *testing.T) {
	t.Parallel()
	server := mustStart(t, Config{})
	content := query(t, server.DSN(), "SELECT pg_read_file('postmaster.pid')")
	if first, _, _ := strings.Cut(content, "\n"); first != strconv.Itoa(server.Pid()) {
		t.Errorf("Pid = %d, the server says %s", server.Pid(), first)
	}
}
