package main

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
)

// sample is one measurement.
type sample struct {
	ns     float64 // wall time by decisions of all goroutines together
	cpu    float64 // the process's CPU time by decision, ns
	allocs float64 // by decision
}

// timed lets workers decide n times each.
func timed(o *opened, workers, n int) (sample, time.Duration, error) {
	var before, after runtime.MemStats
	failed := make([]error, workers)
	walks := make([]*walk, workers)
	for i := range walks {
		walks[i] = newWalk()
	}
	gate := make(chan struct{})
	var ready, done sync.WaitGroup
	for i := range workers {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-gate
			failed[i] = o.loop(walks[i], n)
		})
	}
	ready.Wait()
	runtime.ReadMemStats(&before)
	cpu := cpuTime()
	began := time.Now()
	close(gate)
	done.Wait()
	took := time.Since(began)
	cpu = cpuTime() - cpu
	runtime.ReadMemStats(&after)
	all := float64(n) * float64(workers)
	return sample{ns: float64(took) / all, cpu: float64(cpu) / all, allocs: float64(after.Mallocs-before.Mallocs) / all}, took, errors.Join(failed...)
}

// pace finds how many decisions take about span.
func pace(o *opened, workers int, span time.Duration) (int, error) {
	for n := 100; ; {
		_, took, err := timed(o, workers, n)
		if err != nil {
			return 0, err
		}
		if took >= span/4 {
			return max(1, int(float64(n)*float64(span)/float64(took))), nil
		}
		n *= 4
	}
}

// result is what the rounds say of one subject in one scene.
type result struct {
	Scene   string    `json:"scene"`
	Subject string    `json:"subject"`
	Kind    kind      `json:"kind"`
	NS      float64   `json:"ns_per_op"`     // median
	CPU     float64   `json:"cpu_ns_per_op"` // median; on a machine that others use it is nearer the truth
	Allocs  float64   `json:"allocs_per_op"`
	Rounds  []float64 `json:"rounds_ns_per_op"`
}

// spread is how far the rounds are apart, by their median.
func (r result) spread() float64 {
	return (slices.Max(r.Rounds) - slices.Min(r.Rounds)) / r.NS
}

// play runs the subjects of a scene, one after the other in every round, so that what else happens
// on the machine hits all of them alike.
func play(s scene, subjects []subject, rounds int, span time.Duration) ([]result, error) {
	keys := tenants(s.keys)
	var list []*player
	defer func() {
		for _, p := range list {
			_ = p.end()
		}
	}()
	for _, sub := range subjects {
		if sub.only != 0 && sub.only != s.keys {
			continue
		}
		o, err := sub.open(keys)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", sub.name, err)
		}
		p := &player{opened: o, result: result{Scene: s.name, Subject: sub.name, Kind: sub.kind}}
		list = append(list, p)
		if p.n, err = pace(o, s.workers, span); err != nil {
			return nil, fmt.Errorf("pace %s: %w", sub.name, err)
		}
	}
	for r := range rounds {
		runtime.GC() // what others left behind
		for i := range list {
			p := list[(i+r)%len(list)] // nobody always follows the same one
			got, _, err := timed(p.opened, s.workers, p.n)
			if err != nil {
				return nil, fmt.Errorf("run %s: %w", p.Subject, err)
			}
			p.Rounds, p.cpu, p.allocs = append(p.Rounds, got.ns), append(p.cpu, got.cpu), append(p.allocs, got.allocs)
		}
	}
	results := make([]result, len(list))
	for i, p := range list {
		p.NS, p.CPU, p.Allocs = median(p.Rounds), median(p.cpu), median(p.allocs)
		results[i] = p.result
	}
	return results, nil
}

type player struct {
	*opened
	result
	n           int
	cpu, allocs []float64
}

func median(of []float64) float64 {
	s := slices.Sorted(slices.Values(of))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}
