//go:build unix

package pgserver

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// nothing tells the watchdog that no child runs.
const nothing = 0

// watchdogScript outlives us by design. It reads the id of the running child from us, line by
// line, and learns of our end, kill -9 included, by the end of the pipe. Then it asks the
// child to shut down, waits for it (at most 30 s, then by force) and removes the temporary
// folder $1. While a server runs its pid file $2 exists, so a child that nobody reaps does
// not hold it up; a child without one is initdb, which notices that its folder is gone.
const watchdogScript = `
trap '' HUP INT TERM
child=0
while read -r line; do child=$line; done
n=0
if [ "$child" -gt 0 ]; then
	kill -INT "$child" 2>/dev/null
	while [ -e "$2" ] && kill -0 "$child" 2>/dev/null; do
		n=$((n + 1))
		if [ "$n" -gt 300 ]; then kill -KILL "$child"; break; fi
		sleep 0.1 2>/dev/null || sleep 1
	done
fi
n=0
while [ -e "$1" ] && [ "$n" -lt 50 ]; do
	rm -rf -- "$1" 2>/dev/null
	n=$((n + 1))
	[ -e "$1" ] && { sleep 0.1 2>/dev/null || sleep 1; }
done
exit 0
`

// watchdog is a shell that cleans up after us, whatever ends us.
type watchdog struct {
	cmd  *exec.Cmd
	pipe *os.File
}

func startWatchdog(scratchDir, pidFile string) (*watchdog, error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start the watchdog: %w", err)
	}
	cmd := exec.Command("/bin/sh", "-c", watchdogScript, "quotalease-pg-watchdog", scratchDir, pidFile)
	cmd.Stdin, cmd.Dir = reader, "/"
	cmd.Env = []string{"LC_ALL=C", "PATH=/usr/bin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal, no signals of our group
	err = cmd.Start()
	_ = reader.Close()
	if err != nil {
		_ = writer.Close()
		return nil, fmt.Errorf("start the watchdog: %w", err)
	}
	return &watchdog{cmd: cmd, pipe: writer}, nil
}

// watch names the child that runs now. A watchdog that was killed cannot be told; then the
// kernel's signal and the next Start's sweep are what is left.
func (w *watchdog) watch(pid int) {
	_, _ = fmt.Fprintln(w.pipe, pid)
}

// dismiss lets the watchdog remove the folder, and waits until it has ended.
func (w *watchdog) dismiss() {
	_ = w.pipe.Close()
	_ = w.cmd.Wait() // whatever its end was, the folder is looked at next
}
