package scenario

import (
	"embed"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed builtin/*.yaml
var builtin embed.FS

// Names lists the scenarios that come with the program.
func Names() []string {
	entries, err := fs.ReadDir(builtin, "builtin")
	if err != nil {
		panic(err) // they are ours
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), ".yaml")
	}
	return names
}

// Builtin reads a scenario that comes with the program.
func Builtin(name string, set ...Param) (*Scenario, error) {
	text, err := fs.ReadFile(builtin, path.Join("builtin", name+".yaml"))
	if err != nil {
		return nil, fmt.Errorf("read scenario %q: there is none of that name", name)
	}
	return Parse(name+".yaml", text, set, func(string) (io.ReadCloser, error) {
		return nil, fmt.Errorf("read trace: scenarios that come with the program have none")
	})
}

// Load reads a scenario by name, or from a file. The traces that a file names lie beside it.
func Load(name string, set ...Param) (*Scenario, error) {
	if slices.Contains(Names(), name) {
		return Builtin(name, set...)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read scenario %q: no scenario of that name comes with the program, and as a file: %w", name, err)
	}
	return Parse(name, text, set, func(trace string) (io.ReadCloser, error) {
		if !filepath.IsAbs(trace) {
			trace = filepath.Join(filepath.Dir(name), trace)
		}
		return os.Open(trace)
	})
}
