package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/quotalease/quotalease/controlplane"
	"github.com/quotalease/quotalease/ledger/quota"
	"github.com/quotalease/quotalease/sim/trace"
)

// traceFlags say which trace to read and what its columns are.
type traceFlags struct {
	file    string
	format  string
	columns trace.Columns
}

func (f *traceFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.file, "trace", "", "access log in combined format, or CSV, to play; - is standard input")
	f.registerColumns(flags)
}

func (f *traceFlags) registerColumns(flags *pflag.FlagSet) {
	flags.StringVar(&f.format, "format", "auto", "of the trace: auto, access-log or csv")
	flags.StringVar(&f.columns.Timestamp, "timestamp-column", "", "CSV column of the time")
	flags.StringVar(&f.columns.Tenant, "tenant-column", "", "CSV column of the tenant, or =NAME for one tenant")
	flags.StringVar(&f.columns.Dimension, "dimension-column", "", "CSV column of the dimension, or =NAME for one dimension")
	flags.StringVar(&f.columns.Cost, "cost-column", "", "CSV column of the cost, a sum such as in+out, or =N")
}

func (f *traceFlags) set() bool { return f.columns != (trace.Columns{}) || f.format != "auto" }

// loadTrace reads the whole trace and tells what could not be read of it.
func (sh *shell) loadTrace(ctx context.Context, f *traceFlags) ([]trace.Event, error) {
	format, err := trace.ParseFormat(f.format)
	if err != nil {
		return nil, misuse("%w", err)
	}
	in := io.NopCloser(sh.in)
	if f.file != "-" {
		if in, err = os.Open(f.file); err != nil {
			return nil, fmt.Errorf("read the trace: %w", err)
		}
	}
	defer func() { _ = in.Close() }()
	var events []trace.Event
	var sum trace.Summary
	err = sh.narrate(func() string { return "reading the trace" }, func() error {
		events, sum, err = trace.Load(ctx, in, trace.Options{Name: filepath.Base(f.file), Format: format, Columns: f.columns})
		return err
	})
	if err != nil {
		var field *quota.FieldError
		if errors.As(err, &field) {
			return nil, misuse("%w", err)
		}
		return nil, err
	}
	sh.note("%s: %s events of %s tenants in %s dimensions, %s to %s", f.file, controlplane.Grouped(int64(len(events))),
		controlplane.Grouped(int64(sum.Tenants)), controlplane.Grouped(int64(sum.Dimensions)),
		sum.First.Format("2006-01-02 15:04:05"), sum.Last.Format("2006-01-02 15:04:05"))
	if sum.Malformed > 0 {
		sh.note("%s malformed lines were left out, among them:", controlplane.Grouped(int64(sum.Malformed)))
		for _, p := range sum.Problems {
			sh.note("  line %d: %s", p.Line, p.What)
		}
	}
	return events, nil
}

// speedOf reads --speed: a factor above 0, or max, which is 0 to the pacing.
func speedOf(s string) (float64, error) {
	if s == "max" {
		return 0, nil
	}
	speed, err := strconv.ParseFloat(s, 64)
	if err != nil || !(speed > 0) || speed > 1e9 {
		return 0, misuse("--speed: %q; allowed: a number above 0 (1 is as recorded, 60 an hour a minute), or max", s)
	}
	return speed, nil
}
