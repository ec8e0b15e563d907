package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quotalease/quotalease/controlplane"
	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

type boundView struct {
	Dimension         string       `json:"dimension"`
	Tenant            string       `json:"tenant"`
	Kind              string       `json:"kind"`
	Class             string       `json:"class"`
	Bound             string       `json:"bound"` // in words
	Limit             *int64       `json:"limit"` // credits included; of a rate, the burst
	Unlimited         bool         `json:"unlimited"`
	Rate              *string      `json:"rate"` // null: not a rate
	Credit            int64        `json:"credit"`
	Budget            *int64       `json:"budget"`
	BudgetUnlimited   bool         `json:"budget_unlimited"`
	Most              *int64       `json:"most"` // of a rate, in any interval beyond rate x t; of slots, at once
	MostUnlimited     bool         `json:"most_unlimited"`
	Over              string       `json:"over"`
	Emergency         int64        `json:"emergency"`        // a window, on top of most
	MaxHoldSeconds    float64      `json:"max_hold_seconds"` // 0: not slots
	Beyond            []string     `json:"beyond"`           // outside of the bound, in words
	Agents            int32        `json:"agents"`
	LeaseCap          *int64       `json:"lease_cap"`
	LeaseCapUnlimited bool         `json:"lease_cap_unlimited"`
	AtRisk            *int64       `json:"at_risk"` // null: as lease_cap
	TTLSeconds        float64      `json:"ttl_seconds"`
	PeakPerSecond     *int64       `json:"peak_per_second"` // null: the limit spread over its window
	LeaseLastsSeconds float64      `json:"lease_lasts_seconds"`
	FetchesPerSecond  float64      `json:"fetches_per_second"`
	Regions           []regionView `json:"regions"`
	Worked            []string     `json:"worked"` // how the numbers come about
	Advice            []string     `json:"advice"`
	Clause            string       `json:"clause"` // for a contract with the tenant, as markdown; empty without one

	message *pb.Bound
}

// regionView is a region's part of the budget.
type regionView struct {
	Region   string `json:"region"`
	Floor    int64  `json:"floor"`
	Ceiling  int64  `json:"ceiling"`
	Agents   int32  `json:"agents"`    // 0: none, or not known
	LeaseCap int64  `json:"lease_cap"` // 0: not known
}

func newBoundView(b *pb.Bound) boundView {
	v := boundView{
		Dimension: b.GetDimension(), Tenant: b.GetTenant(), Kind: b.GetKind(), Class: b.GetClass(), Bound: controlplane.BoundLine(b),
		Rate: given(b.GetRate()), Credit: b.GetCredit(), Over: b.GetOver(), Agents: b.GetAgents(),
		Emergency: b.GetEmergency(), MaxHoldSeconds: seconds(b.GetMaxHoldUs()), Clause: b.GetClause(),
		Worked: each(b.GetWorked(), func(s string) string { return s }),
		Regions: each(b.GetRegions(), func(r *pb.RegionBound) regionView {
			return regionView{r.GetRegion(), r.GetFloor(), r.GetCeiling(), r.GetAgents(), r.GetLeaseCap()}
		}),
		TTLSeconds: seconds(b.GetTtlUs()), LeaseLastsSeconds: seconds(b.GetLeaseLastsUs()),
		Beyond:           each(b.GetBeyond(), func(s string) string { return s }),
		FetchesPerSecond: float64(b.GetFetchesPerSecondMilli()) / 1000,
		Advice:           each(b.GetAdvice(), func(s string) string { return s }),
		message:          b,
	}
	v.Limit, v.Unlimited = amount(b.GetLimit())
	v.Budget, v.BudgetUnlimited = amount(b.GetBudget())
	v.Most, v.MostUnlimited = amount(b.GetMost())
	if peak := b.GetPeakPerSecond(); peak > 0 {
		v.PeakPerSecond = &peak
	}
	// Without a budget an agent may hold whatever an int64 does: no figure worth a reading.
	if v.LeaseCapUnlimited = b.GetLeaseCap() == math.MaxInt64; !v.LeaseCapUnlimited {
		l, risk := b.GetLeaseCap(), b.GetAtRisk()
		v.LeaseCap, v.AtRisk = &l, &risk
	}
	return v
}

// lines says a bound in words.
func (v boundView) lines() []string {
	whose := v.Dimension
	if v.Tenant != "" {
		whose += " of " + printable(v.Tenant)
	}
	agents, b := count(int(v.Agents), "agent"), v.message
	lines := []string{whose + ": " + v.Bound}
	for _, line := range v.Beyond {
		lines = append(lines, "  "+line)
	}
	lines = append(lines, fmt.Sprintf("  class %s, limit %s, budget %s, ttl %s", v.Class, groupedLimit(v.Limit, v.Rate), grouped(v.Budget), lasting(b.GetTtlUs())))
	for _, line := range v.Worked {
		lines = append(lines, "  "+line)
	}
	switch {
	case v.LeaseCapUnlimited:
		lines = append(lines, fmt.Sprintf("  %s, each with what it needs, without a limit", agents))
	case len(v.Regions) > 0:
		lines = append(lines, fmt.Sprintf("  %s, divided by regions: %s at risk", agents, count(int(*v.AtRisk), "unit")))
	case *v.LeaseCap > 0:
		lines = append(lines, fmt.Sprintf("  %s x %s unspent = %s at risk", agents, grouped(v.LeaseCap), count(int(*v.AtRisk), "unit")))
	}
	if v.FetchesPerSecond > 0 {
		line := fmt.Sprintf("  a lease lasts %s at peak, %s fetches/s in all", lasting(b.GetLeaseLastsUs()), thousandths(b.GetFetchesPerSecondMilli()))
		if ttl := b.GetTtlUs(); b.GetLeaseLastsUs() > ttl && ttl > 0 {
			line = fmt.Sprintf("  a lease lasts its ttl (at peak it would cover %s), %s fetches/s in all",
				lasting(b.GetLeaseLastsUs()), thousandths(int64(v.Agents)*1e9/ttl))
		}
		if v.PeakPerSecond == nil && v.Rate == nil {
			line += " (peak: the limit spread over its window, unless --peak is given)"
		}
		lines = append(lines, line)
	}
	for _, a := range v.Advice {
		lines = append(lines, "  "+a)
	}
	return lines
}

