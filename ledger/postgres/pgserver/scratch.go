//go:build unix

package pgserver

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	scratchPrefix = "quotalease-pg-"
	socketFile    = ".s.PGSQL." + port
	// maxSocketPath is what fits into a socket address everywhere: 108 bytes on Linux and 104
	// on the BSDs, each with a closing zero.
	maxSocketPath = 103
	// randomSuffix is the most that os.MkdirTemp adds to a name.
	randomSuffix = 10
)

// scratch is a temporary folder of one server: its socket, and its data and log if they are
// not kept.
type scratch struct {
	dir  string
	lock *os.File
}

func (s *scratch) socketDir() string { return filepath.Join(s.dir, "socket") }

// newScratch makes the folder and, since it is there, removes those that a crash left behind.
func newScratch(bases []string, who *account) (*scratch, error) {
	base, err := scratchBase(bases, who)
	if err != nil {
		return nil, err
	}
	removeStale(base)
	// A sweep by another process can take a folder in the moment before it is locked.
	for range 5 {
		made, err := tryScratch(base, who)
		if errors.Is(err, errLocked) || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("make a temporary folder in %s: %w", base, err)
		}
		return made, nil
	}
	return nil, fmt.Errorf("make a temporary folder in %s: it is taken away each time", base)
}

func tryScratch(base string, who *account) (*scratch, error) {
	dir, err := os.MkdirTemp(base, scratchPrefix)
	if err != nil {
		return nil, err
	}
	lock, err := takeLock(filepath.Join(dir, lockName))
	if err != nil {
		return nil, err // unlocked, so the next sweep may have it
	}
	made := &scratch{dir: dir, lock: lock}
	err = who.open(dir)
	if err == nil {
		err = who.mkdir(made.socketDir())
	}
	if err != nil {
		return nil, errors.Join(err, made.remove())
	}
	return made, nil
}

// remove keeps the lock until the folder is gone, so that nobody else starts removing it.
func (s *scratch) remove() error {
	return errors.Join(os.RemoveAll(s.dir), s.lock.Close())
}

// scratchBase is the first folder that the server's account can reach and whose name leaves
// room for a socket.
func scratchBase(bases []string, who *account) (string, error) {
	var reasons []string
	for _, base := range bases {
		base, err := filepath.Abs(base)
		if err != nil {
			return "", fmt.Errorf("find a temporary folder: %w", err)
		}
		longest := len(filepath.Join(base, scratchPrefix)) + randomSuffix + len("/socket/"+socketFile)
		blocked, err := who.blocked(base)
		switch {
		case err != nil:
			reasons = append(reasons, err.Error())
		case blocked != "":
			reasons = append(reasons, fmt.Sprintf("user %s cannot enter %s", who.name, blocked))
		case longest > maxSocketPath:
			reasons = append(reasons, base+" is too long a name for a socket")
		case strings.Contains(base, ","):
			reasons = append(reasons, base+" has a comma, which separates hosts in a connection string")
		default:
			return base, nil
		}
	}
	return "", fmt.Errorf("find a temporary folder: %s", strings.Join(reasons, "; "))
}

// removeStale removes the folders of processes that are gone. What it cannot judge or remove
// it leaves alone: a later sweep or another user will see to it.
func removeStale(base string) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return
	}
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), scratchPrefix) || !entry.IsDir() {
			continue
		}
		info, err := entry.Info()
		if err != nil || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) {
			continue
		}
		removeIfStale(filepath.Join(base, entry.Name()))
	}
}

func removeIfStale(dir string) {
	lock, err := openLock(filepath.Join(dir, lockName), 0)
	if errors.Is(err, fs.ErrNotExist) {
		_ = os.Remove(dir) // its maker has not come to lock it; goes only while empty
		return
	}
	if err != nil {
		return
	}
	found := &scratch{dir: dir, lock: lock}
	if listening(filepath.Join(found.socketDir(), socketFile)) {
		_ = lock.Close()
		return
	}
	_ = found.remove()
}

// listening asks the socket itself: a process id read from a file may by now be another's.
func listening(socket string) bool {
	conn, err := net.DialTimeout("unix", socket, time.Second)
	if err == nil {
		_ = conn.Close()
		return true
	}
	return !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, fs.ErrNotExist)
}
