package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/quotalease/quotalease/migrations"
)

func newMigrateCommand(sh *shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate [up|status]",
		Short: "Bring the schema of the ledger's Postgres up to date",
		Long: `Migrate applies the steps of the schema that are missing; it may be repeated, and several
may run at once. With status it changes nothing, lists every step, and exits with 1 if one
is missing. Give it a direct connection, not one through a pooler in transaction mode.`,
		Example: "  export " + databaseEnv + "=postgres://quotalease@127.0.0.1/quotalease\n  quotalease migrate\n  quotalease migrate status",
		Args:    arguments(0, 1, "up or status"),
		RunE: func(cmd *cobra.Command, args []string) error {
			dsn, err := sh.needDatabase()
			if err != nil {
				return err
			}
			ctx, cancel := sh.wholeDatabase(cmd.Context())
			defer cancel()
			switch {
			case len(args) == 0 || args[0] == "up":
				return sh.migrateUp(ctx, dsn)
			case args[0] == "status":
				return sh.migrateStatus(ctx, dsn)
			}
			return misuse("migrate: %q; allowed: up, status", args[0])
		},
		ValidArgs: []string{"up", "status"},
	}
	sh.databaseFlag(cmd)
	return cmd
}

type stepView struct {
	Version   int64      `json:"version"`
	Name      string     `json:"name"`
	Applied   bool       `json:"applied"`
	AppliedAt *time.Time `json:"applied_at"` // null: not known, or not applied
}

func newStepView(s migrations.Step) stepView {
	v := stepView{Version: s.Version, Name: s.Name, Applied: s.Applied}
	if !s.AppliedAt.IsZero() {
		at := s.AppliedAt.UTC()
		v.AppliedAt = &at
	}
	return v
}

func (sh *shell) migrateUp(ctx context.Context, dsn string) error {
	var steps []migrations.Step
	err := sh.narrate(func() string { return "apply migrations: waiting for Postgres" }, func() (err error) {
		steps, err = migrations.Up(ctx, dsn)
		return err
	})
	if err != nil {
		return databaseError(ctx, err, dsn)
	}
	views := each(steps, newStepView)
	return sh.show(views, func(w io.Writer) error {
		if len(views) == 0 {
			sh.note("nothing to do: the schema is at version %d", migrations.Needed())
		}
		return writeLines(w, each(views, func(v stepView) string { return "applied " + v.Name }))
	})
}

func (sh *shell) migrateStatus(ctx context.Context, dsn string) error {
	var steps []migrations.Step
	err := sh.narrate(func() string { return "read the state of migrations: waiting for Postgres" }, func() (err error) {
		steps, err = migrations.Status(ctx, dsn)
		return err
	})
	if err != nil {
		return databaseError(ctx, err, dsn)
	}
	missing := 0
	err = list(sh, each(steps, newStepView), "steps", 0, func(views []stepView) *table {
		t := newTable(number("VERSION"), text("NAME"), text("APPLIED"))
		for _, v := range views {
			applied := "missing"
			if v.Applied {
				applied = utc(v.AppliedAt)
			}
			t.add(strconv.FormatInt(v.Version, 10), v.Name, applied)
		}
		return t
	})
	for _, s := range steps {
		if !s.Applied {
			missing++
		}
	}
	if err != nil || missing == 0 {
		return err
	}
	sh.note("%s missing: run quotalease migrate", count(missing, "step"))
	return found()
}

// needSchema refuses to read a database that has no schema, or an older one.
func needSchema(ctx context.Context, db migrations.Querier) error {
	if err := migrations.Check(ctx, db); err != nil {
		return fmt.Errorf("check the schema: %w", err)
	}
	return nil
}
