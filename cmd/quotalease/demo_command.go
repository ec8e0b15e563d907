package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/quotalease/quotalease/cmd/quotalease/demo"
	"github.com/quotalease/quotalease/controlplane"
	"github.com/quotalease/quotalease/ledger/quota"
)

type demoFlags struct {
	dataDir string
	trace   traceFlags
	seed    uint64
	length  time.Duration
	speed   string
	verbose bool
}

func newDemoCommand(sh *shell) *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch quotas hold across three regions while things go wrong",
		Long: `Play traffic through three regional agents on a real Postgres while things go wrong: the
control plane is killed and comes back, one agent is killed with SIGKILL, one limit is cut.
At the end what the callers counted is held against the ledger, the limits and the bounds.
It takes about half a minute.

With --trace the traffic is that of a log: each first path segment (or what the CSV says)
becomes a dimension, and each limit half of what the busiest tenant used, so that denials
must occur. The derived policy is printed.

Exit code 0 means that every bound held, that ledger and callers agree as the classes allow,
and that the ledger adds up; 1 that something did not.

The table speaks of one tenant in each dimension, the one that used most; -o json has the
sums over all tenants too.

  LIMIT       what that tenant may use; (cut) if the demo lowered it; of a rate its burst and
              how fast that refills; of slots how many at the same time
  MOST USED   what it used, as its callers counted allowed takes; of slots, at the same time
  BOUND       most that the promise lets it use; of a rate, in the time that the traffic took
  DENIED      takes refused: the quota was spent, or what is left was with other agents
  OUTAGE      takes answered "unavailable", or not at all: nobody says that a quota is spent
  HELD        units that the killed agent left unconfirmed: charged as if used
  UNCERTAIN   such units that the class gave back to the quota
  OVERSHOOT   use beyond what was ever promised, as far as reports reveal it
  OVER LIMIT  use above a limit that was cut afterwards: no promise was broken`,
		Example: `  quotalease demo
  quotalease demo -o json
  quotalease demo --trace access.log
  quotalease demo --trace usage.csv --tenant-column customer --cost-column tokens`,
		Args: arguments(0, 0, "none"),
		RunE: func(cmd *cobra.Command, _ []string) error { return sh.runDemo(cmd, f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.dataDir, "data-dir", "", "folder for the private Postgres's data, kept (default temporary)")
	flags.Uint64Var(&f.seed, "seed", 1, "of the built-in traffic")
	flags.DurationVar(&f.length, "length", 24*time.Second, "of the traffic")
	flags.StringVar(&f.speed, "speed", "", "of a trace: 1 as recorded, 60 for an hour a minute, max (default so that it lasts --length)")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "show what the processes log")
	f.trace.register(flags)
	sh.databaseFlag(cmd)
	return cmd
}

func (sh *shell) runDemo(cmd *cobra.Command, f demoFlags) error {
	ctx := cmd.Context()
	o := demo.Options{
		DatabaseURL: sh.databaseURL, DataDir: f.dataDir, Seed: f.seed, Length: f.length, Verbose: f.verbose,
		Say: func(line string) { sh.note("%s", line) },
	}
	if f.length < 5*time.Second || f.length > 10*time.Minute {
		return misuse("--length: %s; allowed: 5s to 10m", f.length)
	}
	if f.trace.file == "" && (f.speed != "" || f.trace.set()) {
		return misuse("--speed and the column flags belong to a trace: give --trace FILE too")
	}
	if f.trace.file != "" {
		events, err := sh.loadTrace(ctx, &f.trace)
		if err != nil {
			return err
		}
		o.Events = events
		o.Policy = func(text []byte) { sh.note("policy derived from the trace:\n%s", indent(onePerLine(text))) }
		if f.speed != "" {
			if o.Speed, err = speedOf(f.speed); err != nil {
				return err
			}
			o.Fast = o.Speed == 0
		}
	}
	report, err := demo.Run(ctx, o)
	if err != nil {
		if ctx.Err() != nil {
			return &exitError{exitInterrupted, errors.New("interrupted; everything was stopped")}
		}
		return err
	}
	if err := sh.show(report, func(w io.Writer) error { return printDemo(w, report) }); err != nil {
		return err
	}
	if !report.OK() {
		return found()
	}
	return nil
}

func indent(s string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n  ")
}

// onePerLine writes a policy with each dimension on one line, so that many fit a screen.
func onePerLine(text []byte) string {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil || len(doc.Content) == 0 {
		return string(text)
	}
	for _, part := range doc.Content[0].Content {
		for _, dimension := range part.Content {
			dimension.Style = yaml.FlowStyle
		}
	}
	brief, err := yaml.Marshal(&doc)
	if err != nil {
		return string(text)
	}
	return string(brief)
}

