package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

func newOverrideCommand(sh *shell) *cobra.Command {
	return group("override", "Give one tenant another limit for a time, without editing a file",
		`Overrides are exceptions from the policy's limits: each has an owner, a reason and an
expiry date, and lapses by itself. Those made here are kept beside the policy files: each
change is a policy version, so quotalease policy diff shows it, policy history says who made
it and why, and policy rollback takes it back. New policy files keep them. Where a file has an
override of the same tenant and dimension, the one made here counts.`,
		`  quotalease override add --tenant acme --dimension report_export --limit 80000 --owner sales-ops --reason "Q4 deal" --expires 2027-01-31
  quotalease override list
  quotalease override remove --tenant acme --dimension report_export --why "the deal is off"`,
		newOverrideAddCommand(sh), newOverrideListCommand(sh), newOverrideRemoveCommand(sh))
}

// keyFlags name one tenant's quota.
type keyFlags struct{ tenant, dimension string }

func (k *keyFlags) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&k.tenant, "tenant", "", "the tenant")
	cmd.Flags().StringVar(&k.dimension, "dimension", "", "the dimension")
}

func (k *keyFlags) key() (*pb.Key, error) {
	if k.tenant == "" {
		return nil, misuse("--tenant: missing; allowed: the tenant's name")
	}
	if k.dimension == "" {
		return nil, misuse("--dimension: missing; allowed: a dimension, see quotalease policy list")
	}
	return &pb.Key{Tenant: k.tenant, Dimension: k.dimension}, nil
}

func newOverrideAddCommand(sh *shell) *cobra.Command {
	var key keyFlags
	var by author
	o := &pb.CommandOverride{}
	cmd := &cobra.Command{
		Use:   "add --tenant T --dimension D --limit N --owner TEXT --reason TEXT --expires DATE",
		Short: "Give a tenant another limit until a date",
		Long: `Add gives one tenant a limit of its own in one dimension, until it expires: a number, the
word unlimited, or for a rate N/s, N/m, N/h, N/d or N/DURATION with a burst if it is not to
be N. An override that was added before for the same tenant and dimension is replaced. The
limit holds from the next grant on; agents follow within one lease ttl.`,
		Example: `  quotalease override add --tenant acme --dimension report_export --limit 80000 --owner sales-ops --reason "Q4 deal" --expires 2027-01-31
  quotalease override add --tenant acme --dimension api_calls --limit 500/s --burst 2000 --owner sre --reason "migration" --expires 2027-01-31T18:00:00+09:00`,
		Args: arguments(0, 0, "none, what to override is given with flags"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if o.Key, err = key.key(); err != nil {
				return err
			}
			for _, f := range []struct{ name, value, allowed string }{
				{"--limit", o.Limit, "a whole number, the word unlimited, or a rate such as 100/s"},
				{"--owner", o.Owner, "who answers for it"},
				{"--reason", o.Reason, "why it is granted, it is kept in the records"},
				{"--expires", o.Expires, "a date such as 2027-01-31, or a time such as 2027-01-31T09:00:00+09:00"},
			} {
				if f.value == "" {
					return misuse("%s: missing; allowed: %s", f.name, f.allowed)
				}
			}
			if err := by.named(sh); err != nil {
				return err
			}
			o.Who = by.who
			reply, err := ask(cmd.Context(), sh, "add override", pb.AdminServiceClient.AddOverride, &pb.AddOverrideRequest{Override: o})
			if err != nil {
				return err
			}
			return sh.showApplied(reply, false)
		},
	}
	key.flags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&o.Limit, "limit", "", "the limit, as policy files write it")
	flags.StringVar(&o.Burst, "burst", "", "how much of a rate may come at once (default the N of N/s)")
	flags.StringVar(&o.Owner, "owner", "", "who answers for it")
	flags.StringVar(&o.Reason, "reason", "", "why it is granted, for the records")
	flags.StringVar(&o.Expires, "expires", "", "when it ends: a date in the dimension's zone, or a time")
	by.whoFlag(cmd)
	return cmd
}

