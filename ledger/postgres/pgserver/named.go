//go:build unix

package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// predecessorWait bounds the wait for the server of a process that was killed.
const predecessorWait = 10 * time.Second

// openNamed prepares a folder that is kept between runs and locks it for this process.
func openNamed(ctx context.Context, dir string, who *account) (string, *os.File, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", nil, fmt.Errorf("use folder %s: %w", dir, err)
	}
	lock, err := claimNamed(dir, who)
	if err != nil {
		return "", nil, fmt.Errorf("use folder %s: %w", dir, err)
	}
	awaitPredecessor(ctx, filepath.Join(dir, "data", "postmaster.pid"))
	return dir, lock, nil
}

func claimNamed(dir string, who *account) (*os.File, error) {
	// What leads to the folder is made like any other, so that the server's account can pass.
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	marker := filepath.Join(dir, lockName)
	ours, err := exists(marker)
	if err != nil {
		return nil, err
	}
	if !ours {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		if len(entries) > 0 {
			return nil, errors.New("it has other content: name a new or an empty folder")
		}
	}
	lock, err := takeLock(marker)
	if errors.Is(err, errLocked) {
		if pid, ok := firstLinePID(marker); ok {
			return nil, fmt.Errorf("process %d uses it: stop that one, or name another folder", pid)
		}
		return nil, errors.New("another process uses it: stop that one, or name another folder")
	}
	if err != nil {
		return nil, err
	}
	if err := letIn(dir, who); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// letIn opens the folder, which is ours by now, and checks the ones above it, which are not.
func letIn(dir string, who *account) error {
	if err := who.open(dir); err != nil {
		return err
	}
	blocked, err := who.blocked(dir)
	if err != nil {
		return err
	}
	if blocked != "" {
		return fmt.Errorf("PostgreSQL would run as user %s, who cannot enter %s: name a folder elsewhere, or do not run as root",
			who.name, blocked)
	}
	return nil
}

// awaitPredecessor waits for the end of a server whose owner was killed: we hold the folder's
// lock, so if it still runs it is on its way down. After the wait PostgreSQL itself decides
// whether the process in its pid file is a server or only wears an old number.
func awaitPredecessor(ctx context.Context, pidFile string) {
	ctx, cancel := context.WithTimeout(ctx, predecessorWait)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		pid, ok := firstLinePID(pidFile)
		if !ok || syscall.Kill(pid, 0) != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
