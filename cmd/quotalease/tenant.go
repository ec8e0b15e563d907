package main

import (
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

type tenantView struct {
	Tenant string      `json:"tenant"`
	Plan   string      `json:"plan"`
	Listed bool        `json:"listed"`
	Usage  []usageView `json:"usage"`
}

func newTenantView(t *pb.Tenant) tenantView {
	return tenantView{t.GetTenant(), t.GetPlan(), t.GetListed(), each(t.GetUsage(), newUsageView)}
}

// limitView is the limit in force in one dimension, used or not.
type limitView struct {
	Dimension string  `json:"dimension"`
	Class     string  `json:"class"`
	Limit     *int64  `json:"limit"`
	Unlimited bool    `json:"unlimited"`
	Rate      *string `json:"rate"` // null: not a rate; else limit is the burst
	Rule      string  `json:"rule"`
}

func newLimitView(l *pb.LimitInForce) limitView {
	v := limitView{Dimension: l.GetDimension(), Class: l.GetClass(), Rate: given(l.GetRate()), Rule: l.GetRule()}
	v.Limit, v.Unlimited = amount(l.GetLimit())
	return v
}

// tenantSheet is one tenant with all that policy gives it.
type tenantSheet struct {
	tenantView
	Limits []limitView `json:"limits"`
}

// fullest says which of a tenant's quotas is used most, by what counts against its limit.
func (v tenantView) fullest() string {
	best, bestPart := "", -1.0
	for _, u := range v.Usage {
		if u.Limit == nil || *u.Limit == 0 || u.Rate != nil { // a rate is not used up
			continue
		}
		charged := *u.Limit - *u.Headroom
		if part := float64(charged) / float64(*u.Limit); part > bestPart {
			best, bestPart = u.Dimension+" "+share(charged, *u.Limit), part
		}
	}
	return best
}

func newTenantCommand(sh *shell) *cobra.Command {
	return group("tenant", "List tenants, and show one's plan and quotas",
		`Tenants are the customers whose contracts set quotas: those that the policy lists, and
those that used something in a current window.`,
		"  quotalease tenant list\n  quotalease tenant show acme",
		newTenantListCommand(sh), newTenantShowCommand(sh))
}

func newTenantListCommand(sh *shell) *cobra.Command {
	var limit int32
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List tenants with their plan and their fullest quota",
		Long:    `List shows every tenant's plan, whether the policy names it, and which quota is fullest.`,
		Example: `  quotalease tenant list`,
		Args:    arguments(0, 0, "none"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := positive("--limit", int64(limit)); err != nil {
				return err
			}
			reply, err := ask(cmd.Context(), sh, "list tenants", pb.AdminServiceClient.ListTenants, &pb.ListTenantsRequest{Limit: limit})
			if err != nil {
				return err
			}
			return list(sh, each(reply.GetTenants(), newTenantView), "tenants", limit, func(views []tenantView) *table {
				t := newTable(text("TENANT"), text("PLAN"), text("LISTED"), number("QUOTAS"), text("FULLEST"))
				for _, v := range views {
					t.add(v.Tenant, v.Plan, yesNo(v.Listed), strconv.Itoa(len(v.Usage)), v.fullest())
				}
				return t
			})
		},
	}
	limitFlag(cmd, &limit, 1000)
	return cmd
}

func newTenantShowCommand(sh *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "show TENANT",
		Short: "Show a tenant's plan, its limits and what it uses now",
		Long: `Show prints a tenant's plan, whether the policy names it, the limit in force in every
dimension with the rule that decided (override, plan or default; quotalease policy explain
says why), and its current accounts.`,
		Example: `  quotalease tenant show acme`,
		Args:    arguments(1, 1, "a tenant"),
		RunE: func(cmd *cobra.Command, args []string) error {
			reply, err := ask(cmd.Context(), sh, "show tenant", pb.AdminServiceClient.ListTenants, &pb.ListTenantsRequest{Tenant: args[0]})
			if err != nil {
				return err
			}
			if len(reply.GetTenants()) == 0 {
				return fmt.Errorf("show tenant: %q is not listed by the policy and has used nothing in a current window", args[0])
			}
			found := reply.GetTenants()[0]
			view := tenantSheet{newTenantView(found), each(found.GetLimits(), newLimitView)}
			return sh.show(view, func(w io.Writer) error {
				t := newTable(text(""), text(""))
				t.add("tenant", view.Tenant)
				t.add("plan", view.Plan)
				t.add("listed", yesNo(view.Listed))
				if err := t.write(w); err != nil {
					return err
				}
				if err := view.writeLimits(w); err != nil {
					return err
				}
				if len(view.Usage) == 0 {
					sh.note("no usage")
					return nil
				}
				if err := writeLines(w, []string{""}); err != nil {
					return err
				}
				return usageTables(view.Usage, sh.zonesFor(cmd.Context())).write(w)
			})
		},
	}
}

func (v tenantSheet) writeLimits(w io.Writer) error {
	if len(v.Limits) == 0 {
		return nil
	}
	if err := writeLines(w, []string{""}); err != nil {
		return err
	}
	t := newTable(text("DIMENSION"), text("CLASS"), number("LIMIT"), text("RULE"))
	for _, l := range v.Limits {
		t.add(l.Dimension, l.Class, groupedLimit(l.Limit, l.Rate), l.Rule)
	}
	return t.write(w)
}
