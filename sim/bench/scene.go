package main

import (
	"fmt"
	"math/rand/v2"
)

// scene is how subjects are used: over how many keys, picked at random, and by how many
// goroutines at once.
type scene struct {
	name    string
	keys    int
	workers int
}

const manyKeys = 100_000

func scenes() []scene {
	return []scene{
		{"1 key, 1 goroutine", 1, 1},
		{"1 key, 2 goroutines", 1, 2},
		{"1 key, 64 goroutines", 1, 64},
		{"100k keys, 1 goroutine", manyKeys, 1},
		{"100k keys, 2 goroutines", manyKeys, 2},
	}
}

// dimension is the one that all keys are of. Peers have no such thing: their keys are the tenants.
const dimension = "api_calls"

// tenants are the names of n keys, 22 bytes each.
func tenants(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("tenant-%015d", i)
	}
	return names
}

// subject is something that decides, or a part of deciding that nobody can do without.
type subject struct {
	name string
	// open makes it ready to decide on keys.
	open func(keys []string) (*opened, error)
	kind kind
	// only is the number of keys that it makes sense with; 0: any.
	only int
	// free says that a decision is promised to allocate nothing.
	free bool
}

type kind string

const (
	ours  kind = "ours"
	peer  kind = "peer"
	floor kind = "floor"
)

// opened decides n times, on keys that w picks. It returns an error if it ever denied.
type opened struct {
	loop  func(w *walk, n int) error
	close func() error
}

func (o *opened) end() error {
	if o.close == nil {
		return nil
	}
	return o.close()
}

func subjects() []subject {
	return append(append(agents(), peers()...), floors()...)
}

// walk picks keys at random, cheaply: a worker has its own.
type walk struct{ x uint64 }

func newWalk() *walk { return &walk{rand.Uint64() | 1} }

func (w *walk) pick(n int) int {
	w.x ^= w.x << 13
	w.x ^= w.x >> 7
	w.x ^= w.x << 17
	return int((w.x >> 32) * uint64(n) >> 32)
}
