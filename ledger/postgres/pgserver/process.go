//go:build unix

package pgserver

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// quitWait bounds the wait for a server that was told to drop everything.
const quitWait = 5 * time.Second

// program is what to run, and where.
type program struct {
	path string
	args []string
	env  []string
	dir  string
	out  *os.File
	who  *account
	// exited is called once with the outcome, before done closes; nil if nobody cares.
	exited func(error)
}

// process is a running child. One goroutine owns it from start to end.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the child has been waited for
	err  error         // its outcome, set before done closes
}

// spawn starts the program under the watchdog's eyes.
func spawn(p program, guard *watchdog) (*process, error) {
	child := &process{cmd: exec.Command(p.path, p.args...), done: make(chan struct{})}
	child.cmd.Env, child.cmd.Dir = p.env, p.dir
	child.cmd.Stdout, child.cmd.Stderr = p.out, p.out
	child.cmd.SysProcAttr = childAttr(p.who.credential())
	started := make(chan error, 1)
	go func() {
		// The child is signalled when the thread that made it ends, not when the process
		// does: so this thread must live exactly as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(child.done)
		err := child.cmd.Start()
		if err == nil {
			guard.watch(child.pid())
		}
		started <- err
		if err != nil {
			return
		}
		child.err = child.cmd.Wait()
		guard.watch(nothing)
		if p.exited != nil {
			p.exited(child.err)
		}
	}()
	if err := <-started; err != nil {
		<-child.done
		return nil, fmt.Errorf("start %s: %w", p.path, err)
	}
	return child, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// stop ends the child and waits for it: cleanly while the context allows, then at once (a
// durable server recovers from that), then by force.
func (p *process) stop(ctx context.Context) error {
	if !p.running() {
		return nil
	}
	_ = p.cmd.Process.Signal(syscall.SIGINT) // only fails if the child has just ended
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
	}
	_ = p.cmd.Process.Signal(syscall.SIGQUIT)
	force := time.NewTimer(quitWait)
	defer force.Stop()
	select {
	case <-p.done:
	case <-force.C:
		_ = syscall.Kill(-p.pid(), syscall.SIGKILL)
		<-p.done
	}
	return fmt.Errorf("stop %s cleanly: %w", p.cmd.Path, ctx.Err())
}
