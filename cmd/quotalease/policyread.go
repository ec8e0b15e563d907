package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/quotalease/quotalease/controlplane"
	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// versionNumber reads a version that a user names.
func versionNumber(field, s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 {
		return 0, misuse("%s: %q; allowed: a number from 1, see quotalease policy history", field, s)
	}
	return n, nil
}

// storedPolicy reads one version, 0 for the current one.
func (sh *shell) storedPolicy(ctx context.Context, version int64) (*pb.GetPolicyReply, error) {
	return ask(ctx, sh, "read policy", pb.AdminServiceClient.GetPolicy, &pb.GetPolicyRequest{Version: version})
}

// storedDocument reads one version and what it means.
func (sh *shell) storedDocument(ctx context.Context, version int64) (*policy.Document, error) {
	reply, err := sh.storedPolicy(ctx, version)
	if err != nil {
		return nil, err
	}
	doc, err := policy.Record{Text: reply.GetText(), Overrides: each(reply.GetOverrides(), commandOverride)}.Document()
	if err != nil {
		return nil, fmt.Errorf("read policy version %d: %w", reply.GetVersion().GetVersion(), err)
	}
	return doc, nil
}

func commandOverride(m *pb.CommandOverride) policy.CommandOverride {
	return policy.CommandOverride{
		Tenant: m.GetKey().GetTenant(), Dimension: m.GetKey().GetDimension(), Limit: m.GetLimit(), Burst: m.GetBurst(),
		Owner: m.GetOwner(), Reason: m.GetReason(), Expires: m.GetExpires(), Who: m.GetWho(), At: time.UnixMicro(m.GetAtUs()),
	}
}

// currentDocument is nil where no policy has been applied yet.
func (sh *shell) currentDocument(ctx context.Context) (*policy.Document, error) {
	doc, err := sh.storedDocument(ctx, 0)
	var absent *absentError
	if errors.As(err, &absent) {
		return nil, nil
	}
	return doc, err
}

type versionView struct {
	Version int64      `json:"version"`
	At      *time.Time `json:"at"`
	Source  string     `json:"source"`
	Who     string     `json:"who"`
	Why     string     `json:"why"`
	Sum     string     `json:"sum"`
}

func newVersionView(v *pb.PolicyVersion) versionView {
	return versionView{v.GetVersion(), instant(v.GetAtUs()), v.GetSource(), v.GetWho(), v.GetWhy(), v.GetSum()}
}

func newPolicyGetCommand(sh *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "get [VERSION]",
		Short: "Print a version of the policy as YAML",
		Long: `Get prints the files of the current policy, or of the version that is named, as they were
applied. Overrides made by command are not in the files: quotalease override list shows them.`,
		Example: "  quotalease policy get > policy.yaml\n  quotalease policy get 3",
		Args:    arguments(0, 1, "a version, or none for the current one"),
		RunE: func(cmd *cobra.Command, args []string) error {
			version := int64(0)
			if len(args) == 1 {
				var err error
				if version, err = versionNumber("VERSION", args[0]); err != nil {
					return err
				}
			}
			reply, err := sh.storedPolicy(cmd.Context(), version)
			if err != nil {
				return err
			}
			overrides := each(reply.GetOverrides(), commandOverride)
			view := struct {
				versionView
				Text      string                   `json:"text"`
				Overrides []policy.CommandOverride `json:"overrides"`
			}{newVersionView(reply.GetVersion()), reply.GetText(), overrides}
			return sh.show(view, func(w io.Writer) error {
				if n := len(overrides); n > 0 {
					sh.note("%s made by command, kept beside the files: see quotalease override list", count(n, "override"))
				}
				_, err := io.WriteString(w, view.Text)
				return err
			})
		},
	}
}