// thousandths writes n/1000 with as many decimals as it has.
func thousandths(n int64) string {
	whole := n / 1000
	s := grouped(&whole)
	if rest := n % 1000; rest != 0 {
		s += strconv.FormatFloat(float64(rest)/1000, 'f', -1, 64)[1:]
	}
	return s
}

func newBoundCommand(sh *shell) *cobra.Command {
	var request pb.GetBoundRequest
	var paths []string
	cmd := &cobra.Command{
		Use:   "bound [DIMENSION]",
		Short: "Compute how far a limit can be overshot, and what its leases cost",
		Long: `Bound computes, before it is accepted, the most that a window can end with: N agents that
hold at most L unspent units each are N x L at risk, and the class says how much of that
can come on top of the limit. It also says how long a lease lasts at peak, how many
fetches a second follow, and when a smaller L, a shorter ttl or the exact lane is better.
Each number is worked out: L = floor(B / N) = floor(250 / 24) = 10. What policy lets pass
outside of the bound (outage modes extend and open, cold debt) is named beside it.

With -o md it prints, for each dimension of a tenant, the paragraph that a contract can
quote: the numbers in plain words, and what they take for granted.

With -f it computes from policy files instead of the current policy, and asks no server.`,
		Example: `  quotalease bound
  quotalease bound -f policy.yaml --agents 24
  quotalease bound report_export --agents 40
  quotalease bound report_export --tenant acme --peak 2000
  quotalease bound --tenant acme -o md`,
		Annotations: map[string]string{extraFormat: formatMarkdown},
		Args:        arguments(0, 1, "a dimension, or none for all"),
		RunE: func(cmd *cobra.Command, args []string) error {
			for flag, n := range map[string]int64{"agents": int64(request.GetAgents()), "peak": request.GetPeakPerSecond()} {
				if cmd.Flags().Changed(flag) && n < 1 {
					return misuse("--%s: %d; allowed: 1 or more", flag, n)
				}
			}
			if sh.format == formatMarkdown && request.Tenant == "" {
				return misuse("--tenant: is missing; allowed: with -o md, the tenant that the contract is with")
			}
			if len(args) == 1 {
				request.Dimension = args[0]
			}
			if cmd.Flags().Changed("file") {
				views, err := sh.boundsOfFiles(paths, &request)
				if err != nil {
					return err
				}
				return sh.showBounds(views)
			}
			reply, err := ask(cmd.Context(), sh, "compute bound", pb.AdminServiceClient.GetBound, &request)
			if err != nil {
				return err
			}
			return sh.showBounds(each(reply.GetBounds(), newBoundView))
		},
	}
	cmd.Flags().Int32Var(&request.Agents, "agents", 0, "N, how many agents share the quota (default as many as were seen lately, or with -f 1)")
	cmd.Flags().StringArrayVarP(&paths, "file", "f", nil, "policy file or directory to compute from, - for stdin; may be repeated")
	cmd.Flags().StringVar(&request.Tenant, "tenant", "", "with this tenant's limit (default the dimension's own)")
	cmd.Flags().Int64Var(&request.PeakPerSecond, "peak", 0, "units a second of all agents at peak (default the limit spread over its window)")
	return cmd
}

// boundsOfFiles computes what the control plane would if the files were its policy.
func (sh *shell) boundsOfFiles(paths []string, request *pb.GetBoundRequest) ([]boundView, error) {
	files, err := sh.policyFiles("-f", paths)
	if err != nil {
		return nil, err
	}
	doc, err := sh.parsePolicy(files)
	if err != nil {
		return nil, err
	}
	s := doc.Snapshot(0)
	dimensions := s.Dimensions()
	if name := request.GetDimension(); name != "" {
		dim, ok := s.Dimension(name)
		if !ok {
			return nil, misuse("dimension %q: %w; the files define %s", name, policy.ErrUnknownDimension,
				strings.Join(each(dimensions, func(d *policy.Dimension) string { return d.Name }), ", "))
		}
		dimensions = []*policy.Dimension{dim}
	}
	var views []boundView
	for _, dim := range dimensions {
		t, err := controlplane.TermsOf(s, dim, request.GetTenant(), sh.now())
		if err != nil {
			return nil, misuse("--tenant: %w", err)
		}
		t.Agents, t.Peak = max(int(request.GetAgents()), 1), quota.Units(request.GetPeakPerSecond())
		views = append(views, newBoundView(controlplane.ComputeBound(t)))
	}
	return views, nil
}

func (sh *shell) showBounds(views []boundView) error {
	return sh.show(views, func(w io.Writer) error {
		if len(views) == 0 {
			sh.note("no dimensions")
		}
		for i, v := range views {
			lines := v.lines()
			if sh.format == formatMarkdown {
				lines = []string{v.Clause}
			}
			if i > 0 {
				lines = append([]string{""}, lines...)
			}
			if err := writeLines(w, lines); err != nil {
				return err
			}
		}
		return nil
	})
}
