package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/quotalease/quotalease/controlplane/policy"
)

// stdinName is what faults call the text of stdin.
const stdinName = "stdin"

// policyFiles reads what -f or the arguments name, - for stdin.
func (sh *shell) policyFiles(field string, paths []string) ([]policy.File, error) {
	if len(paths) == 0 {
		return nil, misuse("%s: missing; allowed: a policy file, a directory, or - for stdin", field)
	}
	var onDisk []string
	var files []policy.File
	for _, path := range paths {
		if path != "-" {
			onDisk = append(onDisk, path)
			continue
		}
		if len(files) > 0 {
			return nil, misuse("%s: stdin is named twice; allowed: - once", field)
		}
		// One byte more than is allowed, so that too much is refused and not cut off.
		content, err := io.ReadAll(io.LimitReader(sh.in, policy.MaxFileBytes+1))
		if err != nil {
			return nil, fmt.Errorf("read stdin: %w", err)
		}
		files = append(files, policy.File{Name: stdinName, Text: content})
	}
	loaded, err := policy.LoadFiles(onDisk...)
	if err != nil {
		return nil, misuse("%s: %w", field, err)
	}
	return append(files, loaded...), nil
}

// parsePolicy reads what files mean. Their faults go to stderr as they are: each line begins
// with its file and line, for editors and scripts.
func (sh *shell) parsePolicy(files []policy.File) (*policy.Document, error) {
	doc, err := policy.Parse(files, sh.now())
	var faults policy.Faults
	if errors.As(err, &faults) {
		sh.note("%s", faults)
		return nil, misuse("read policy files: %s; nothing was done", count(len(faults), "fault"))
	}
	return doc, err
}

type faultView struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Field   string `json:"field"`
	Problem string `json:"problem"`
	Allowed string `json:"allowed"`
}

func newFaultView(f policy.Fault) faultView { return faultView(f) }

type validateView struct {
	Valid       bool        `json:"valid"`
	Dimensions  int         `json:"dimensions"`
	Tenants     int         `json:"tenants"`
	Operations  int         `json:"operations"`
	Locals      int         `json:"local_limits"`
	Descriptors int         `json:"descriptors"`
	Faults      []faultView `json:"faults"`
	Warnings    []faultView `json:"warnings"`
}

// holds says what a valid policy has: always its dimensions, and what else there is.
func (v *validateView) holds() string {
	words := count(v.Dimensions, "dimension")
	for _, more := range []struct {
		n     int
		thing string
	}{{v.Tenants, "tenant"}, {v.Operations, "operation"}, {v.Locals, "local limit"}, {v.Descriptors, "descriptor"}} {
		if more.n > 0 {
			words += ", " + count(more.n, more.thing)
		}
	}
	return words
}

func newPolicyValidateCommand(sh *shell) *cobra.Command {
	var paths []string
	cmd := &cobra.Command{
		Use:   "validate -f FILE|DIR",
		Short: "Check policy files without a server",
		Long: `Validate checks policy files, which together are one policy, and prints every fault as
file:line: field: problem; allowed: what is. It asks no server and changes nothing. The
exit code is 0 for a valid policy and 1 for a faulty one.`,
		Example: `  quotalease policy validate -f policy.yaml`,
		Args:    arguments(0, 0, "none, files are given with -f"),
		RunE: func(_ *cobra.Command, _ []string) error {
			files, err := sh.policyFiles("-f", paths)
			if err != nil {
				return err
			}
			return sh.validate(files)
		},
	}
	cmd.Flags().StringArrayVarP(&paths, "file", "f", nil, "policy file or directory, - for stdin; may be repeated")
	return cmd
}

