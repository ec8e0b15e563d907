package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/quotalease/quotalease/cmd/quotalease/demo"
	"github.com/quotalease/quotalease/controlplane"
	"github.com/quotalease/quotalease/ledger/quota"
	"github.com/quotalease/quotalease/sim/trace"
)

type replayFlags struct {
	trace  traceFlags
	agents []string
	speed  string
}

func newReplayCommand(sh *shell) *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Play a trace against running agents and count the answers",
		Long: `Play the traffic of an access log in combined format, or of a CSV, against agents that
run already, and count what they answer. A tenant is the client's address and a dimension
the first path segment, unless the file is a CSV that says otherwise: the dimensions must
be ones that the policy in force defines. Malformed lines are counted and shown.`,
		Example: `  quotalease replay access.log --agent 127.0.0.1:7610 --speed 60
  quotalease replay usage.csv --tenant-column customer --dimension-column =report_export --cost-column =1 --speed max`,
		Args: arguments(1, 1, "one FILE, or - for standard input"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.trace.file = args[0]
			return sh.runReplay(cmd.Context(), f)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.agents, "agent", []string{"127.0.0.1:7610"}, "agent's gRPC address; may be repeated, callers take turns")
	flags.StringVar(&f.speed, "speed", "1", "1 as recorded, 60 for an hour a minute, max for as fast as the agents answer")
	f.trace.registerColumns(flags)
	return cmd
}

func (sh *shell) runReplay(ctx context.Context, f replayFlags) error {
	speed, err := speedOf(f.speed)
	if err != nil {
		return err
	}
	events, err := sh.loadTrace(ctx, &f.trace)
	if err != nil {
		return err
	}
	callers, err := demo.NewCallers(f.agents, f.agents)
	if err != nil {
		return err
	}
	callers.Start(ctx)
	var sent atomic.Int64
	progress := func() string {
		return fmt.Sprintf("%s of %s events played", controlplane.Grouped(sent.Load()), controlplane.Grouped(int64(len(events))))
	}
	err = sh.narrate(progress, func() error {
		defer callers.Finish()
		return trace.Pace(ctx, events, trace.Pacing{Speed: speed, Now: time.Now, Sleep: trace.Sleep}, func(e trace.Event) error {
			sent.Add(1)
			return callers.Send(ctx, e)
		})
	})
	if err != nil {
		return err
	}
	if err := sh.showReplay(callers.Counts()); err != nil {
		return err
	}
	if err := callers.Err(); err != nil {
		return err
	}
	return undecided(callers.Counts(), f.agents)
}

// undecided is an outage if not one take was allowed or denied.
func undecided(counts map[quota.Key]demo.Count, agents []string) error {
	var decided, unavailable int64
	var unknown quota.Units
	for _, n := range counts {
		decided += n.Allowed + n.Denied
		unavailable += n.Unavailable
		unknown += n.Unknown
	}
	if decided > 0 || unavailable == 0 {
		return nil
	}
	err := errors.New("play the trace: no take was decided")
	at := strings.Join(agents, ", ")
	if unknown == 0 {
		return outage(err, "The agents at "+at+" answer that they cannot reach their control plane.")
	}
	return outage(err, "The agents at "+at+" give no answer: start one with quotalease agent or quotalease dev, or name others with --agent.")
}

// replayRow is what callers of one dimension were answered.
type replayRow struct {
	Dimension   string      `json:"dimension"`
	Tenants     int         `json:"tenants"`
	Allowed     int64       `json:"allowed"`
	Used        quota.Units `json:"used"`
	Denied      int64       `json:"denied"`
	Unavailable int64       `json:"unavailable"`
	Refused     int64       `json:"refused"`
}

func (sh *shell) showReplay(counts map[quota.Key]demo.Count) error {
	byName := map[string]*replayRow{}
	for key, n := range counts {
		r, ok := byName[key.Dimension]
		if !ok {
			r = &replayRow{Dimension: key.Dimension}
			byName[key.Dimension] = r
		}
		r.Tenants++
		r.Allowed += n.Allowed
		r.Used += n.Used
		r.Denied += n.Denied
		r.Unavailable += n.Unavailable
		r.Refused += n.Refused
	}
	rows := []replayRow{}
	for _, r := range byName {
		rows = append(rows, *r)
	}
	slices.SortFunc(rows, func(a, b replayRow) int { return cmp.Compare(a.Dimension, b.Dimension) })
	return sh.show(rows, func(w io.Writer) error {
		t := newTable(text("DIMENSION"), number("TENANTS"), number("ALLOWED"), number("USED"), number("DENIED"), number("UNAVAILABLE"), number("REFUSED"))
		for _, r := range rows {
			t.add(r.Dimension, controlplane.Grouped(int64(r.Tenants)), controlplane.Grouped(r.Allowed),
				controlplane.Grouped(int64(r.Used)), controlplane.Grouped(r.Denied), controlplane.Grouped(r.Unavailable),
				controlplane.Grouped(r.Refused))
		}
		return t.write(w)
	})
}