func printDemo(w io.Writer, r *demo.Report) error {
	fmt.Fprintln(w)
	t := newTable(text("DIMENSION"), text("CLASS"), number("LIMIT"), number("MOST USED"), number("BOUND"), number("DENIED"),
		number("OUTAGE"), number("HELD"), number("UNCERTAIN"), number("OVERSHOOT"), number("OVER LIMIT"))
	g := controlplane.Grouped
	for _, d := range r.Dimensions {
		limit, bound := g(int64(d.Limit)), g(int64(d.Bound))
		switch {
		case d.Cut:
			limit += " (cut)"
		case d.Rate != "":
			limit += ", " + d.Rate
		case d.Kind == quota.Concurrency.String():
			limit += " at once"
		}
		if d.Tenants == 0 { // no take reached the ledger, which therefore knows no limit
			limit, bound = "", ""
		}
		t.add(d.Name, d.Class, limit, g(int64(d.MostUsed)), bound, g(d.Denied), g(d.Unavailable),
			g(int64(d.Held)), g(int64(d.Uncertain)), g(int64(d.Overshoot)), g(int64(d.OverLimit)))
	}
	if err := t.write(w); err != nil {
		return err
	}
	fmt.Fprintln(w, "DENIED and OUTAGE count takes, all else units; quotalease demo --help explains each column")
	fmt.Fprintf(w, "\n%s decisions, %s database commits: %.0f decisions per commit\n", g(r.Decisions), g(r.Commits), r.DecisionsPerCommit)
	fmt.Fprintf(w, "ledger verify: %s accounts and %s grants recomputed, %s differences\n",
		g(int64(r.Verify.Accounts)), g(int64(r.Verify.Grants)), g(int64(r.Verify.Differences)))
	for _, line := range append(r.Verify.Found, r.Broken...) {
		fmt.Fprintln(w, "  BROKEN", line)
	}
	verdict := func(ok bool, yes, no string) string {
		if ok {
			return yes
		}
		return no
	}
	for _, line := range shownBy(r) {
		fmt.Fprintln(w, "shown:", line)
	}
	_, err := fmt.Fprintf(w, "%s; %s (%.0f s)\n", verdict(r.Held, "every bound held", "A BOUND WAS BROKEN"),
		verdict(r.Agree, "ledger and callers agree as the classes allow", "LEDGER AND CALLERS DISAGREE"), r.Seconds)
	return err
}

// shownBy says in words what the figures of a demo show.
func shownBy(r *demo.Report) []string {
	var lines []string
	rows := func(what string, figure func(demo.Dimension) int64) {
		var named []string
		for _, d := range r.Dimensions {
			if n := figure(d); n > 0 {
				named = append(named, d.Name+" "+controlplane.Grouped(n))
			}
		}
		if len(named) > 0 {
			lines = append(lines, what+": "+strings.Join(named, ", "))
		}
	}
	denied := func(kind quota.Kind) func(demo.Dimension) int64 {
		return func(d demo.Dimension) int64 {
			if d.Kind != kind.String() {
				return 0
			}
			return d.Denied
		}
	}
	rows("used up, the rest denied", func(d demo.Dimension) int64 {
		if !usedUp(d) || ofNoWindow(d) {
			return 0
		}
		return int64(d.Limit)
	})
	rows("takes denied though not all was used, because the rest was with other agents or on its way", func(d demo.Dimension) int64 {
		if d.Tenants != 1 || d.Cut || usedUp(d) || ofNoWindow(d) {
			return 0
		}
		return d.Denied
	})
	rows("takes denied by a rate, until it had refilled", denied(quota.RateLimit))
	rows("jobs denied while the slots were in use", denied(quota.Concurrency))
	rows("allowed in the outage without a lease, by outage mode open", func(d demo.Dimension) int64 { return int64(d.Open) })
	rows("left held by the killed agent, charged as if used", func(d demo.Dimension) int64 { return int64(d.Held) })
	rows("left uncertain, given back to the quota", func(d demo.Dimension) int64 { return int64(d.Uncertain) })
	rows("over a limit that was cut below what was used, which breaks no promise", func(d demo.Dimension) int64 {
		return int64(d.OverLimit - min(d.OverLimit, d.Overshoot))
	})
	rows("overshoot, beyond the limit though within the bound", func(d demo.Dimension) int64 { return int64(d.Overshoot) })
	return lines
}

// ofNoWindow reports a limit that nothing uses up.
func ofNoWindow(d demo.Dimension) bool {
	return d.Kind == quota.RateLimit.String() || d.Kind == quota.Concurrency.String()
}

// usedUp reports that one tenant came to its limit, with what is held for it.
func usedUp(d demo.Dimension) bool {
	used := d.MostUsed
	if d.Tenants == 1 { // else it may be another's
		used += d.Held
	}
	return !d.Cut && d.Denied > 0 && d.Limit > 0 && used >= d.Limit
}
