package policy

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ErrNoFiles reports a directory without policy files. That is more often a volume that is
// not mounted than a wish to have no policy.
var ErrNoFiles = errors.New("no *.yaml or *.yml file")

// LoadFiles reads policy files and directories. Of a directory it takes the files named
// *.yaml and *.yml, not those in folders below, and nothing whose name begins with a dot:
// that is where Kubernetes keeps the versions of a volume. A file that is reached by
// several names counts once. The result is sorted by name.
func LoadFiles(paths ...string) ([]File, error) {
	var found []listing
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("read policy files: %w", err)
		}
		if !info.IsDir() {
			found = append(found, listing{path, info})
			continue
		}
		inside, err := listDir(path)
		if err != nil {
			return nil, err
		}
		found = append(found, inside...)
	}
	slices.SortStableFunc(found, func(a, b listing) int { return cmp.Compare(a.path, b.path) })
	var files []File
	for i, f := range found {
		same := func(g listing) bool { return os.SameFile(f.info, g.info) }
		if slices.ContainsFunc(found[:i], same) {
			continue
		}
		text, err := readCapped(f.path)
		if err != nil {
			return nil, err
		}
		files = append(files, File{Name: f.path, Text: text})
	}
	return files, nil
}

// listing is a file that was found, by the name that led to it.
type listing struct {
	path string
	info os.FileInfo // of what symlinks lead to
}

func listDir(dir string) ([]listing, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read policy directory: %w", err)
	}
	var found []listing
	for _, e := range entries {
		name := e.Name()
		ext := filepath.Ext(name)
		if strings.HasPrefix(name, ".") || (ext != ".yaml" && ext != ".yml") {
			continue
		}
		path := filepath.Join(dir, name)
		info, err := os.Stat(path) // a link that leads nowhere is a half-made change
		if err != nil {
			return nil, fmt.Errorf("read policy directory: %w", err)
		}
		if info.Mode().IsRegular() {
			found = append(found, listing{path, info})
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("read policy directory %s: %w", dir, ErrNoFiles)
	}
	return found, nil
}

// readCapped reads a file, and one byte more than is allowed of one that is too large:
// Parse then refuses it by name.
func readCapped(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read policy file: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read policy file %s: %w", path, err)
	}
	return text, nil
}
