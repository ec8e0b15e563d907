//go:build unix

package pgserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// locate finds the binaries, or fetches them if that is allowed.
func locate(ctx context.Context, cfg Config) (string, error) {
	dir, err := find(os.Getenv(BinEnv), os.Getenv("PATH"), packageGlobs)
	if errors.Is(err, ErrNoBinaries{}) && cfg.Download && os.Geteuid() != 0 {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("find a place for PostgreSQL: %w", err)
		}
		return download(ctx, filepath.Join(cache, "quotalease"), mavenCentral, cfg.log)
	}
	return dir, err
}

// ensureCluster makes the data folder unless it exists. It is made under another name first,
// so a data folder that exists is a complete one.
func (s *Server) ensureCluster(ctx context.Context, logFile *os.File) error {
	there, err := exists(filepath.Join(s.data(), "PG_VERSION"))
	if err != nil {
		return fmt.Errorf("look into data folder %s: %w", s.data(), err)
	}
	if there {
		return s.checkVersion(ctx)
	}
	s.cfg.log("making a database in " + s.keep)
	unfinished := s.data() + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return fmt.Errorf("remove an unfinished database: %w", err)
	}
	if err := s.who.mkdir(unfinished); err != nil {
		return fmt.Errorf("make data folder: %w", err)
	}
	if err := s.initdb(ctx, unfinished, logFile); err != nil {
		return fmt.Errorf("make a database in %s: %w%s", s.keep, err, logTail(s.logPath()))
	}
	if err := os.Rename(unfinished, s.data()); err != nil {
		return fmt.Errorf("make data folder: %w", err)
	}
	if !s.durable {
		return nil
	}
	return syncDir(s.keep)
}

func (s *Server) initdb(ctx context.Context, data string, logFile *os.File) error {
	child, err := spawn(program{
		path: filepath.Join(s.binDir, "initdb"), args: initdbArgs(data, s.durable),
		env: childEnv(s.binDir), dir: s.scratch.dir, out: logFile, who: s.who,
	}, s.guard)
	if err != nil {
		return err
	}
	select {
	case <-child.done:
		return child.err
	case <-ctx.Done():
		_ = child.stop(ctx) // how it ended does not matter: what it made is thrown away
		return ctx.Err()
	}
}

// syncDir makes a rename in the folder survive a power cut.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	return nil
}

// checkVersion compares before PostgreSQL does, to say what can be done about it.
func (s *Server) checkVersion(ctx context.Context) error {
	made, err := os.ReadFile(filepath.Join(s.data(), "PG_VERSION"))
	if err != nil {
		return fmt.Errorf("read the version of data folder %s: %w", s.data(), err)
	}
	out, err := exec.CommandContext(ctx, filepath.Join(s.binDir, "postgres"), "--version").Output()
	if err != nil {
		return fmt.Errorf("ask %s/postgres for its version: %w", s.binDir, err)
	}
	have, need := majorOf(string(out)), strings.TrimSpace(string(made))
	if have != need {
		return fmt.Errorf("open data folder %s: PostgreSQL %s made it and the binaries in %s are version %s: "+
			"name the folder of version %s in %s, or use another data folder", s.data(), need, s.binDir, have, need, BinEnv)
	}
	return nil
}

var versionLine = regexp.MustCompile(`^postgres \(PostgreSQL\) (\d+)`)

// majorOf reads the answer of postgres --version; an unknown form is returned as it is.
func majorOf(answer string) string {
	if match := versionLine.FindStringSubmatch(answer); match != nil {
		return match[1]
	}
	return strings.TrimSpace(answer)
}

// logTail is the end of the server's log, to be put behind an error.
func logTail(path string) string {
	const lines, length = 20, 4096
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		return fmt.Sprintf(" (its log: %v)", err)
	}
	content = bytes.TrimSpace(content[max(0, len(content)-length):])
	if len(content) == 0 {
		return ""
	}
	all := strings.Split(string(content), "\n")
	return "; its log ends with:\n" + strings.Join(all[max(0, len(all)-lines):], "\n")
}
