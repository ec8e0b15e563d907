package identity

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

const (
	// lookEvery is how often files are looked at. Within it a key that was taken away is gone.
	lookEvery = 5 * time.Second
	// maxFile is the largest file that is read.
	maxFile = 64 << 20
)

// watched is what files say, and can be replaced while it is used.
type watched[T any] struct {
	what  string
	paths []string
	parse func(texts [][]byte) (T, error)
	value atomic.Pointer[T]
	hash  [sha256.Size]byte // of the texts last read, good or bad
}

// watch reads and parses files for the first time.
func watch[T any](what string, parse func([][]byte) (T, error), paths ...string) (*watched[T], error) {
	w := &watched[T]{what: what, paths: paths, parse: parse}
	_, err := w.look()
	return w, err
}

func (w *watched[T]) get() T { return *w.value.Load() }

// look replaces the value if the files have changed to something good. One goroutine looks.
func (w *watched[T]) look() (changed bool, err error) {
	texts := make([][]byte, len(w.paths))
	all := sha256.New()
	for i, p := range w.paths {
		if texts[i], err = readFile(p); err != nil {
			return false, fmt.Errorf("%s: %w", w.what, err)
		}
		part := sha256.Sum256(texts[i])
		_, _ = all.Write(part[:])
	}
	hash := [sha256.Size]byte(all.Sum(nil))
	if hash == w.hash {
		return false, nil
	}
	w.hash = hash
	value, err := w.parse(texts)
	if err != nil {
		return false, fmt.Errorf("%s: %s: %w", w.what, w.paths[0], err)
	}
	w.value.Store(&value)
	return true, nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s: more than %d bytes", path, maxFile)
	}
	return text, nil
}

// looker is a watched of any type.
type looker interface{ look() (bool, error) }

// Run looks for files that have changed until ctx ends. What it cannot read or understand leaves
// everything as it was, and is said in the log.
func (v *Verifier) Run(ctx context.Context) {
	var files []looker
	if v.jwks != nil {
		files = append(files, v.jwks)
	}
	if v.keys != nil {
		files = append(files, v.keys)
	}
	lookUntil(ctx, v.log, files)
}

func lookUntil(ctx context.Context, log *slog.Logger, files []looker) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	said := make([]string, len(files)) // the fault of each, so that it is said once
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for i, f := range files {
			changed, err := f.look()
			switch {
			case err != nil && err.Error() != said[i]:
				said[i] = err.Error()
				log.Error("an identity file cannot be used; what was read before stays in force", "err", err)
			case changed:
				said[i] = ""
				log.Info("an identity file has changed and is in force")
			}
		}
	}
}
