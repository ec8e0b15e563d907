package main

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/controlplane/policy/envoy"
	"github.com/quotalease/quotalease/ledger/quota"
)

// fromEnvoy is the language of other limiters that import reads.
const fromEnvoy = "envoy"

// importFlags are those of policy import.
type importFlags struct {
	from, class string
	options     envoy.Options
}

func newPolicyImportCommand(sh *shell) *cobra.Command {
	f := &importFlags{}
	cmd := &cobra.Command{
		Use:   "import --from envoy FILE|DIR...",
		Short: "Turn the rule files of Envoy's rate limit service into a policy",
		Long: `Import reads rule files of Envoy's rate limit service, which together are one
configuration, and prints the policy that means the same: a dimension for each limit, or of
what is counted by a client's address a local limit, and the descriptors that are counted on
it, each with the file and line it comes from. What is not carried over, or otherwise, is
noted on stderr line by line; a file that the original refuses is refused. It asks no server
and changes nothing.`,
		Example: `  quotalease policy import --from envoy ratelimit/config/ > policy.yaml
  quotalease policy import --from envoy --overshoot 0.5% rules.yaml | quotalease policy validate -f -`,
		Args: arguments(1, -1, "rule files, directories, or - for stdin"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := f.settle(); err != nil {
				return err
			}
			files, err := sh.policyFiles("FILE", args)
			if err != nil {
				return err
			}
			return sh.importRules(files, f.options)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.from, "from", "", "what the files are: "+fromEnvoy)
	flags.StringVar(&f.class, "class", quota.Bounded.String(), "class of all dimensions: exact, hard, bounded or best_effort")
	flags.StringVar(&f.options.Overshoot, "overshoot", "", "overshoot of all dimensions, such as 1% (default that of the class)")
	flags.BoolVar(&f.options.MergeDomains, "merge-domains", false, "several files may add to one domain, as with MERGE_DOMAIN_CONFIG")
	return cmd
}

// settle checks what the flags say.
func (f *importFlags) settle() error {
	if f.from == "" {
		return misuse("--from: missing; allowed: %s", fromEnvoy)
	}
	if f.from != fromEnvoy {
		return misuse("--from: %q; allowed: %s", f.from, fromEnvoy)
	}
	var err error
	if f.options.Class, err = quota.ParseClass(f.class); err != nil {
		return misuse("--class: %q; allowed: exact, hard, bounded or best_effort", f.class)
	}
	var field *quota.FieldError
	if err := f.options.Validate(); errors.As(err, &field) {
		return misuse("--%s: %q; allowed: %s", field.Field, f.options.Overshoot, field.Allowed)
	}
	return nil
}

type importView struct {
	Text        string      `json:"text"`
	Dimensions  int         `json:"dimensions"`
	Locals      int         `json:"local_limits"`
	Descriptors int         `json:"descriptors"`
	Notes       []faultView `json:"notes"`
}

func (sh *shell) importRules(files []policy.File, opt envoy.Options) error {
	im, err := envoy.Import(files, opt)
	var faults policy.Faults
	if errors.As(err, &faults) {
		sh.note("%s", faults)
		return misuse("import rule files: %s; nothing was done", count(len(faults), "fault"))
	}
	if err != nil {
		return err
	}
	view := importView{string(im.Text), im.Dimensions, im.Locals, im.Descriptors, each(im.Notes, newFaultView)}
	return sh.show(view, func(w io.Writer) error {
		for _, n := range im.Notes {
			sh.note("%s", n.Error())
		}
		if im.Dimensions == 0 {
			sh.note("no quota is carried over: a policy needs a dimension, so this can only be added to one")
		}
		sh.note("%s, %s, %s, %s", count(im.Dimensions, "dimension"), count(im.Locals, "local limit"), count(im.Descriptors, "descriptor"), count(len(im.Notes), "note"))
		_, err := io.WriteString(w, view.Text)
		return err
	})
}