func newOverrideRemoveCommand(sh *shell) *cobra.Command {
	var key keyFlags
	var by author
	cmd := &cobra.Command{
		Use:   "remove --tenant T --dimension D --why TEXT",
		Short: "Take back an override that was added",
		Long: `Remove takes back an override that was added by command; one in the policy files is taken
back there. What is leased already stays spendable for at most one ttl.`,
		Example: `  quotalease override remove --tenant acme --dimension report_export --why "the deal is off"`,
		Args:    arguments(0, 0, "none, what to remove is given with flags"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			k, err := key.key()
			if err != nil {
				return err
			}
			if err := by.settle(sh); err != nil {
				return err
			}
			request := &pb.RemoveOverrideRequest{Key: k, Who: by.who, Why: by.why}
			reply, err := ask(cmd.Context(), sh, "remove override", pb.AdminServiceClient.RemoveOverride, request)
			if err != nil {
				return err
			}
			return sh.showApplied(reply, false)
		},
	}
	key.flags(cmd)
	by.flags(cmd)
	return cmd
}

// What an override of the current policy is worth now.
const (
	stateInForce  = "in force"
	stateReplaced = "replaced" // by one that was added by command
	stateExpired  = "expired"
)

type overrideView struct {
	Tenant    string     `json:"tenant"`
	Dimension string     `json:"dimension"`
	Limit     *int64     `json:"limit"` // of a rate: the burst
	Unlimited bool       `json:"unlimited"`
	Rate      *string    `json:"rate"` // null: not a rate
	Owner     string     `json:"owner"`
	Reason    string     `json:"reason"`
	Expires   time.Time  `json:"expires"`
	Source    string     `json:"source"` // file or command
	Who       *string    `json:"who"`
	At        *time.Time `json:"at"`
	State     string     `json:"state"`

	until string
}

// overrideViews lists the overrides of a policy at a moment, by dimension and tenant.
func overrideViews(doc *policy.Document, now time.Time) []overrideView {
	s := doc.Snapshot(0)
	views := []overrideView{}
	add := func(dim *policy.Dimension, o *policy.Override) {
		v := overrideView{Tenant: o.Tenant, Dimension: dim.Name, Rate: rateOf(o.Rate), Owner: o.Owner, Reason: o.Reason,
			Expires: o.Expires, Source: "file", State: stateReplaced, until: o.Until}
		v.Limit, v.Unlimited = limitAmount(o.Limit)
		if o.Command != nil {
			v.Source, v.Who, v.At = "command", &o.Command.Who, &o.Command.At
		}
		_, m, err := s.Resolve(quota.Key{Tenant: o.Tenant, Dimension: dim.Name}, dim.Moment(now))
		switch {
		case !dim.Moment(now).Before(o.Expires):
			v.State = stateExpired
		case err == nil && m.Override == o:
			v.State = stateInForce
		}
		views = append(views, v)
	}
	for _, dim := range doc.Dimensions {
		for _, o := range dim.Overrides {
			add(dim, o)
		}
	}
	for _, o := range doc.Commands {
		if dim, ok := s.Dimension(o.Command.Dimension); ok {
			add(dim, o)
		}
	}
	slices.SortStableFunc(views, func(a, b overrideView) int {
		return cmp.Or(cmp.Compare(a.Dimension, b.Dimension), cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Source, b.Source))
	})
	return views
}

func newOverrideListCommand(sh *shell) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the overrides in force, with their owners and ends",
		Long: `List shows the overrides that are in force now, those of the policy files and those that
were added by command. With --all it also shows those that have expired, and those of files
that one by command has replaced. Overrides that a later version dropped are in that
version's differences: quotalease policy diff.`,
		Example: `  quotalease override list --all`,
		Args:    arguments(0, 0, "none"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			doc, err := sh.storedDocument(cmd.Context(), 0)
			if err != nil {
				return err
			}
			views := overrideViews(doc, sh.now())
			if !all {
				views = slices.DeleteFunc(views, func(v overrideView) bool { return v.State != stateInForce })
			}
			return list(sh, views, "overrides", 0, func(views []overrideView) *table {
				t := newTable(text("TENANT"), text("DIMENSION"), number("LIMIT"), text("OWNER"), text("EXPIRES"), text("SOURCE"), text("STATE"), text("REASON"))
				for _, v := range views {
					t.add(v.Tenant, v.Dimension, groupedLimit(v.Limit, v.Rate), v.Owner, v.until, v.Source, v.State, v.Reason)
				}
				return t
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also those that have expired or are replaced")
	return cmd
}

// rateOf writes a rate as policy files do; nil where there is none.
func rateOf(r quota.Rate) *string {
	return given(policy.Terms{Rate: r}.RateText())
}

// given is nil for an empty text.
func given(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// groupedLimit writes a limit for people, of a rate with its burst.
func groupedLimit(limit *int64, rate *string) string {
	if rate == nil {
		return grouped(limit)
	}
	return *rate + ", burst " + grouped(limit)
}
