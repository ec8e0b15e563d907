package main

import (
	"context"
	"errors"
	"hash/maphash"
	"sync"
	"time"

	"github.com/go-chi/httprate"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	uber "go.uber.org/ratelimit"
	"golang.org/x/time/rate"
)

var errDenied = errors.New("take: denied")

// peers are limiters of this process from the Go registry, each set so that it never denies. Those
// that know no keys are behind a sharded map, as their users write it; where there is one key only
// they go without.
func peers() []subject {
	return []subject{
		{name: timeRate, kind: peer, free: true, open: openTimeRate},
		{name: "uber ratelimit", kind: peer, open: openUber},
		{name: "throttled GCRA, memstore", kind: peer, open: func(keys []string) (*opened, error) { return openThrottled(keys, 0) }},
		{name: "throttled GCRA, LRU memstore", kind: peer, open: func(keys []string) (*opened, error) { return openThrottled(keys, 2*len(keys)) }},
		{name: "go-limiter memorystore", kind: peer, open: openGoLimiter},
		{name: "httprate local counter", kind: peer, open: openHTTPRate},
	}
}

const timeRate = "x/time/rate AllowN"

// named decides on keys by their names. Each is in use before anything is measured. The indirect
// call is 1 to 2 ns.
func named(keys []string, end func() error, take func(key string) error) (*opened, error) {
	for _, k := range keys {
		if err := take(k); err != nil {
			return nil, err
		}
	}
	return &opened{close: end, loop: func(w *walk, n int) error {
		for range n {
			if err := take(keys[w.pick(len(keys))]); err != nil {
				return err
			}
		}
		return nil
	}}, nil
}

func openTimeRate(keys []string) (*opened, error) {
	made := func() *rate.Limiter { return rate.NewLimiter(1e9, 1<<30) }
	if len(keys) == 1 {
		l := made()
		return &opened{loop: func(_ *walk, n int) error {
			for range n {
				if !l.AllowN(time.Now(), 1) {
					return errDenied
				}
			}
			return nil
		}}, nil
	}
	m := newSharded(keys, made)
	return &opened{loop: func(w *walk, n int) error {
		for range n {
			if !m.find(keys[w.pick(len(keys))]).AllowN(time.Now(), 1) {
				return errDenied
			}
		}
		return nil
	}}, nil
}

// openUber sets the highest rate there is, one permission each nanosecond: Take never waits.
func openUber(keys []string) (*opened, error) {
	made := func() uber.Limiter { return uber.New(1e9) }
	if len(keys) == 1 {
		l := made()
		return &opened{loop: func(_ *walk, n int) error {
			for range n {
				l.Take()
			}
			return nil
		}}, nil
	}
	m := newSharded(keys, made)
	return &opened{loop: func(w *walk, n int) error {
		for range n {
			m.find(keys[w.pick(len(keys))]).Take()
		}
		return nil
	}}, nil
}

// openThrottled lets a take try again for as long as others are faster: its default of ten
// attempts fails callers of a contended key.
func openThrottled(keys []string, maxKeys int) (*opened, error) {
	store, err := memstore.NewCtx(maxKeys)
	if err != nil {
		return nil, err
	}
	l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerSec(1e9), MaxBurst: 1e9})
	if err != nil {
		return nil, err
	}
	l.SetMaxCASAttemptsLimit(1 << 30)
	ctx := context.Background()
	return named(keys, nil, func(key string) error {
		if over, _, err := l.RateLimitCtx(ctx, key, 1); err != nil || over {
			return errors.Join(err, errDenied)
		}
		return nil
	})
}

func openGoLimiter(keys []string) (*opened, error) {
	s, err := memorystore.New(&memorystore.Config{Tokens: 1 << 60, Interval: time.Hour, InitialAlloc: len(keys)})
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	return named(keys, func() error { return s.Close(ctx) }, func(key string) error {
		if _, _, _, ok, err := s.Take(ctx, key); err != nil || !ok {
			return errors.Join(err, errDenied)
		}
		return nil
	})
}

// openHTTPRate is what its middleware does with its counter, without HTTP.
func openHTTPRate(keys []string) (*opened, error) {
	const window, limit = time.Hour, 1 << 60
	c := httprate.NewLocalLimitCounter(window)
	c.Config(limit, window)
	return named(keys, nil, func(key string) error {
		now := time.Now().UTC()
		current := now.Truncate(window)
		curr, prev, err := c.Get(key, current, current.Add(-window))
		if err != nil {
			return err
		}
		if float64(prev)*float64(window-now.Sub(current))/float64(window)+float64(curr) > limit {
			return errDenied
		}
		return c.IncrementBy(key, current, 1)
	})
}

// sharded is a map with a lock for each part of it.
type sharded[T any] struct {
	seed   maphash.Seed
	shards [256]struct {
		sync.RWMutex
		m map[string]T
		_ [32]byte
	}
}

func newSharded[T any](keys []string, made func() T) *sharded[T] {
	s := &sharded[T]{seed: maphash.MakeSeed()}
	for i := range s.shards {
		s.shards[i].m = map[string]T{}
	}
	for _, k := range keys {
		s.shards[maphash.String(s.seed, k)%256].m[k] = made()
	}
	return s
}

func (s *sharded[T]) find(key string) T {
	p := &s.shards[maphash.String(s.seed, key)%256]
	p.RLock()
	v := p.m[key]
	p.RUnlock()
	return v
}
