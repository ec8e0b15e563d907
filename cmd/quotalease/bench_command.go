package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quotalease/quotalease/cmd/quotalease/bench"
)

type benchFlags struct {
	dataDir, run, report, chart string
	rounds, keys                int
	time                        time.Duration
}

func newBenchCommand(sh *shell) *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure grants and decisions on this machine, beside plain Postgres",
		Long: `Measure on a real Postgres what a durable grant and a decision cost, and in the same rounds
what anybody could do with that Postgres by plain transactions. Without --database-url a
private Postgres is started; --data-dir says on which disk. It takes about twelve minutes, the
half of them for what grows, wants a machine that does nothing else, and leaves nothing behind.

All is done in a schema of its own, quotalease_bench, which is made and dropped. A database
that holds a ledger in use is refused: its agents would have to wait.

Agents that ask report with the same message that the lease before is used up, as they do in
production; of the yardsticks the one whose rows are the same does. As many callers share the connections of a
yardstick, which is tried with 1 to 32 of them and measured with the best count.

What is measured, for --run:
  one hot key  256 agents ask for one key, in process and by gRPC, beside a transaction a grant
  10,000 keys  the same over many keys, and beside batches of as many grants, written plainly: of
               the same rows in tables like the ledger's, and of rows of six fields; and 16 agents
               that ask for 16 keys with each message
  alone        one agent asks, beside the INSERT of one row
  exact lane   64 callers of one agent, beside an UPDATE a decision
  rate limit service  Envoy's service at an agent beside a stub that says yes, with 64 callers of
               10,000 tenants, and at 8,000/s: there latency counts from when a call was due
  take by gRPC one by one, and 64 to a call
  steady       2,000 decisions/s by 1, 24 and 60 agents: how many there are to a commit
  growth: decisions    1,000 to 100,000 decisions/s on the same keys: the ledger's load stays
  growth: agents       10 to 1,000 agents on one key, at the same demand
  growth: keys         1,000 to 100,000 keys, at the same demand; more with --keys
  growth: tenants      the same keys of few tenants and of many
  growth: window edge  1,000 keys whose window ends at one instant
  growth: restart      a control plane starts, with 100,000 accounts, and with 10,000 leases due

  OURS, ITS  medians of the rounds: ours, and the yardstick's
  RATIO      ours by the yardstick's
  REACH      what the ratio, or where it says so the value, is meant to be`,
		Example: `  quotalease bench
  quotalease bench --rounds 3 --time 1s --run 'hot|exact'
  quotalease bench --report bench.html -o json > bench.json
  quotalease bench --run growth --keys 1000000`,
		Args: arguments(0, 0, "none"),
		RunE: func(cmd *cobra.Command, _ []string) error { return sh.runBench(cmd, f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.dataDir, "data-dir", "", "folder for the private Postgres's data, kept (default temporary)")
	flags.StringVar(&f.run, "run", "", "regexp: measure only what it matches")
	flags.IntVar(&f.rounds, "rounds", 5, "how often each is measured; the median counts")
	flags.DurationVar(&f.time, "time", 2*time.Second, "how long each measurement takes")
	flags.IntVar(&f.keys, "keys", 100_000, "most keys of what grows by them, and accounts of a restart")
	flags.StringVar(&f.report, "report", "", "write a report with charts to this HTML file")
	flags.StringVar(&f.chart, "chart", "", "write the figures beside their yardsticks to this SVG file")
	sh.databaseFlag(cmd)
	cmd.AddCommand(newStubCommand(sh))
	return cmd
}

// newStubCommand is the server beside which an agent's doors are measured. The benchmark starts it.
func newStubCommand(sh *shell) *cobra.Command {
	cmd := &cobra.Command{
		Use: "stub", Short: "Serve a stub that says yes", Hidden: true,
		Long: `Serve takes and Envoy's rate limit service by gRPC, at a free port of this machine, and say yes
to whatever is asked. The benchmark starts it, to measure agents beside it.`,
		Example: "  quotalease bench stub",
		Args:    arguments(0, 0, "none"),
	}
	bound := sh.stopWithStdin(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, cancel := bound(cmd.Context())
		defer cancel()
		return bench.ServeStub(ctx, sh.out)
	}
	return cmd
}

