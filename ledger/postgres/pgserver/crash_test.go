//go:build unix

package pgserver

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// owner is another process that owns a server, for tests that kill it.
type owner struct {
	cmd    *exec.Cmd
	lines  *bufio.Scanner
	stdin  io.Closer
	server int
	guard  int
	dir    string
}

func startOwner(t *testing.T, dir, tmp string) *owner {
	t.Helper()
	needServer(t)
	o := &owner{cmd: exec.Command(os.Args[0])}
	o.cmd.Env = append(os.Environ(), ownerEnv+"="+dir, "TMPDIR="+tmp)
	stdin, err := o.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	o.stdin = stdin
	stdout, err := o.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	o.lines = bufio.NewScanner(stdout)
	if err := o.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.kill)
	return o
}

// until reads the owner's lines up to the first that begins with the word.
func (o *owner) until(t *testing.T, word string) string {
	t.Helper()
	var seen []string
	for o.lines.Scan() {
		line := o.lines.Text()
		if strings.HasPrefix(line, word) {
			return line
		}
		seen = append(seen, line)
	}
	t.Fatalf("the owner ended before %q: %q", word, seen)
	return ""
}

func (o *owner) untilUp(t *testing.T) {
	t.Helper()
	line := o.until(t, "up ")
	if _, err := fmt.Sscanf(line, "up %d %d %s", &o.server, &o.guard, &o.dir); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
}

// kill is kill -9; a second time does nothing.
func (o *owner) kill() {
	_ = o.cmd.Process.Kill()
	_ = o.cmd.Wait()
	_ = o.stdin.Close()
}

func TestKilledOwnerLeavesNothing(t *testing.T) {
	t.Parallel()
	o := startOwner(t, "", reachableDir(t))
	o.untilUp(t)
	if got := remains(o.dir, o.server, o.guard); got == "" {
		t.Fatal("the check for remains does not see a running server")
	}
	o.kill()
	eventually(t, func() string { return remains(o.dir, o.server, o.guard) })
}

func TestOwnerKilledInInitdbLeavesNothing(t *testing.T) {
	t.Parallel()
	tmp := reachableDir(t)
	o := startOwner(t, "", tmp)
	o.until(t, "log making a database")
	eventually(t, func() string { // initdb is at work
		if found, _ := filepath.Glob(tmp + "/*/data.new/*"); len(found) > 0 {
			return ""
		}
		return "initdb has not begun"
	})
	o.kill()
	eventually(t, func() string {
		if left, _ := filepath.Glob(tmp + "/*"); len(left) > 0 {
			return fmt.Sprint(left)
		}
		if users := processesNaming(tmp); len(users) > 0 {
			return fmt.Sprint(users)
		}
		return ""
	})
}

func TestNextStartSweepsWhatEvenTheWatchdogLeft(t *testing.T) {
	t.Parallel()
	tmp := reachableDir(t)
	o := startOwner(t, "", tmp)
	o.untilUp(t)
	if err := syscall.Kill(o.guard, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// A folder in use, or whose server still answers, is not touched by a sweep.
	removeStale(tmp)
	if there, err := exists(filepath.Join(o.dir, "data", "PG_VERSION")); err != nil || !there {
		t.Fatalf("a sweep took the folder of a running server (%v)", err)
	}
	o.kill()
	eventually(t, func() string {
		if alive(o.server) {
			// Where the kernel does not tell the server of its owner's end, nobody is left to.
			_ = syscall.Kill(o.server, syscall.SIGINT)
			return "the server is alive"
		}
		return ""
	})
	if there, err := exists(o.dir); err != nil || !there {
		t.Fatalf("nothing was left to sweep (%v)", err)
	}
	who, err := serverAccount()
	if err != nil {
		t.Fatal(err)
	}
	next, err := newScratch([]string{tmp}, who)
	if err != nil {
		t.Fatal(err)
	}
	if got := remains(o.dir); got != "" {
		t.Error(got)
	}
	if err := next.remove(); err != nil {
		t.Error(err)
	}
}

func TestSweepLeavesAFreeFolderWhoseServerAnswers(t *testing.T) {
	t.Parallel()
	server := mustStart(t, Config{Dir: filepath.Join(reachableDir(t), "db")})
	// As after a crash: nobody holds the folder, but its server is still there.
	if err := server.scratch.lock.Close(); err != nil {
		t.Fatal(err)
	}
	removeIfStale(server.scratch.dir)
	if got := query(t, server.DSN(), "SELECT 1::text"); got != "1" {
		t.Errorf("SELECT 1 = %s", got)
	}
	lock, err := openLock(filepath.Join(server.scratch.dir, lockName), 0)
	if err != nil {
		t.Fatalf("lock the folder again: %v", err)
	}
	server.scratch.lock = lock
}

func TestNamedFolderOutlivesAKilledOwner(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachableDir(t), "db")
	o := startOwner(t, dir, reachableDir(t))
	o.untilUp(t)
	execSQL(t, socketDSN(filepath.Join(o.dir, "socket")), "CREATE TABLE t (v text)", "INSERT INTO t VALUES ('kept')")
	o.kill()
	server := mustStart(t, Config{Dir: dir}) // at once: it waits for the old server's end
	if got := query(t, server.DSN(), "SELECT v FROM t"); got != "kept" {
		t.Errorf("after kill -9 the row is %q", got)
	}
	eventually(t, func() string { return remains(o.dir, o.server, o.guard) })
}
