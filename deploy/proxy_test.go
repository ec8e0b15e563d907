//go:build linux

package deploy

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// program finds a proxy, or skips the test; in CI it has to be there.
func program(t *testing.T, name, howTo string) string {
	t.Helper()
	for _, path := range []string{name, "/usr/sbin/" + name} {
		if found, err := exec.LookPath(path); err == nil {
			return found
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is not installed: %s", name, howTo)
	}
	t.Skipf("%s is not installed: %s", name, howTo)
	return ""
}

// shipped is a configuration as it is shipped, with a test's addresses in place of its own.
func shipped(t *testing.T, name string, addresses ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(name))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(addresses); i += 2 {
		if !strings.Contains(string(text), addresses[i]) {
			t.Fatalf("%s does not mention %s", name, addresses[i])
		}
	}
	return strings.NewReplacer(addresses...).Replace(string(text))
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// freeAddr is an address where nobody listens just now.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// output is what a process writes, read while it does.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// spawn starts a proxy that ends with the test, whatever becomes of it, and waits until it
// listens.
func spawn(t *testing.T, listens string, env []string, name string, args ...string) {
	t.Helper()
	var out output
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Env = append([]string{"PATH=/usr/bin:/bin", "HOME=" + t.TempDir()}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(5 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
		if t.Failed() {
			t.Logf("%s said:\n%s", name, out.String())
		}
	})
	wait(t, name+" to listen", func() bool {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("%s ended: %v\n%s", name, err, out.String())
		default:
		}
		c, err := net.DialTimeout("tcp", listens, time.Second)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

// front is a proxy in front of a rig: where it is closed while no agent answers, and where open.
type front struct{ closed, open string }

// proxies are those that are started with the shipped configurations.
var proxies = map[string]func(t *testing.T, r *rig) front{"nginx": startNginx, "caddy": startCaddy}

func startNginx(t *testing.T, r *rig) front {
	t.Helper()
	binary := program(t, "nginx", "apt-get install nginx-light")
	at := freeAddr(t)
	runNginx(t, binary, at, shipped(t, "nginx/quota.conf", "127.0.0.1:7611", r.door.addr, "127.0.0.1:8080", r.app, "127.0.0.1:8000", at))
	return front{"http://" + at + "/orders", "http://" + at + "/reports/today"}
}

// runNginx runs it as one process, which needs no other user.
func runNginx(t *testing.T, binary, at, conf string) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "quota.conf"), conf)
	write(t, filepath.Join(dir, "nginx.conf"), `
daemon off;
master_process off;
pid `+dir+`/nginx.pid;
error_log stderr warn;
events {}
http {
	access_log off;
	client_body_temp_path `+dir+`/body;
	proxy_temp_path `+dir+`/proxy;
	fastcgi_temp_path `+dir+`/fastcgi;
	uwsgi_temp_path `+dir+`/uwsgi;
	scgi_temp_path `+dir+`/scgi;
	include `+dir+`/quota.conf;
}`)
	spawn(t, at, nil, binary, "-p", dir, "-e", "stderr", "-c", filepath.Join(dir, "nginx.conf"))
}

func startCaddy(t *testing.T, r *rig) front {
	t.Helper()
	binary := program(t, "caddy", "apt-get install caddy")
	closed, open := freeAddr(t), freeAddr(t)
	dir := t.TempDir()
	conf := write(t, filepath.Join(dir, "Caddyfile"), shipped(t, "caddy/Caddyfile",
		"127.0.0.1:7611", r.door.addr, "127.0.0.1:8080", r.app, "127.0.0.1:8000", closed, "127.0.0.1:8001", open))
	spawn(t, closed, []string{"XDG_DATA_HOME=" + dir, "XDG_CONFIG_HOME=" + dir}, binary, "run", "--config", conf, "--adapter", "caddyfile")
	return front{"http://" + closed + "/orders", "http://" + open + "/reports/today"}
}
