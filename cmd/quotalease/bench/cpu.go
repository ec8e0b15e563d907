package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// tick is what /proc counts processor time in, on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// stat is what /proc/PID/stat says of a process.
type stat struct {
	parent   int
	own      time.Duration // in user and in system
	children time.Duration // of those that have ended
}

// readStat reads a line of /proc/PID/stat. The name in it may hold anything, so the fields are
// counted from its closing bracket on.
func readStat(line []byte) (stat, error) {
	const parent, user, system, childUser, childSystem = 1, 11, 12, 13, 14
	fields := bytes.Fields(line[bytes.LastIndexByte(line, ')')+1:])
	if len(fields) <= childSystem {
		return stat{}, fmt.Errorf("read a line of /proc: %d fields after the name", len(fields))
	}
	var n [childSystem + 1]int64
	for _, i := range []int{parent, user, system, childUser, childSystem} {
		var err error
		if n[i], err = strconv.ParseInt(string(fields[i]), 10, 64); err != nil {
			return stat{}, fmt.Errorf("read a line of /proc: %w", err)
		}
	}
	return stat{parent: int(n[parent]), own: time.Duration(n[user]+n[system]) * tick,
		children: time.Duration(n[childUser]+n[childSystem]) * tick}, nil
}

// serverCPU is the processor time of a Postgres server: its own, that of its processes, and that
// of those which have ended.
func serverCPU(pid int) (time.Duration, error) {
	main, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, fmt.Errorf("read the server's processor time: %w", err)
	}
	server, err := readStat(main)
	if err != nil {
		return 0, err
	}
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	sum := server.own + server.children
	for _, name := range all {
		line, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		if s, err := readStat(line); err == nil && s.parent == pid {
			sum += s.own
		}
	}
	return sum, nil
}