func newPolicyHistoryCommand(sh *shell) *cobra.Command {
	var limit int32
	cmd := &cobra.Command{
		Use:     "history",
		Short:   "List the versions of the policy, newest first",
		Long:    `History lists who made which version of the policy, when, from what source and why.`,
		Example: `  quotalease policy history --limit 5`,
		Args:    arguments(0, 0, "none"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := positive("--limit", int64(limit)); err != nil {
				return err
			}
			reply, err := ask(cmd.Context(), sh, "list policy versions", pb.AdminServiceClient.ListPolicies, &pb.ListPoliciesRequest{Limit: limit})
			if err != nil {
				return err
			}
			return list(sh, each(reply.GetVersions(), newVersionView), "policy versions", limit, func(views []versionView) *table {
				t := newTable(number("VERSION"), text("AT"), text("SOURCE"), text("WHO"), text("WHY"))
				for _, v := range views {
					t.add(strconv.FormatInt(v.Version, 10), utc(v.At), v.Source, v.Who, v.Why)
				}
				return t
			})
		},
	}
	limitFlag(cmd, &limit, 50)
	return cmd
}

type periodView struct {
	Every      string `json:"every"`
	Timezone   string `json:"timezone"`
	AnchorDay  int    `json:"anchor_day"`
	AnchorTime string `json:"anchor_time"`
}

type dimensionView struct {
	Name            string      `json:"name"`
	Description     string      `json:"description"`
	Unit            string      `json:"unit"`
	Kind            string      `json:"kind"`
	Limit           *int64      `json:"limit"`
	Unlimited       bool        `json:"unlimited"`
	Rate            *string     `json:"rate"`             // null: not a rate; else limit is the burst
	MaxHoldSeconds  *float64    `json:"max_hold_seconds"` // null: not of kind concurrency
	Period          *periodView `json:"period"`           // null: one endless window
	Class           string      `json:"class"`
	Budget          *int64      `json:"budget"`
	BudgetUnlimited bool        `json:"budget_unlimited"`
	TTLSeconds      float64     `json:"ttl_seconds"`

	calendar quota.Calendar
	ttl      time.Duration
}

func newDimensionView(d *policy.Dimension) dimensionView {
	v := dimensionView{
		Name: d.Name, Description: d.Description, Unit: d.Unit, Kind: d.Kind.String(), Class: d.Class.String(),
		TTLSeconds: d.Lease.TTL.Seconds(), calendar: d.Period, ttl: d.Lease.TTL,
	}
	v.Limit, v.Unlimited = limitAmount(d.Limit)
	v.Rate = rateOf(d.Rate)
	if d.MaxHold > 0 {
		hold := d.MaxHold.Seconds()
		v.MaxHoldSeconds = &hold
	}
	if d.Class == quota.Exact { // leases nothing, so nothing can go over
		v.Budget = new(int64)
	} else {
		v.Budget, v.BudgetUnlimited = limitAmount(d.Overshoot.Of(d.Limit))
	}
	if d.Period != (quota.Calendar{}) {
		v.Period = &periodView{string(d.Period.Every()), d.Period.Timezone(), d.Period.AnchorDay(), d.Period.AnchorTime()}
	}
	return v
}

func limitAmount(l quota.Limit) (value *int64, none bool) {
	if l.Unlimited {
		return nil, true
	}
	n := int64(l.Units)
	return &n, false
}

func newPolicyListCommand(sh *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the dimensions of the current policy",
		Long: `List shows what the current policy counts: each dimension's default limit, its period,
its class, its overshoot budget and how long its leases live. Plans and overrides give
tenants limits of their own: see quotalease policy explain.`,
		Example: `  quotalease policy list`,
		Args:    arguments(0, 0, "none"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			doc, err := sh.storedDocument(cmd.Context(), 0)
			if err != nil {
				return err
			}
			views := each(doc.Snapshot(0).Dimensions(), newDimensionView)
			return list(sh, views, "dimensions", 0, func(views []dimensionView) *table {
				t := newTable(text("NAME"), text("KIND"), number("LIMIT"), text("PERIOD"), text("CLASS"), number("BUDGET"), number("TTL"))
				for _, v := range views {
					t.add(v.Name, v.Kind, groupedLimit(v.Limit, v.Rate), v.calendar.String(), v.Class, grouped(v.Budget), controlplane.Lasting(v.ttl))
				}
				return t
			})
		},
	}
}
