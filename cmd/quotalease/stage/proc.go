package stage

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// StopWithStdin is the hidden flag that every child is started with: it stops, gracefully,
// when its standard input ends. The other end is this process, so that children do not
// outlive it, however it ends.
const StopWithStdin = "--stop-with-stdin"

// Proc is one child process. Its methods are safe for concurrent use.
type Proc struct {
	Name string

	cmd   *exec.Cmd
	stdin io.Closer
	ready chan map[string]string // one value, then closed
	done  chan struct{}          // closed when the process is gone and its output read
	err   error                  // set before done closes
	tail  tail
}

// Listening begins the line by which a child tells its addresses on standard output:
// `listening grpc=127.0.0.1:7600 http=127.0.0.1:7601`.
const Listening = "listening "

// Spawn starts binary with args. Every line that the child writes goes to log, which may be
// nil, with the child's name before it.
func Spawn(binary, name string, env []string, log func(string), args ...string) (*Proc, error) {
	p := &Proc{Name: name, ready: make(chan map[string]string, 1), done: make(chan struct{})}
	p.cmd = exec.Command(binary, append(args, StopWithStdin)...)
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.SysProcAttr = ownGroup() // Ctrl-C is ours to pass on, in order
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p.stdin = stdin
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go p.watch(stdout, stderr, log)
	return p, nil
}

// watch owns the child's output and its end.
func (p *Proc) watch(stdout, stderr io.Reader, log func(string)) {
	defer close(p.done)
	say := func(line string) {
		p.tail.add(line)
		if log != nil {
			log(p.Name + ": " + line)
		}
	}
	var readers sync.WaitGroup
	readers.Go(func() { eachLine(stderr, say) })
	told := false
	eachLine(stdout, func(line string) {
		addresses, ok := strings.CutPrefix(line, Listening)
		if ok && !told {
			told = true
			p.ready <- pairs(addresses)
		}
		say(line)
	})
	readers.Wait()
	p.err = p.cmd.Wait()
	close(p.ready)
}

// eachLine hands on lines to the end. What comes behind one that is too long is read all the
// same, and dropped: a child must not wait for its reader.
func eachLine(r io.Reader, do func(string)) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		do(lines.Text())
	}
	_, _ = io.Copy(io.Discard, r) // fails only when the child is gone
}

func pairs(s string) map[string]string {
	m := map[string]string{}
	for _, field := range strings.Fields(s) {
		if name, value, ok := strings.Cut(field, "="); ok {
			m[name] = value
		}
	}
	return m
}

// Ready waits until the child told its addresses.
func (p *Proc) Ready(ctx context.Context) (map[string]string, error) {
	select {
	case addresses, ok := <-p.ready:
		if !ok {
			return nil, fmt.Errorf("start %s: it ended: %w\n%s", p.Name, p.endedAs(), p.tail.text())
		}
		return addresses, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("start %s: %w\n%s", p.Name, ctx.Err(), p.tail.text())
	}
}

func (p *Proc) endedAs() error {
	if p.err != nil {
		return p.err
	}
	return errors.New("exit status 0")
}

// Pid is the child's process id.
func (p *Proc) Pid() int { return p.cmd.Process.Pid }

// Ended reports that the child is gone.
func (p *Proc) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Done is closed once the child is gone.
func (p *Proc) Done() <-chan struct{} { return p.done }

// Kill ends the child with SIGKILL and waits for it.
func (p *Proc) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
	_ = p.stdin.Close()
}

// Stop asks the child to end, by SIGTERM and the end of its standard input, and kills it if
// it has not by then.
func (p *Proc) Stop(patience time.Duration) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_ = p.stdin.Close()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.Kill()
	}
}

// tail keeps the last lines of a child, for the error that says why it did not start.
type tail struct {
	mu    sync.Mutex
	lines []string
}

func (t *tail) add(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lines = append(t.lines, line); len(t.lines) > 20 {
		t.lines = t.lines[1:]
	}
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines, "\n")
}