func (sh *shell) validate(files []policy.File) error {
	doc, err := policy.Parse(files, sh.now())
	var faults policy.Faults
	if err != nil && !errors.As(err, &faults) {
		return err
	}
	view := validateView{Valid: err == nil, Faults: each(faults, newFaultView), Warnings: []faultView{}}
	if doc != nil {
		view.Dimensions, view.Tenants, view.Operations = len(doc.Dimensions), len(doc.Tenants), len(doc.Operations)
		view.Locals, view.Descriptors = len(doc.Locals), len(doc.Descriptors)
		view.Warnings = each(doc.Warnings, newFaultView)
	}
	shown := sh.show(view, func(w io.Writer) error {
		if !view.Valid {
			_, err := fmt.Fprintln(w, faults.Error())
			return err
		}
		for _, warning := range doc.Warnings {
			sh.note("warning: %s", warning.Error())
		}
		_, err := fmt.Fprintln(w, "valid: "+view.holds())
		return err
	})
	if shown != nil || view.Valid {
		return shown
	}
	return found()
}

func newPolicyDiffCommand(sh *shell) *cobra.Command {
	var from, to int64
	cmd := &cobra.Command{
		Use:   "diff FILE... | --from V [--to V]",
		Short: "Compare policy files or versions by what they mean",
		Long: `Diff compares policy files with the current version, or one version with another. It
compares meaning: comments, order and written-out defaults make no difference. Overrides
made by command are compared too; files keep those that there are. Like
diff(1) it exits with 0 for no difference, 1 for some, and 2 if it could not compare.`,
		Example: "  quotalease policy diff policy.yaml\n  quotalease policy diff --from 3 --to 5\n  quotalease policy diff --from 3",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			flags := cmd.Flags()
			versions := flags.Changed("from") || flags.Changed("to")
			if versions == (len(args) > 0) {
				return misuseOf(cmd, "what to compare: allowed: either files, or --from with or without --to")
			}
			if !versions {
				return sh.diffFiles(cmd.Context(), args)
			}
			if from < 1 || flags.Changed("to") && to < 1 {
				return misuse("--from, --to: allowed: numbers from 1, see quotalease policy history; without --to the current version")
			}
			return sh.diffVersions(cmd.Context(), from, to)
		},
	}
	cmd.Flags().Int64Var(&from, "from", 0, "the version to start from")
	cmd.Flags().Int64Var(&to, "to", 0, "the version to compare it with (default the current one)")
	return cmd
}

func (sh *shell) diffFiles(ctx context.Context, paths []string) error {
	files, err := sh.policyFiles("FILE", paths)
	if err != nil {
		return err
	}
	next, err := sh.parsePolicy(files)
	if err != nil {
		return err
	}
	current, err := sh.currentDocument(ctx)
	if err != nil {
		return err
	}
	if current != nil { // as apply would; that something has expired is no difference
		overrides := current.CommandOverrides()
		current, next = current.Keeping(overrides, sh.now()), next.Keeping(overrides, sh.now())
	}
	return sh.showDiff(current, next)
}

func (sh *shell) diffVersions(ctx context.Context, from, to int64) error {
	older, err := sh.storedDocument(ctx, from)
	if err != nil {
		return err
	}
	newer, err := sh.storedDocument(ctx, to)
	if err != nil {
		return err
	}
	return sh.showDiff(older, newer)
}

// changeView has null for what was not there.
type changeView struct {
	Path string  `json:"path"`
	Old  *string `json:"old"`
	New  *string `json:"new"`
}

func newChangeView(c policy.Change) changeView {
	v := changeView{Path: c.Path}
	if c.Old != "" {
		v.Old = &c.Old
	}
	if c.New != "" {
		v.New = &c.New
	}
	return v
}

func (sh *shell) showDiff(from, to *policy.Document) error {
	changes := policy.Diff(from, to)
	err := sh.show(each(changes, newChangeView), func(w io.Writer) error {
		if len(changes) == 0 {
			sh.note("no difference")
		}
		return writeLines(w, changeLines(each(changes, policy.Change.String)))
	})
	if err != nil || len(changes) == 0 {
		return err
	}
	return found()
}
