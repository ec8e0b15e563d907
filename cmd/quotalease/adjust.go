package main

import (
	"fmt"
	"io"
	"strconv"

	"github.com/gofrs/uuid/v5"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quotalease/quotalease/controlplane"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// adjustFlags name one window and who changes it.
type adjustFlags struct {
	key        pb.Key
	window, id string
	by         author
}

func (f *adjustFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.key.Tenant, "tenant", "", "the tenant")
	flags.StringVar(&f.key.Dimension, "dimension", "", "the dimension")
	flags.StringVar(&f.window, "window", "", "start of the window, as quotalease usage shows it, or a date (default the current window)")
	flags.StringVar(&f.id, "id", "", "a UUID of version 7 of your own: a repeat under it changes nothing (default a new one)")
	f.by.flags(cmd)
	// What --why tells the records is a reason: both words are taken.
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "reason" {
			name = "why"
		}
		return pflag.NormalizedName(name)
	})
}

// settle reads the flags: the window, and the id under which the change is made once.
func (f *adjustFlags) settle(sh *shell) (*pb.WindowStart, []byte, error) {
	if f.key.GetTenant() == "" || f.key.GetDimension() == "" {
		return nil, nil, misuse("--tenant, --dimension: missing; allowed: both")
	}
	start, err := readStart("--window", f.window)
	if err != nil {
		return nil, nil, err
	}
	if err := f.by.settle(sh); err != nil {
		return nil, nil, err
	}
	if f.id == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return nil, nil, fmt.Errorf("make an id: %w", err)
		}
		return start, id.Bytes(), nil
	}
	id, err := uuid.FromString(f.id)
	if err != nil || id.Version() != uuid.V7 {
		return nil, nil, misuse("--id: %q; allowed: a UUID of version 7", f.id)
	}
	return start, id.Bytes(), nil
}

// adjustedView is what an adjustment left behind.
type adjustedView struct {
	ID       string    `json:"id"`
	Repeated bool      `json:"repeated"` // done before under this id: nothing changed now
	Units    int64     `json:"units"`
	Revision int64     `json:"statement_revision"` // 0: the window has no statement yet
	Usage    usageView `json:"usage"`
}

func (v adjustedView) where(timezone string) string {
	where := v.Usage.Tenant + "/" + v.Usage.Dimension
	if start := v.Usage.Window.Start; start != nil {
		where += ", window " + zoned(timezone)(start.UnixMicro())
	}
	return printable(where)
}

// showAdjusted says in one line what was done, and in others what follows from it.
func (sh *shell) showAdjusted(v adjustedView, line string) error {
	return sh.show(v, func(w io.Writer) error {
		if v.Repeated {
			line += " (done before under " + v.ID + ": nothing changed now)"
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
		if v.Revision > 0 {
			_, err := fmt.Fprintf(w, "the window is over: revision %d of its statement says so\n", v.Revision)
			return err
		}
		return nil
	})
}

func newUsageAdjustCommand(sh *shell) *cobra.Command {
	var f adjustFlags
	request := &pb.AdjustUsageRequest{Key: &f.key}
	cmd := &cobra.Command{
		Use:   "adjust --tenant T --dimension D --credit N --why TEXT",
		Short: "Add a credit to the limit of one window",
		Long: `Adjust adds units to a tenant's limit in one window: the current one, unless --window
names another. Use stays as it was counted. Agents hear of a higher limit within a second.
Of a window that is over a credit amends the statement. Who added it and why is kept with
the window's limits, in its statement and in the journal.

A command whose answer was lost may be repeated with the same --id: the credit is added
once.`,
		Example: `  quotalease usage adjust --tenant acme --dimension report_export --credit 500 --why "outage on Nov 28"
  quotalease usage adjust --tenant acme --dimension report_export --window 2026-11-28 --credit 500 --why "outage"`,
		Args: arguments(0, 0, "none, the window is chosen by flags"),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := positive("--credit", request.GetCredit()); err != nil {
				return err
			}
			if request.Window, request.Id, err = f.settle(sh); err != nil {
				return err
			}
			request.Who, request.Why = f.by.who, f.by.why
			reply, err := ask(cmd.Context(), sh, "adjust usage", pb.AdminServiceClient.AdjustUsage, request)
			if err != nil {
				return sh.mayBeDone(err, request.Id)
			}
			v := adjustedView{idText(request.Id), reply.GetRepeated(), request.GetCredit(), reply.GetRevision(), newUsageView(reply.GetUsage())}
			return sh.showAdjusted(v, fmt.Sprintf("credit of %s to %s: the limit is %s, %s of it credit",
				controlplane.Grouped(v.Units), v.where(reply.GetTimezone()), grouped(v.Usage.Limit), controlplane.Grouped(v.Usage.Credit)))
		},
	}
	cmd.Flags().Int64Var(&request.Credit, "credit", 0, "units to add, 1 or more")
	f.register(cmd)
	return cmd
}

// mayBeDone adds to an outage how the command can be repeated without doing it twice.
func (sh *shell) mayBeDone(err error, id []byte) error {
	if isOutage(err) {
		return outage(err, "To be sure that it is done once, repeat it with --id "+idText(id)+".")
	}
	return err
}

// allUnits is the word for as many as there are.
const allUnits = "all"

func newLedgerReleaseCommand(sh *shell) *cobra.Command {
	var f adjustFlags
	var units string
	request := &pb.ReleaseHeldRequest{Key: &f.key}
	cmd := &cobra.Command{
		Use:   "release-held --tenant T --dimension D --units N|all --why TEXT",
		Short: "Give held units back to the pool",
		Long: `What a lost agent may have used is held: it counts against the limit until a report says
otherwise. Release-held gives held units of one window back, those of the oldest leases
first: they become uncertain, and may be granted again. If they were used after all, the
window ends above its limit by as many: the bound of a hard dimension is its limit, plus
what an operator released. Who did it and why is in the journal, and in the statement of a
window that is over.

It asks the control plane. A command whose answer was lost may be repeated with the same
--id: units are released once.`,
		Example: `  quotalease ledger release-held --tenant acme --dimension report_export --units all --why "agent-3 was reinstalled"`,
		Args:    arguments(0, 0, "none, the window is chosen by flags"),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if request.Units, err = readUnits(units); err != nil {
				return err
			}
			if request.Window, request.Id, err = f.settle(sh); err != nil {
				return err
			}
			request.Who, request.Why = f.by.who, f.by.why
			reply, err := ask(cmd.Context(), sh, "release held units", pb.AdminServiceClient.ReleaseHeld, request)
			if err != nil {
				return sh.mayBeDone(err, request.Id)
			}
			v := adjustedView{idText(request.Id), reply.GetRepeated(), reply.GetReleased(), reply.GetRevision(), newUsageView(reply.GetUsage())}
			return sh.showAdjusted(v, fmt.Sprintf("released %s of %s: %s still held, %s uncertain",
				unitsText(v.Units), v.where(reply.GetTimezone()), controlplane.Grouped(v.Usage.Held), controlplane.Grouped(v.Usage.Uncertain)))
		},
	}
	cmd.Flags().StringVar(&units, "units", "", "how many at most, or all")
	f.register(cmd)
	return cmd
}

func readUnits(s string) (int64, error) {
	if s == allUnits {
		return int64(quota.MaxUnits), nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 {
		return 0, misuse("--units: %q; allowed: a number of 1 or more, or all", s)
	}
	return n, nil
}

func unitsText(n int64) string {
	if n == 1 {
		return "1 unit"
	}
	return controlplane.Grouped(n) + " units"
}
