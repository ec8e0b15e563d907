package policy

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, to, path string) {
	t.Helper()
	if err := os.Symlink(to, path); err != nil {
		t.Fatal(err)
	}
}

func names(files []File) string {
	var all []string
	for _, f := range files {
		all = append(all, filepath.Base(f.Name))
	}
	return strings.Join(all, " ")
}

func named(name string) string { return strings.Replace(dimensionWith(), "name: a", "name: "+name, 1) }

func mustChange(t *testing.T, w *Watcher, want bool) []File {
	t.Helper()
	files, changed, err := w.Check()
	if err != nil || changed != want {
		t.Fatalf("check: changed %v, %v; want changed %v", changed, err, want)
	}
	return files
}

func TestW8SameFileTwice(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "b.yaml"), named("b"))
	write(t, filepath.Join(dir, "c.yml"), named("c"))
	write(t, filepath.Join(dir, ".hidden.yaml"), "not: read")
	write(t, filepath.Join(dir, "notes.txt"), "not read")
	write(t, filepath.Join(dir, "below.yaml", "d.yaml"), "not: read")
	link(t, "b.yaml", filepath.Join(dir, "a.yaml"))
	link(t, filepath.Join(dir, "c.yml"), filepath.Join(dir, "z.yaml"))
	if err := os.Link(filepath.Join(dir, "c.yml"), filepath.Join(dir, "y.yaml")); err != nil {
		t.Fatal(err)
	}
	files, err := LoadFiles(dir, filepath.Join(dir, "b.yaml"), dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := names(files); got != "a.yaml c.yml" {
		t.Errorf("read %s, want a.yaml c.yml", got)
	}
	if d, err := Parse(files, today); err != nil || len(d.Dimensions) != 2 {
		t.Errorf("parse: %v", err)
	}
}

func TestLoadFilesSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := LoadFiles(dir); !errors.Is(err, ErrNoFiles) || !strings.Contains(err.Error(), dir) {
		t.Errorf("an empty directory: %v", err)
	}
	if _, err := LoadFiles(filepath.Join(dir, "no.yaml")); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "no.yaml") {
		t.Errorf("a missing file: %v", err)
	}
	write(t, filepath.Join(dir, "large.yaml"), strings.Repeat("#", MaxFileBytes+100))
	files, err := LoadFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = Parse(files, today); err == nil || !strings.Contains(err.Error(), "large.yaml: is ") {
		t.Errorf("a large file: %v", err)
	}
}

// TestW8BadFile follows what a replica does with each content of its directory.
func TestW8BadFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good, other := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml")
	write(t, good, named("a"))
	log, w := newLog(), NewWatcher(dir)
	step := func(wantVersion int64, wantErr string) {
		t.Helper()
		files, changed, err := w.Check()
		if err == nil && changed {
			var doc *Document
			if doc, err = Parse(files, today); err == nil {
				mustApply(t, log, doc, SourceDir)
			}
		}
		if (err == nil) != (wantErr == "") || (err != nil && !strings.Contains(err.Error(), wantErr)) {
			t.Fatalf("got %v, want %q", err, wantErr)
		}
		if head, err := log.Head(t.Context()); err != nil || head.Version != wantVersion {
			t.Fatalf("version %d holds, want %d (%v)", head.Version, wantVersion, err)
		}
	}
	step(1, "")
	write(t, other, named("b")+"  limitt: 5\n")
	step(1, "b.yaml:7: dimensions[0].limitt: unknown field")
	link(t, "nowhere.yaml", filepath.Join(dir, "c.yaml"))
	step(1, "c.yaml: no such file")
	if err := os.Remove(filepath.Join(dir, "c.yaml")); err != nil {
		t.Fatal(err)
	}
	write(t, other, "")
	write(t, good, "") // cut off: not a policy that takes everything away
	step(1, "no dimension is defined")
	write(t, good, named("a"))
	write(t, other, named("b"))
	step(2, "")
	step(2, "")
}

