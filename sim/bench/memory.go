package main

import (
	"context"
	"fmt"
	"hash/maphash"
	"math"
	"runtime"
	"time"

	"github.com/sethvargo/go-limiter/memorystore"
	"golang.org/x/time/rate"
)

// store is something that remembers keys.
type store struct {
	name string
	kind kind
	// fill puts n keys in use, whose names it makes itself, and returns what keeps them.
	fill func(n int) (kept any, empty func() error, err error)
}

const (
	agentMemory = "quotalease agent"
	mapMemory   = "map[string]*64 B record"
)

type record [64]byte

func stores() []store {
	return []store{
		{agentMemory, ours, func(n int) (any, func() error, error) {
			keys := tenants(n)
			a, stop, err := start(keys)
			return a, stop, err
		}},
		{mapMemory, floor, func(n int) (any, func() error, error) {
			m := map[string]*record{}
			for _, k := range tenants(n) {
				m[k] = &record{}
			}
			return m, nil, nil
		}},
		{"map[hash]int32 and a slab of 64 B records", floor, func(n int) (any, func() error, error) {
			seed, at, slab := maphash.MakeSeed(), map[uint64]int32{}, make([]record, 0, n)
			for i, k := range tenants(n) {
				at[maphash.String(seed, k)] = int32(i)
				slab = append(slab, record{})
			}
			return []any{at, slab}, nil, nil
		}},
		{"map[string]*rate.Limiter", peer, func(n int) (any, func() error, error) {
			m := map[string]*rate.Limiter{}
			for _, k := range tenants(n) {
				m[k] = rate.NewLimiter(1e9, 1<<30)
				m[k].AllowN(time.Now(), 1)
			}
			return m, nil, nil
		}},
		{"go-limiter memorystore", peer, func(n int) (any, func() error, error) {
			ctx := context.Background()
			s, err := memorystore.New(&memorystore.Config{Tokens: 1 << 60, Interval: time.Hour})
			if err != nil {
				return nil, nil, err
			}
			for _, k := range tenants(n) {
				if _, _, _, ok, err := s.Take(ctx, k); err != nil || !ok {
					return nil, nil, fmt.Errorf("take: %w %v", errDenied, err)
				}
			}
			return s, func() error { return s.Close(ctx) }, nil
		}},
	}
}

// weight is what a store costs.
type weight struct {
	Store  string    `json:"store"`
	Kind   kind      `json:"kind"`
	Keys   int       `json:"keys"`
	Bytes  float64   `json:"bytes_per_key"` // of the heap
	GCms   float64   `json:"gc_ms"`         // a full cycle, wall time; median
	GCCPU  float64   `json:"gc_cpu_ms"`     // the same, of all processors together
	Rounds []float64 `json:"rounds_gc_ms"`
	FillS  float64   `json:"fill_s"`
}

// weigh fills a store, and collects rounds times with nothing else in the heap.
func weigh(s store, keys, rounds int) (w weight, err error) {
	before := heap()
	began := time.Now()
	kept, empty, err := s.fill(keys)
	if err != nil {
		return w, fmt.Errorf("fill %s: %w", s.name, err)
	}
	w = weight{Store: s.name, Kind: s.kind, Keys: keys, FillS: time.Since(began).Seconds()}
	w.Bytes = math.Max(0, float64(heap())-float64(before)) / float64(keys)
	var cpu []float64
	for range rounds {
		began, used := time.Now(), cpuTime()
		runtime.GC()
		w.Rounds = append(w.Rounds, float64(time.Since(began))/1e6)
		cpu = append(cpu, float64(cpuTime()-used)/1e6)
	}
	w.GCms, w.GCCPU = median(w.Rounds), median(cpu)
	runtime.KeepAlive(kept)
	if empty != nil {
		err = empty()
	}
	return w, err
}

// heap is what is reachable.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// judgeMemory computes the figures of memory.
func judgeMemory(weights []weight) ([]verdict, error) {
	var of, by weight
	for _, w := range weights {
		switch w.Store {
		case agentMemory:
			of = w
		case mapMemory:
			by = w
		}
	}
	if of.Keys == 0 || of.Keys != by.Keys {
		return nil, fmt.Errorf("compute memory: %d keys of the agent, %d of the map", of.Keys, by.Keys)
	}
	scene := fmt.Sprintf("%d keys in use", of.Keys)
	return []verdict{
		verdict{Name: "memory per active key", Scene: scene, Of: of.Store, Yardstick: by.Store, Value: of.Bytes, Base: by.Bytes, Unit: "B/key", Most: 1.1}.judged(),
		verdict{Name: "a full GC cycle", Scene: scene, Of: of.Store, Yardstick: by.Store, Value: of.GCms, Base: by.GCms, Unit: "ms", Most: 0.1, CPURatio: share(of.GCCPU, by.GCCPU)}.judged(),
	}, nil
}
