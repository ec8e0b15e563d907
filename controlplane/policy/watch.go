package policy

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// ErrUnsettled reports a directory that changed while it was read.
var ErrUnsettled = errors.New("the directory changed while it was read")

// Watcher tells when the content of a policy directory has changed. It compares content,
// not names or times, so it needs no help from the file system: an edit, a rename, a
// deletion and the symlink swap of a Kubernetes volume all look alike, and writing the same
// text again is no change. It is used by one goroutine.
type Watcher struct {
	dir  string
	load func(paths ...string) ([]File, error)
	seen [sha256.Size]byte
	held bool // seen holds a content
}

// NewWatcher returns a watcher to which the present content is the first change.
func NewWatcher(dir string) *Watcher { return &Watcher{dir: dir, load: LoadFiles} }

// Check reads the directory once. Files are all its files when changed is true, which is
// once per content. An error changes nothing: whatever was seen last still holds.
func (w *Watcher) Check() (files []File, changed bool, err error) {
	files, err = w.load(w.dir)
	if err != nil {
		return nil, false, err
	}
	sum := digest(files)
	if w.held && sum == w.seen {
		return nil, false, nil
	}
	// A swap between two files of one reading would mix old and new. Only a content that
	// two readings agree on is believed.
	again, err := w.load(w.dir)
	if err != nil {
		return nil, false, err
	}
	if digest(again) != sum {
		return nil, false, fmt.Errorf("read policy directory %s: %w", w.dir, ErrUnsettled)
	}
	w.seen, w.held = sum, true
	return files, true, nil
}

// Forget makes the next Check report the present content as a change again.
func (w *Watcher) Forget() { w.held = false }

// Run checks at once and then at every interval, until ctx ends. It calls each with the
// files of a change, or with the error of a reading that failed. If each returns an error,
// the same content is offered again; a policy that is refused for what it says should
// therefore be reported by each, and not returned.
func (w *Watcher) Run(ctx context.Context, interval time.Duration, each func(context.Context, []File, error) error) error {
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for {
		files, changed, err := w.Check()
		if changed || err != nil {
			// After a failed reading the content is offered anew even if it is the one seen
			// before it; else nobody would learn that all is well again.
			if each(ctx, files, err) != nil || err != nil {
				w.Forget()
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticks.C:
		}
	}
}

// digest identifies names and texts; lengths keep one from running into the next.
func digest(files []File) [sha256.Size]byte {
	h := sha256.New()
	add := func(b []byte) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(b))))
		h.Write(b)
	}
	for _, f := range files {
		add([]byte(f.Name))
		add(f.Text)
	}
	return [sha256.Size]byte(h.Sum(nil))
}
