package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// subject is something to measure: ours, or a yardstick.
type subject struct {
	name string
	open func(context.Context) (*opened, error)
}

// opened is a subject that is ready. do makes per grants or decisions for one of the workers;
// each worker calls it again and again, for itself.
type opened struct {
	workers     int
	connections int // to Postgres, of a yardstick
	per         int
	pace        int                           // calls a second; 0: each worker's next follows its last
	cpu         func() (time.Duration, error) // of the server that answers; nil: Postgres'
	do          func(ctx context.Context, worker int) error
	close       func(context.Context) error
}

// Sample is one measurement. CPU is 0 where it cannot be told.
type Sample struct {
	PerSecond float64 `json:"per_second"`
	P50ms     float64 `json:"p50_ms"`
	P99ms     float64 `json:"p99_ms"`
	CPUus     float64 `json:"server_cpu_us"` // by grant or decision: of Postgres, or of the process whose door it is
}

// meter takes samples. cpu is what Postgres has used so far; nil where nobody knows.
type meter struct {
	now func() time.Time
	cpu func() (time.Duration, error)
}

// take lets the workers go on for a span, each until what it began is done.
func (m meter) take(ctx context.Context, o *opened, span time.Duration) (Sample, error) {
	if o.cpu != nil {
		m.cpu = o.cpu
	}
	if o.pace > 0 {
		return m.takePaced(ctx, o, span, keepTime)
	}
	lasted := make([][]time.Duration, o.workers)
	failed := make([]error, o.workers)
	before, err := m.used()
	if err != nil {
		return Sample{}, err
	}
	var wg sync.WaitGroup
	began := m.now()
	for i := range o.workers {
		wg.Go(func() {
			for at := m.now(); at.Sub(began) < span; {
				if failed[i] = o.do(ctx, i); failed[i] != nil {
					return
				}
				end := m.now()
				lasted[i] = append(lasted[i], end.Sub(at))
				at = end
			}
		})
	}
	wg.Wait()
	took := m.now().Sub(began)
	after, err := m.used()
	if err := errors.Join(append(failed, err)...); err != nil {
		return Sample{}, err
	}
	return sampleOf(slices.Concat(lasted...), o.per, took, after-before), nil
}

func (m meter) used() (time.Duration, error) {
	if m.cpu == nil {
		return 0, nil
	}
	return m.cpu()
}

// sampleOf sums up calls of per decisions each.
func sampleOf(lasted []time.Duration, per int, took, cpu time.Duration) Sample {
	if len(lasted) == 0 || took <= 0 {
		return Sample{}
	}
	slices.Sort(lasted)
	n := float64(len(lasted) * per)
	return Sample{
		PerSecond: n / took.Seconds(), P50ms: millis(quantile(lasted, 50)), P99ms: millis(quantile(lasted, 99)),
		CPUus: float64(cpu.Microseconds()) / n,
	}
}

// quantile is the smallest value that percent of all do not exceed.
func quantile(sorted []time.Duration, percent int) time.Duration {
	return sorted[max(0, (len(sorted)*percent+99)/100-1)]
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Result is what the rounds say of one subject.
type Result struct {
	Scene   string   `json:"scene"`
	Subject string   `json:"subject"`
	Workers int      `json:"workers"`
	Conns   int      `json:"connections,omitempty"` // of a yardstick
	Per     int      `json:"by_call"`               // grants or decisions that one call makes
	Median  Sample   `json:"median"`
	Spread  float64  `json:"spread"` // of the rounds' speeds, by their median: a quiet machine shows little
	Rounds  []Sample `json:"rounds"`
}

// scene is what is measured in the same rounds.
type scene struct {
	name     string
	subjects []subject
}

// play opens the subjects and runs them one after the other in every round, so that whatever else
// happens on the machine hits all of them alike.
func (m meter) play(ctx context.Context, s scene, rounds int, span time.Duration, say func(string)) (results []Result, err error) {
	var list []*opened
	defer func() {
		ending := context.WithoutCancel(ctx)
		for _, o := range list {
			err = errors.Join(err, o.close(ending))
		}
	}()
	for _, sub := range s.subjects {
		say(fmt.Sprintf("%s: %s warms up", s.name, sub.name))
		o, err := sub.open(ctx)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", sub.name, err)
		}
		list = append(list, o)
		if _, err := m.take(ctx, o, span/4); err != nil {
			return nil, fmt.Errorf("warm up %s: %w", sub.name, err)
		}
		results = append(results, Result{Scene: s.name, Subject: sub.name, Workers: o.workers, Conns: o.connections, Per: o.per})
	}
	for r := range rounds {
		say(fmt.Sprintf("%s: round %d of %d", s.name, r+1, rounds))
		for i := range list {
			at := (i + r) % len(list) // nobody always follows the same one
			got, err := m.take(ctx, list[at], span)
			if err != nil {
				return nil, fmt.Errorf("run %s: %w", results[at].Subject, err)
			}
			results[at].Rounds = append(results[at].Rounds, got)
		}
	}
	for i := range results {
		results[i].Median, results[i].Spread = medianOf(results[i].Rounds), spreadOf(results[i].Rounds)
	}
	return results, nil
}

// medianOf is the median of each number by itself.
func medianOf(rounds []Sample) Sample {
	each := func(of func(Sample) float64) float64 {
		var all []float64
		for _, r := range rounds {
			all = append(all, of(r))
		}
		return median(all)
	}
	return Sample{
		PerSecond: each(func(s Sample) float64 { return s.PerSecond }), P50ms: each(func(s Sample) float64 { return s.P50ms }),
		P99ms: each(func(s Sample) float64 { return s.P99ms }), CPUus: each(func(s Sample) float64 { return s.CPUus }),
	}
}

// spreadOf is how far the speeds of the rounds are apart, by their median.
func spreadOf(rounds []Sample) float64 {
	var speeds []float64
	for _, r := range rounds {
		speeds = append(speeds, r.PerSecond)
	}
	if middle := median(speeds); middle > 0 {
		return (slices.Max(speeds) - slices.Min(speeds)) / middle
	}
	return 0
}

func median(of []float64) float64 {
	s := slices.Sorted(slices.Values(of))
	n := len(s)
	switch {
	case n == 0:
		return 0
	case n%2 == 0:
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[n/2]
}
