package main

import (
	"fmt"
	"io"
	"math/bits"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

type windowView struct {
	Start *time.Time `json:"start"`
	End   *time.Time `json:"end"` // null: never
}

func newWindowView(w *pb.Window) windowView {
	return windowView{instant(w.GetStartUs()), instant(w.GetEndUs())}
}

// usageView is one account. headroom and bound are null where nothing limits them. Of slots,
// settled is in use and outstanding is idle. Of a rate, limit is the burst, headroom the level of
// the bucket, and bound what any interval can have beyond rate times its length.
type usageView struct {
	Tenant           string     `json:"tenant"`
	Dimension        string     `json:"dimension"`
	Window           windowView `json:"window"`
	Kind             string     `json:"kind"`
	Class            string     `json:"class"`
	Limit            *int64     `json:"limit"`
	Unlimited        bool       `json:"unlimited"`
	Rate             *string    `json:"rate"` // null: not a rate
	Settled          int64      `json:"settled"`
	Outstanding      int64      `json:"outstanding"`
	Held             int64      `json:"held"`
	Uncertain        int64      `json:"uncertain"`
	Headroom         *int64     `json:"headroom"`
	Budget           *int64     `json:"budget"`
	BudgetUnlimited  bool       `json:"budget_unlimited"`
	Bound            *int64     `json:"bound"`
	BoundUnlimited   bool       `json:"bound_unlimited"`
	Committed        int64      `json:"committed"`
	Overshoot        int64      `json:"overshoot"`
	OverLimit        int64      `json:"over_limit"`
	Granted          int64      `json:"granted"`
	ConsumedReported int64      `json:"consumed_reported"`
	Spent            int64      `json:"spent"`
	Unleased         int64      `json:"unleased"`
	Expired          int64      `json:"expired"`
	Returned         int64      `json:"returned"`
	Revoked          int64      `json:"revoked"`
	Credit           int64      `json:"credit"`    // in the limit
	Released         int64      `json:"released"`  // of held units, by operators
	Emergency        int64      `json:"emergency"` // allowances for outages, not confirmed unspent
	Extended         int64      `json:"extended"`  // used of them: in settled too
	Pot              int64      `json:"pot"`       // most that they can be in this window
	Generation       int64      `json:"generation"`
	PolicyVersion    int64      `json:"policy_version"`
}

func newUsageView(u *pb.Usage) usageView {
	v := usageView{
		Tenant: u.GetKey().GetTenant(), Dimension: u.GetKey().GetDimension(), Window: newWindowView(u.GetWindow()),
		Kind: u.GetKind(), Class: u.GetClass(), Rate: given(u.GetRate()), Settled: u.GetSettled(), Outstanding: u.GetOutstanding(), Held: u.GetHeld(),
		Uncertain: u.GetUncertain(), Committed: u.GetCommitted(), Overshoot: u.GetOvershoot(), OverLimit: u.GetOverLimit(),
		Granted: u.GetGranted(), ConsumedReported: u.GetConsumedReported(), Spent: u.GetSpent(), Unleased: u.GetUnleased(),
		Expired: u.GetExpired(), Returned: u.GetReturned(), Revoked: u.GetRevoked(),
		Credit: u.GetCredit(), Released: u.GetReleased(), Generation: u.GetGeneration(), PolicyVersion: u.GetPolicyVersion(),
		Emergency: u.GetEmergency(), Extended: u.GetExtended(), Pot: u.GetPot(),
	}
	v.Limit, v.Unlimited = amount(u.GetLimit())
	if !v.Unlimited { // headroom may be below 0; without a limit it means nothing
		headroom := u.GetHeadroom()
		v.Headroom = &headroom
	}
	v.Budget, v.BudgetUnlimited = amount(u.GetBudget())
	v.Bound, v.BoundUnlimited = amount(u.GetBound())
	return v
}

// usageTables are what people read of accounts, one for each kind: they answer different
// questions. Counters of single leases are in the JSON.
func usageTables(views []usageView, z zones) tables {
	quotas := newTable(text("TENANT"), text("DIMENSION"), text("WINDOW"), text("UNTIL"), text("CLASS"), number("LIMIT"),
		number("SETTLED"), number("OUTSTANDING"), number("HELD"), number("UNCERTAIN"), number("EMERGENCY"), number("HEADROOM"),
		number("BOUND"), number("OVERSHOOT"), number("OVER LIMIT"))
	rates := newTable(text("TENANT"), text("DIMENSION"), text("CLASS"), text("RATE"), number("BURST"), number("LEVEL"),
		number("OUTSTANDING"), text("BOUND IN ANY INTERVAL t"))
	slots := newTable(text("TENANT"), text("DIMENSION"), text("CLASS"), number("SLOTS"), number("IN USE"), number("IDLE"),
		number("HELD"), number("UNCERTAIN"), number("FREE"), number("BOUND"), number("OVERSHOOT"), number("OVER LIMIT"))
	for _, v := range views {
		switch v.Kind {
		case quota.RateLimit.String():
			rates.add(v.Tenant, v.Dimension, v.Class, word(v.Rate), grouped(v.Limit), grouped(v.Headroom), grouped(&v.Outstanding), v.interval())
		case quota.Concurrency.String():
			slots.add(v.Tenant, v.Dimension, v.Class, grouped(v.Limit), grouped(&v.Settled), grouped(&v.Outstanding), grouped(&v.Held),
				grouped(&v.Uncertain), grouped(v.Headroom), grouped(v.Bound), grouped(&v.Overshoot), grouped(&v.OverLimit))
		default:
			quotas.add(v.Tenant, v.Dimension, z.local(v.Dimension, v.Window.Start), z.local(v.Dimension, v.Window.End), v.Class,
				grouped(v.Limit), grouped(&v.Settled), grouped(&v.Outstanding), grouped(&v.Held), grouped(&v.Uncertain), grouped(&v.Emergency),
				grouped(v.Headroom), grouped(v.Bound), grouped(&v.Overshoot), grouped(&v.OverLimit))
		}
	}
	return tables{quotas, rates, slots}
}

// interval is the interval bound of a rate.
func (v usageView) interval() string {
	if v.Bound == nil || v.Rate == nil {
		return unlimited
	}
	return grouped(v.Bound) + " + " + *v.Rate + " x t"
}

// word is a text that may not be there.
func word(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// newUsageCommand is usage list under its short name, with what else there is to do below it.
func newUsageCommand(sh *shell) *cobra.Command {
	cmd := newUsageListCommand(sh)
	cmd.Use = "usage [TENANT]"
	cmd.Example = "  quotalease usage\n  quotalease usage acme --dimension report_export --all-windows\n" + cmd.Example
	cmd.AddCommand(newUsageListCommand(sh), newUsageExportCommand(sh), newUsageAdjustCommand(sh))
	return cmd
}

func newUsageListCommand(sh *shell) *cobra.Command {
	var request pb.ListUsageRequest
	var over string
	cmd := &cobra.Command{
		Use:   "list [TENANT]",
		Short: "Show what is used, leased out and left",
		Long: `Usage shows accounts as the ledger has them: what reports settled, what is outstanding in
live leases, what is held or uncertain of dead ones, what is set aside for outages and not
confirmed unspent (emergency), the headroom that is left, and the bound: the most that the
window can end with, beyond use without a lease that nobody has reported yet (outage mode
open, cold debt: see quotalease bound). Overshoot is use beyond what was ever promised; over
limit is use above a limit that was cut afterwards, and breaks no promise. A limit includes
the credits of its window.

Of a rate it shows what its bucket holds now, below 0 what trickles owe, and the bound of any
interval of time; of slots, how many are in use, idle in agents' hands, or held.

With --over it shows only those of which more than a share of the limit is settled,
outstanding or held, the fullest first.`,
		Example: "  quotalease usage list --over 80%",
		Args:    arguments(0, 1, "a tenant, or none for all"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := positive("--limit", int64(request.GetLimit())); err != nil {
				return err
			}
			if len(args) == 1 {
				request.Tenant = args[0]
			}
			if over != "" {
				share, err := policy.ParsePercent(over)
				if err != nil {
					return misuse("--over: %q; allowed: %s", over, policy.PercentAllowed)
				}
				request.Over = (*int64)(&share)
			}
			reply, err := ask(cmd.Context(), sh, "list usage", pb.AdminServiceClient.ListUsage, &request)
			if err != nil {
				return err
			}
			return list(sh, each(reply.GetUsage(), newUsageView), "usage", request.GetLimit(), func(views []usageView) tables {
				return usageTables(views, sh.zonesFor(cmd.Context()))
			})
		},
	}
	cmd.Flags().StringVar(&request.Dimension, "dimension", "", "only this dimension")
	cmd.Flags().BoolVar(&request.AllWindows, "all-windows", false, "past windows too")
	cmd.Flags().StringVar(&over, "over", "", "only where more than this share of the limit is charged, e.g. 80%, fullest first")
	limitFlag(cmd, &request.Limit, 1000)
	return cmd
}

// limitFlag bounds how much a list shows.
func limitFlag(cmd *cobra.Command, limit *int32, usual int32) {
	cmd.Flags().Int32Var(limit, "limit", usual, "show at most so many")
}

func positive(flag string, n int64) error {
	if n < 1 {
		return misuse("%s: %d; allowed: 1 or more", flag, n)
	}
	return nil
}

func count(n int, thing string) string {
	total := int64(n)
	if n == 1 {
		return "1 " + thing
	}
	return grouped(&total) + " " + thing + "s"
}

func writeLines(w io.Writer, lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	_, err := io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return err
}

// share is part of whole in percent with one decimal, rounded down: 100 % is really all.
func share(part, whole int64) string {
	if whole <= 0 || part <= 0 {
		return "0 %"
	}
	hi, lo := bits.Mul64(uint64(part), 1000)
	if hi >= uint64(whole) {
		return "over 100 %"
	}
	tenths, _ := bits.Div64(hi, lo, uint64(whole))
	return fmt.Sprintf("%d.%d %%", tenths/10, tenths%10)
}
