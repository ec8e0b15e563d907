//go:build unix

package pgserver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// lockName is the file that marks a folder as ours. Its lock belongs to the process that uses
// the folder and ends with it, even after kill -9; its content is that process's id.
const lockName = "quotalease-pg.lock"

// errLocked reports that somebody else holds a lock, or is just removing its folder.
var errLocked = errors.New("locked by another process")

// takeLock locks the file, making it if need be, and writes our process id into it.
func takeLock(path string) (*os.File, error) {
	file, err := openLock(path, os.O_CREATE)
	if err != nil {
		return nil, err
	}
	err = file.Truncate(0)
	if err == nil {
		_, err = fmt.Fprintln(file, os.Getpid())
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// openLock opens and locks the file. The lock is on an open file, so a child must not inherit
// it: os.OpenFile sees to that.
func openLock(path string, flags int) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW|flags, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errLocked
	}
	// Between our open and our lock the file may have been removed with its folder: then what
	// we hold is the lock of a file that nobody else will ever see.
	if err == nil && !samePlace(file, path) {
		err = errLocked
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

func samePlace(file *os.File, path string) bool {
	held, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(held, there)
}

// firstLinePID reads the process id that our lock files, and those of PostgreSQL, begin with.
func firstLinePID(path string) (pid int, ok bool) {
	content, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	line, _, _ := strings.Cut(string(content), "\n")
	pid, err = strconv.Atoi(strings.TrimSpace(line))
	return pid, err == nil && pid > 0
}

func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