func (sh *shell) runBench(cmd *cobra.Command, f benchFlags) error {
	ctx := cmd.Context()
	which, err := regexp.Compile(f.run)
	if err != nil {
		return misuse("--run: %v; allowed: a regular expression", err)
	}
	if !slices.ContainsFunc(bench.Scenes(), which.MatchString) {
		return misuse("--run: %q; allowed: what matches one of: %s", f.run, strings.Join(bench.Scenes(), ", "))
	}
	if f.rounds < 1 || f.rounds > 1000 {
		return misuse("--rounds: %d; allowed: 1 to 1,000", f.rounds)
	}
	if f.time < time.Millisecond || f.time > time.Hour {
		return misuse("--time: %s; allowed: 1ms to 1h", f.time)
	}
	if f.keys < 1000 || f.keys > 1_000_000 {
		return misuse("--keys: %d; allowed: 1,000 to 1,000,000", f.keys)
	}
	if f.dataDir != "" && sh.databaseURL != "" {
		return misuse("--data-dir: allowed: only for a private Postgres, without --database-url and %s", databaseEnv)
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	defer spareCollector(controlPlaneGC)() // one runs in this process
	report, err := bench.Run(ctx, bench.Options{DatabaseURL: sh.databaseURL, DataDir: f.dataDir, Run: which, Program: program,
		Rounds: f.rounds, Time: f.time, Keys: f.keys, Say: func(line string) { sh.note("%s", line) }})
	if ctx.Err() != nil && !errors.Is(err, bench.ErrLeft) {
		return &exitError{exitInterrupted, errors.New("interrupted; everything was stopped and dropped")}
	}
	if err != nil {
		return databaseError(ctx, err, sh.databaseURL)
	}
	if f.report != "" {
		if err := writeReport(f.report, report.WritePage); err != nil {
			return err
		}
	}
	if f.chart != "" {
		if err := writeReport(f.chart, report.WriteChart); err != nil {
			return err
		}
	}
	return sh.show(report, func(w io.Writer) error { return printBench(w, report) })
}

func printBench(w io.Writer, r *bench.Report) error {
	for _, line := range r.About() {
		fmt.Fprintln(w, line)
	}
	fmt.Fprintln(w)
	t := newTable(text("FIGURE"), number("OURS"), number("ITS"), text("YARDSTICK"), number("RATIO"), text("REACH"), text("REACHED"))
	for _, row := range r.Rows() {
		t.add(row.Figure, row.Ours, row.Its, row.Yardstick, row.Ratio, row.Reach, row.Reached)
	}
	if err := t.write(w); err != nil {
		return err
	}
	return printGrowth(w, r)
}

// printGrowth tells all sizes of what grew, not the first and the last alone.
func printGrowth(w io.Writer, r *bench.Report) error {
	if len(r.Growth) > 0 {
		fmt.Fprintln(w)
		t := newTable(number("SIZE"), text("OF"), number("DECISIONS/S"), number("LEASES/S"), number("TRANSACTIONS/S"), number("WITH READS/S"),
			number("POSTGRES CPU MS/S"), number("TAKE P99 MS"))
		for _, row := range r.GrowthRows() {
			t.add(row...)
		}
		if err := t.write(w); err != nil {
			return err
		}
	}
	if len(r.Restarts) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t := newTable(number("ACCOUNTS"), number("LEASES DUE"), number("SERVES AFTER MS"), number("FIRST GRANT MS"), number("HEAP MB"), number("CLOSED AFTER MS"))
	for _, row := range r.RestartRows() {
		t.add(row...)
	}
	return t.write(w)
}
