//go:build linux

package chaos

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// keeper starts a program and kills it when standard input ends, which is also when we do,
// however that happens.
const keeper = `"$@" & child=$!
read -r _
kill -KILL "$child"
wait "$child" 2>/dev/null`

// pooler is a pgbouncer in transaction mode. It listens on a socket in its folder.
type pooler struct {
	dir     string
	program string

	mu    sync.Mutex
	shell *exec.Cmd // nil while it is down
	stdin io.Closer
}

// findPooler skips the test where pgbouncer is not installed, or fails it where CI=true.
func findPooler(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	const advice = "needs pgbouncer: apt-get install pgbouncer"
	if os.Getenv("CI") == "true" {
		t.Fatal(advice)
	}
	t.Skip(advice)
	return ""
}

// startPooler puts a pooler before the database that answers at an address.
func startPooler(t testing.TB, dir, program, databaseUser, address string) *pooler {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	p := &pooler{dir: dir, program: program}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	settings := fmt.Sprintf(`[databases]
* = host=%s port=%s user=%s
[pgbouncer]
listen_addr =
unix_socket_dir = %s
auth_type = any
pool_mode = transaction
max_client_conn = 100
default_pool_size = 6
server_login_retry = 1
server_tls_sslmode = disable
`, host, port, databaseUser, dir)
	if err := os.WriteFile(p.file("pgbouncer.ini"), []byte(settings), 0o644); err != nil {
		t.Fatal(err)
	}
	if who := ordinaryUser(t); who != nil {
		if err := os.Chown(dir, int(who.Uid), int(who.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.start(ordinaryUser(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

func (p *pooler) file(name string) string { return filepath.Join(p.dir, name) }

func (p *pooler) socket() (network, address string) {
	return "unix", p.file(".s.PGSQL.6432")
}

// ordinaryUser is whom a program runs as that refuses to be root; nil if we are not.
func ordinaryUser(t testing.TB) *syscall.Credential {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, _ := strconv.ParseUint(found.Uid, 10, 32)
		gid, _ := strconv.ParseUint(found.Gid, 10, 32)
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	t.Fatal("neither postgres nor nobody exists here")
	return nil
}

func (p *pooler) start(who *syscall.Credential) error {
	_, socket := p.socket()
	_ = os.Remove(socket) // of one that was killed
	output, err := os.OpenFile(p.file("pgbouncer.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("start pgbouncer: %w", err)
	}
	defer output.Close()
	shell := exec.Command("/bin/sh", "-c", keeper, "keeper", p.program, p.file("pgbouncer.ini"))
	shell.Dir, shell.Stdout, shell.Stderr = "/", output, output
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: who}
	stdin, err := shell.StdinPipe()
	if err != nil {
		return fmt.Errorf("start pgbouncer: %w", err)
	}
	if err := shell.Start(); err != nil {
		return fmt.Errorf("start pgbouncer: %w", err)
	}
	p.mu.Lock()
	p.shell, p.stdin = shell, stdin
	p.mu.Unlock()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range 500 {
		if conn, err := net.Dial("unix", socket); err == nil {
			return conn.Close()
		}
		<-tick.C
	}
	said, _ := os.ReadFile(p.file("pgbouncer.log"))
	return fmt.Errorf("start pgbouncer: it does not answer\n%s", said)
}

// kill ends it with SIGKILL.
func (p *pooler) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shell == nil {
		return
	}
	_ = p.stdin.Close()
	_ = p.shell.Wait()
	p.shell = nil
}
