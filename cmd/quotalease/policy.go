package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

func newPolicyCommand(sh *shell) *cobra.Command {
	return group("policy", "Change and read the policy: limits, classes, plans, overrides",
		`The policy is YAML. It is applied whole, as a new version, by whoever says why; every
version is kept, can be compared with another and can be brought back.`,
		`  quotalease policy validate -f policy.yaml
  quotalease policy diff policy.yaml
  quotalease policy apply -f policy.yaml --why "raise report_export for the sale"`,
		newPolicyApplyCommand(sh),
		newPolicyGetCommand(sh),
		newPolicyListCommand(sh),
		newPolicyDiffCommand(sh),
		newPolicyHistoryCommand(sh),
		newPolicyRollbackCommand(sh),
		newPolicyValidateCommand(sh),
		newPolicyImportCommand(sh),
		newPolicyExplainCommand(sh),
	)
}

// author is who changes something, and why.
type author struct{ who, why string }

func (a *author) whoFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.who, "who", "", "who does this, for the records (default the user's login name)")
}

func (a *author) flags(cmd *cobra.Command) {
	a.whoFlag(cmd)
	cmd.Flags().StringVar(&a.why, "why", "", "why, for the records")
}

// named settles who it is.
func (a *author) named(sh *shell) error {
	if a.who == "" {
		a.who = cmp.Or(sh.getenv("USER"), sh.getenv("LOGNAME"), sh.login())
	}
	if a.who == "" {
		return misuse("--who: missing, and neither $USER, $LOGNAME nor the system names the user; allowed: a name, it is kept in the records")
	}
	return nil
}

func (a *author) settle(sh *shell) error {
	if err := a.named(sh); err != nil {
		return err
	}
	if a.why == "" {
		return misuse("--why: missing; allowed: a reason, it is kept in the records")
	}
	return nil
}

func newPolicyApplyCommand(sh *shell) *cobra.Command {
	var paths []string
	var by author
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "apply -f FILE|DIR --why TEXT",
		Short: "Make policy files the current version",
		Long: `Apply checks policy files, which together are one policy, and makes them the current
version for every agent, or changes nothing and names every fault. Files that mean the
same as the current version make no new one. With --dry-run nothing is stored.`,
		Example: `  quotalease policy apply -f policy.yaml --why "raise report_export for the sale"
  quotalease policy apply -f policies/ --dry-run
  generate | quotalease policy apply -f - --why "nightly import"`,
		Args: arguments(0, 0, "none, files are given with -f"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dryRun && by.why == "" {
				by.why = "dry run"
			}
			files, err := sh.policyFiles("-f", paths)
			if err != nil {
				return err
			}
			// Both what is wrong with the files and who and why are told at once.
			_, faulty := sh.parsePolicy(files)
			anonymous := by.settle(sh)
			if dryRun {
				anonymous = nil // nothing is recorded
			}
			if err := errors.Join(faulty, anonymous); err != nil {
				return err
			}
			request := &pb.ApplyPolicyRequest{Who: by.who, Why: by.why, DryRun: dryRun}
			for _, f := range files {
				request.Files = append(request.Files, &pb.PolicyFile{Name: f.Name, Text: string(f.Text)})
			}
			reply, err := ask(cmd.Context(), sh, "apply policy", pb.AdminServiceClient.ApplyPolicy, request)
			if err != nil {
				return err
			}
			return sh.showApplied(reply, dryRun)
		},
	}
	cmd.Flags().StringArrayVarP(&paths, "file", "f", nil, "policy file or directory, - for stdin; may be repeated")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would change and store nothing")
	by.flags(cmd)
	return cmd
}

func newPolicyRollbackCommand(sh *shell) *cobra.Command {
	var by author
	cmd := &cobra.Command{
		Use:   "rollback VERSION --why TEXT",
		Short: "Bring an older version of the policy back",
		Long: `Rollback applies an older version again, as a new one: the history only grows. Agents
follow within one lease ttl.`,
		Example: `  quotalease policy rollback 3 --why "version 4 cut the wrong plan"`,
		Args:    arguments(1, 1, "a version"),
		RunE: func(cmd *cobra.Command, args []string) error {
			to, err := versionNumber("VERSION", args[0])
			if err != nil {
				return err
			}
			if err := by.settle(sh); err != nil {
				return err
			}
			request := &pb.RollbackPolicyRequest{To: to, Who: by.who, Why: by.why}
			reply, err := ask(cmd.Context(), sh, "roll the policy back", pb.AdminServiceClient.RollbackPolicy, request)
			if err != nil {
				return err
			}
			return sh.showApplied(reply, false)
		},
	}
	by.flags(cmd)
	return cmd
}

type appliedView struct {
	Version  int64    `json:"version"`
	Changed  bool     `json:"changed"`
	DryRun   bool     `json:"dry_run"`
	Changes  []string `json:"changes"`
	Warnings []string `json:"warnings"`
}

func (sh *shell) showApplied(reply *pb.ApplyPolicyReply, dryRun bool) error {
	same := func(s string) string { return s }
	view := appliedView{reply.GetVersion(), reply.GetChanged(), dryRun, each(reply.GetChanges(), same), each(reply.GetWarnings(), same)}
	return sh.show(view, func(w io.Writer) error {
		for _, warning := range view.Warnings {
			sh.note("warning: %s", warning)
		}
		head := fmt.Sprintf("policy version %d is current: %s", view.Version, count(len(view.Changes), "change"))
		switch {
		case !view.Changed:
			head = fmt.Sprintf("nothing changes: policy version %d means the same", view.Version)
		case dryRun:
			head = fmt.Sprintf("dry run, nothing is stored: %s", count(len(view.Changes), "change"))
		}
		return writeLines(w, append([]string{head}, changeLines(view.Changes)...))
	})
}

