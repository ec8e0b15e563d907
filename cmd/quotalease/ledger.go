package main

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/postgres"
)

func newLedgerCommand(sh *shell) *cobra.Command {
	return group("ledger", "Check the ledger, list who waits, and free what it holds",
		`The ledger is the record of every grant, and of the lines in which denied callers wait, in
Postgres. Verify reads it without a control plane; the others ask one.`,
		`  quotalease ledger verify
  quotalease ledger waiting --tenant acme
  quotalease ledger release-held --tenant acme --dimension report_export --units all --why "agent-3 is gone"`,
		newLedgerVerifyCommand(sh), newLedgerWaitingCommand(sh), newLedgerReleaseCommand(sh))
}

func newLedgerVerifyCommand(sh *shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Recompute every counter of the ledger from its grants",
		Long: `Verify recomputes every counter from the records of the grants, in one consistent
snapshot, while the ledger goes on working. It prints each place where the records do not
add up, and exits with 1 if there is one. What takes long is reported on stderr.`,
		Example: "  export " + databaseEnv + "=postgres://quotalease@127.0.0.1/quotalease\n  quotalease ledger verify",
		Args:    arguments(0, 0, "none"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			dsn, err := sh.needDatabase()
			if err != nil {
				return err
			}
			ctx, cancel := sh.wholeDatabase(cmd.Context())
			defer cancel()
			pool, err := postgres.Open(ctx, dsn, 1)
			if err != nil {
				return databaseError(ctx, err, dsn)
			}
			defer pool.Close()
			check := func() error { return needSchema(ctx, pool) }
			if err := sh.narrate(func() string { return "check the schema: waiting for Postgres" }, check); err != nil {
				return databaseError(ctx, err, dsn)
			}
			v, err := sh.verify(ctx, postgres.New(pool, postgres.Options{}))
			if err != nil {
				return databaseError(ctx, err, dsn)
			}
			return sh.showVerified(v)
		},
	}
	sh.databaseFlag(cmd)
	return cmd
}

type differenceView struct {
	Tenant     string     `json:"tenant"`
	Dimension  string     `json:"dimension"`
	Window     windowView `json:"window"`
	GrantID    *string    `json:"grant_id"` // null: the account's own counter
	Counter    string     `json:"counter"`
	Recorded   int64      `json:"recorded"`
	Recomputed int64      `json:"recomputed"`
}

func newDifferenceView(d ledger.Difference) differenceView {
	key, window := d.Account.Key, d.Account.Window
	v := differenceView{
		Tenant: key.Tenant, Dimension: key.Dimension, Window: windowView{Start: &window.Start},
		Counter: d.Counter, Recorded: int64(d.Recorded), Recomputed: int64(d.Recomputed),
	}
	if !window.Endless() {
		v.Window.End = &window.End
	}
	if !d.Grant.IsNil() {
		id := d.Grant.String()
		v.GrantID = &id
	}
	return v
}

type verifyView struct {
	Accounts    int              `json:"accounts"`
	Grants      int              `json:"grants"`
	Count       int              `json:"difference_count"`
	Differences []differenceView `json:"differences"`
}

// verify runs the audit. People see each difference as it is found; scripts get one object.
func (sh *shell) verify(ctx context.Context, keeper ledger.Keeper) (verifyView, error) {
	view := verifyView{Differences: []differenceView{}}
	var accounts, grants atomic.Int64
	line := func() string {
		a, g := accounts.Load(), grants.Load()
		return fmt.Sprintf("verify the ledger: %s accounts, %s grants so far", grouped(&a), grouped(&g))
	}
	err := sh.narrate(line, func() error {
		verified, err := keeper.Verify(ctx, func(d ledger.Difference) {
			if sh.format == formatJSON {
				view.Differences = append(view.Differences, newDifferenceView(d))
				return
			}
			fmt.Fprintln(sh.out, d)
		}, func(a, g int) {
			accounts.Store(int64(a))
			grants.Store(int64(g))
		})
		view.Accounts, view.Grants, view.Count = verified.Accounts, verified.Grants, verified.Differences
		if err != nil {
			return fmt.Errorf("verify the ledger: %w", err)
		}
		return nil
	})
	return view, err
}

func (sh *shell) showVerified(view verifyView) error {
	err := sh.show(view, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "verified %s, %s: %s\n", count(view.Accounts, "account"), count(view.Grants, "grant"), count(view.Count, "difference"))
		return err
	})
	if err != nil || view.Count == 0 {
		return err
	}
	return found()
}
