package main

import (
	"fmt"
	"io"
	"runtime/debug"

	"github.com/spf13/cobra"
)

type buildView struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Commit   string `json:"commit"` // empty: not known
	Modified bool   `json:"modified"`
}

func newBuildView(info *debug.BuildInfo) buildView {
	v := buildView{Version: info.Main.Version, Go: info.GoVersion}
	if v.Version == "" {
		v.Version = "(devel)"
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

func (v buildView) String() string {
	line := fmt.Sprintf("quotalease %s, %s", v.Version, v.Go)
	if v.Commit != "" {
		line += ", commit " + v.Commit
	}
	if v.Modified {
		line += ", with local changes"
	}
	return line
}

func newVersionCommand(sh *shell) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Say which build this is",
		Long:    `Version prints the module's version, the Go version, and the commit if it is known.`,
		Example: `  quotalease version -o json`,
		Args:    arguments(0, 0, "none"),
		RunE: func(_ *cobra.Command, _ []string) error {
			info, ok := debug.ReadBuildInfo()
			if !ok {
				return fmt.Errorf("read build information: the binary has none")
			}
			view := newBuildView(info)
			return sh.show(view, func(w io.Writer) error {
				_, err := fmt.Fprintln(w, view)
				return err
			})
		},
	}
}