func newPolicyExplainCommand(sh *shell) *cobra.Command {
	var descriptor string
	cmd := &cobra.Command{
		Use:   "explain TENANT DIMENSION | --descriptor DOMAIN/KEY=VALUE,...",
		Short: "Say which rule sets a tenant's limit, and why",
		Long: `Explain names the limit that holds for a tenant in a dimension now, the rule that decided
(override, plan or default) and why the others did not.

With --descriptor it begins with what Envoy sends to a rate limit service, a domain and a
descriptor, and names the rule of the policy that matches it, and the tenant and dimension that
it is counted on, or the local limit of each agent. Write %2C for a comma in a value, %2F for a
slash in a domain.`,
		Example: `  quotalease policy explain acme report_export
  quotalease policy explain --descriptor messaging/message_type=marketing,to_number=+8210`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if descriptor != "" {
				return sh.explainDescriptor(cmd.Context(), descriptor)
			}
			return explain(cmd.Context(), sh, &pb.ExplainPolicyRequest{Key: &pb.Key{Tenant: args[0], Dimension: args[1]}})
		},
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if descriptor != "" {
			return arguments(0, 0, "none beside --descriptor")(cmd, args)
		}
		return arguments(2, 2, "a tenant and a dimension")(cmd, args)
	}
	cmd.Flags().StringVar(&descriptor, "descriptor", "", "domain and descriptor of a rate limit service's request")
	return cmd
}

type explainView struct {
	Tenant          string   `json:"tenant"`
	Dimension       string   `json:"dimension"`
	Limit           *int64   `json:"limit"`
	Unlimited       bool     `json:"unlimited"`
	Rate            *string  `json:"rate"` // null: not a rate; else limit is the burst
	Budget          *int64   `json:"budget"`
	BudgetUnlimited bool     `json:"budget_unlimited"`
	Rule            string   `json:"rule"`
	PolicyVersion   int64    `json:"policy_version"`
	Lines           []string `json:"lines"`
}

func explain(ctx context.Context, sh *shell, request *pb.ExplainPolicyRequest) error {
	view, err := sh.explained(ctx, request)
	if err != nil {
		return err
	}
	return sh.show(view, func(w io.Writer) error { return writeLines(w, view.Lines) })
}

func (sh *shell) explained(ctx context.Context, request *pb.ExplainPolicyRequest) (explainView, error) {
	reply, err := ask(ctx, sh, "explain policy", pb.AdminServiceClient.ExplainPolicy, request)
	if err != nil {
		return explainView{}, err
	}
	view := explainView{
		Tenant: request.GetKey().GetTenant(), Dimension: request.GetKey().GetDimension(),
		Rule: reply.GetRule(), PolicyVersion: reply.GetPolicyVersion(),
		Lines: each(reply.GetLines(), func(s string) string { return s }),
	}
	view.Limit, view.Unlimited = amount(reply.GetLimit())
	view.Rate = given(reply.GetRate())
	view.Budget, view.BudgetUnlimited = amount(reply.GetBudget())
	return view, nil
}

type descriptorView struct {
	Descriptor string       `json:"descriptor"`
	Match      *string      `json:"match"` // of the rule that matches; null: none does
	Name       string       `json:"name"`  // of the rule
	Unlimited  bool         `json:"unlimited"`
	Shadow     bool         `json:"shadow"`
	Tenant     *string      `json:"tenant"`    // null: it is not counted, or its values can be no tenant's name
	Dimension  *string      `json:"dimension"` // null: as tenant
	Local      *string      `json:"local"`     // the local limit that decides; null: none
	Lines      []string     `json:"lines"`
	Limit      *explainView `json:"limit"` // of tenant and dimension
}

// explainDescriptor says where a request of a rate limit service is counted, and which limit
// it meets there.
func (sh *shell) explainDescriptor(ctx context.Context, text string) error {
	doc, err := sh.storedDocument(ctx, 0)
	if err != nil {
		return err
	}
	found, err := doc.Snapshot(0).ExplainDescriptor(text)
	if err != nil {
		return misuse("--%w", err)
	}
	view := descriptorView{Descriptor: text, Lines: found.Lines}
	if r := found.Rule; r != nil {
		match := r.String()
		view.Match, view.Name, view.Unlimited, view.Shadow = &match, r.Name, r.Unlimited(), r.Shadow
		if r.Local {
			view.Local = &r.Dimension
		}
	}
	if found.Key.Tenant != "" {
		view.Tenant = &found.Key.Tenant
	}
	if key := found.Key; key.Dimension != "" {
		view.Dimension = &key.Dimension
		limit, err := sh.explained(ctx, &pb.ExplainPolicyRequest{Key: &pb.Key{Tenant: key.Tenant, Dimension: key.Dimension}})
		if err != nil {
			return err
		}
		view.Limit = &limit
	}
	return sh.show(view, func(w io.Writer) error {
		lines := view.Lines
		if view.Limit != nil {
			lines = append(append(lines, ""), view.Limit.Lines...)
		}
		return writeLines(w, lines)
	})
}
