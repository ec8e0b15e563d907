//go:build linux

package chaos

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quotalease/quotalease/cmd/quotalease/stage"
)

// node is one process of the product, which may come and go.
type node struct {
	name   string
	binary string
	args   []string
	env    []string
	fault  func(format string, args ...any)

	logged sync.Mutex
	log    *os.File

	mu         sync.Mutex
	proc       *stage.Proc // nil while it is down
	grpc, http string
}

func newNode(t testing.TB, r *round, name string, env []string, args ...string) *node {
	t.Helper()
	log, err := os.Create(filepath.Join(r.dir, name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	n := &node{
		name: name, binary: program(t), env: env, log: log, fault: r.violated,
		args: append(args, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"),
	}
	t.Cleanup(n.kill)
	return n
}

func (n *node) write(line string) {
	n.logged.Lock()
	defer n.logged.Unlock()
	_, _ = fmt.Fprintln(n.log, time.Now().UTC().Format("15:04:05.000"), line)
}

// startPatience is how long a process may take to open its doors. A control plane that finds
// no Postgres ends, or waits for one that hangs: it is started again, as a supervisor would.
const startPatience = 10 * time.Second

// start starts the process, again and again until it runs.
func (n *node) start(ctx context.Context) error {
	for {
		proc, err := stage.Spawn(n.binary, n.name, n.env, n.write, n.args...)
		if err != nil {
			return err
		}
		within, cancel := context.WithTimeout(ctx, startPatience)
		addresses, err := proc.Ready(within)
		cancel()
		if err == nil {
			n.mu.Lock()
			n.proc, n.grpc, n.http = proc, addresses["grpc"], addresses["http"]
			n.mu.Unlock()
			return nil
		}
		proc.Kill()
		if ctx.Err() != nil {
			return err
		}
		rest(ctx, 200*time.Millisecond)
	}
}

// take leaves the node without a process, and the process to the caller.
func (n *node) take() *stage.Proc {
	n.mu.Lock()
	defer n.mu.Unlock()
	proc := n.proc
	n.proc = nil
	if proc != nil && proc.Ended() {
		n.fault("%s ended by itself; see its log", n.name)
	}
	return proc
}

func (n *node) kill() {
	if proc := n.take(); proc != nil {
		proc.Kill()
	}
}

// stop is graceful.
func (n *node) stop() {
	if proc := n.take(); proc != nil {
		proc.Stop(15 * time.Second)
	}
}

// freeze keeps the process from running for a while.
func (n *node) freeze(d time.Duration) {
	n.mu.Lock()
	proc := n.proc
	n.mu.Unlock()
	if proc != nil {
		freeze(proc.Pid(), d)
	}
}

// door is where the node answers over gRPC; no address while it is down.
func (n *node) door() (network, address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proc == nil {
		return "tcp", ""
	}
	return "tcp", n.grpc
}

// web is where the node answers over HTTP.
func (n *node) web() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.http
}

// freezer stops a process and its children and continues them after a time. It is a process of
// its own, so that nothing stays frozen, whatever happens to us.
const freezer = `trap '' HUP INT TERM
kill -STOP "$1"
all=$1
for child in $(cat "/proc/$1/task/$1/children"); do
	kill -STOP "$child" && all="$all $child"
done
sleep "$2"
kill -CONT $all`

// freeze keeps a process and its children from running for a while.
func freeze(pid int, d time.Duration) {
	cmd := exec.Command("/bin/sh", "-c", freezer, "freezer", strconv.Itoa(pid), fmt.Sprintf("%.3f", d.Seconds()))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	_ = cmd.Run() // a process that has ended by itself is noticed elsewhere
}