func TestW8DeletedFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), named("a"))
	write(t, filepath.Join(dir, "b.yaml"), named("b"))
	w := NewWatcher(dir)
	mustChange(t, w, true)
	mustChange(t, w, false)
	if err := os.Remove(filepath.Join(dir, "b.yaml")); err != nil {
		t.Fatal(err)
	}
	if got := names(mustChange(t, w, true)); got != "a.yaml" {
		t.Errorf("after the deletion: %s", got)
	}
	// The last file too: rather an unmounted volume than a wish to have no policy.
	if err := os.Remove(filepath.Join(dir, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.Check(); !errors.Is(err, ErrNoFiles) {
		t.Errorf("an emptied directory: %v", err)
	}
}

func TestW8KubernetesSwap(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	swapTo := func(version string) {
		t.Helper()
		link(t, version, filepath.Join(dir, "..data_tmp"))
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	for version, limit := range map[string]string{"..v1": "1000", "..v2": "2000", "..v3": "2000"} {
		write(t, filepath.Join(dir, version, "a.yaml"), strings.Replace(named("a"), "1000", limit, 1))
		write(t, filepath.Join(dir, version, "b.yaml"), named("b"))
	}
	swapTo("..v1")
	link(t, filepath.Join("..data", "a.yaml"), filepath.Join(dir, "a.yaml"))
	link(t, filepath.Join("..data", "b.yaml"), filepath.Join(dir, "b.yaml"))
	w := NewWatcher(dir)
	if got := names(mustChange(t, w, true)); got != "a.yaml b.yaml" {
		t.Fatalf("read %s", got)
	}
	swapTo("..v2")
	files := mustChange(t, w, true)
	if d, err := Parse(files, today); err != nil || d.Dimensions[0].Limit.Units != 2000 {
		t.Errorf("after the swap: %v", err)
	}
	mustChange(t, w, false)
	swapTo("..v3") // other files, same content
	mustChange(t, w, false)
}

func TestHalfSwappedDirectoryIsNotBelieved(t *testing.T) {
	t.Parallel()
	contents := []string{"old", "mixed", "new", "new", "new"}
	w := NewWatcher("dir")
	w.load = func(...string) ([]File, error) {
		now := contents[0]
		contents = contents[1:]
		return []File{{Name: "a.yaml", Text: []byte(now)}}, nil
	}
	if files, changed, err := w.Check(); !errors.Is(err, ErrUnsettled) || changed || files != nil {
		t.Fatalf("two readings that differ: %v, %v", changed, err)
	}
	if got := string(mustChange(t, w, true)[0].Text); got != "new" {
		t.Errorf("read %s, want new", got)
	}
	mustChange(t, w, false)
}

func TestRunOffersAgainWhatWasNotTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		broken := errors.New("broken")
		var unreadable, untaken atomic.Bool
		w := NewWatcher("dir")
		w.load = func(...string) ([]File, error) {
			if unreadable.Load() {
				return nil, broken
			}
			return []File{{Name: "a.yaml", Text: []byte("a")}}, nil
		}
		calls := make(chan string, 10)
		done := make(chan error, 1)
		go func() {
			time.Sleep(30 * time.Second) // fake: so that ticks and steps do not meet
			done <- w.Run(ctx, time.Minute, func(_ context.Context, files []File, err error) error {
				if err != nil {
					calls <- err.Error()
					return nil
				}
				calls <- names(files)
				if untaken.Load() {
					return broken
				}
				return nil
			})
		}()
		for _, step := range []struct {
			unreadable, untaken bool
			want                string
		}{
			{false, true, "a.yaml"},
			{false, false, "a.yaml"}, // offered again, and taken now
			{false, false, ""},
			{true, false, "broken"},
			{false, false, "a.yaml"}, // well again, and said so
			{false, false, ""},
		} {
			unreadable.Store(step.unreadable)
			untaken.Store(step.untaken)
			time.Sleep(time.Minute) // fake: to half a minute after the next tick
			got := ""
			select {
			case got = <-calls:
			default:
			}
			if got != step.want || len(calls) > 0 {
				t.Errorf("%+v: called with %q, and %d calls more", step, got, len(calls))
			}
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("run ended with %v", err)
		}
	})
}
