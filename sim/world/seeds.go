package world

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// Plan is a run of many seeds.
type Plan struct {
	First   uint64
	Seeds   int
	Events  int // of each seed, at least
	Workers int
}

// Progress is how far a run is. It may be read while the run goes on.
type Progress struct {
	Seeds  atomic.Int64
	Events atomic.Int64
}

// Count is how often a kind of trouble happened.
type Count struct {
	Kind  Kind
	Seeds int
	Times int
}

// Report is what became of a run.
type Report struct {
	Seeds    int // that were run
	Events   int64
	Trouble  []Count
	Failures []Result // by seed
}

// manySeeds is how many seeds have to fire every kind of trouble together.
const manySeeds = 100

// Missing lists kinds of trouble that a run of many seeds never fired: it proved less than it
// seems to.
func (r Report) Missing() []Kind {
	var missing []Kind
	for _, c := range r.Trouble {
		if c.Seeds == 0 && r.Seeds >= manySeeds {
			missing = append(missing, c.Kind)
		}
	}
	return missing
}

// RunSeeds runs seed after seed, each on one worker at a time. After a failure or when ctx ends
// no further seed is begun.
func RunSeeds(ctx context.Context, p Plan, progress *Progress) Report {
	var mu sync.Mutex // guards report
	report := Report{Trouble: make([]Count, 0, kinds)}
	for _, k := range Trouble() {
		report.Trouble = append(report.Trouble, Count{Kind: k})
	}
	var next atomic.Int64
	var failed atomic.Bool
	var workers sync.WaitGroup
	for range p.Workers {
		workers.Go(func() {
			for ctx.Err() == nil && !failed.Load() {
				i := next.Add(1) - 1
				if i >= int64(p.Seeds) {
					return
				}
				r := Run(p.First+uint64(i), p.Events, nil)
				progress.Seeds.Add(1)
				progress.Events.Add(int64(r.Events))
				if r.Fault != nil {
					failed.Store(true)
				}
				mu.Lock()
				report.add(r)
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	slices.SortFunc(report.Failures, func(x, y Result) int { return int(x.Script.Seed) - int(y.Script.Seed) })
	return report
}

func (r *Report) add(x Result) {
	r.Seeds++
	r.Events += int64(x.Events)
	for i := range r.Trouble {
		c := &r.Trouble[i]
		if n := x.Fired[c.Kind]; n > 0 {
			c.Seeds++
			c.Times += n
		}
	}
	if x.Fault != nil {
		r.Failures = append(r.Failures, x)
	}
}
