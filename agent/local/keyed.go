package local

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// state is what is kept of one key.
type state interface {
	reconfigure(now time.Duration, l *Limit)
	rest(now time.Duration) bool
}

// keyed holds the states of one limit's keys, in shards, each under its own lock.
//
// The number of keys is capped. A key that is in no table is as one that was not used since the
// limit began, so a key may only be dropped when nothing it used counts any more: dropped
// earlier, it would be refilled, and who has many names could refill at will. So when the table
// is full, keys at rest make way, and if there are none, the newcomer is denied. That costs
// newcomers their service while an attack lasts; every other choice (drop the oldest, let
// newcomers pass, let them share one key) costs the limit its meaning.
type keyed[S state] struct {
	limit  atomic.Pointer[Limit]
	count  atomic.Int64
	seed   maphash.Seed
	shards [shards]shard[S]

	mu    sync.Mutex
	fresh S // an unused key, under seen
	seen  *Limit
	copy  func(S) S
}

const shards = 64

// shard is a part of the keys, with the longest unused one first.
type shard[S state] struct {
	mu          sync.Mutex
	byKey       map[string]*entry[S]
	first, last *entry[S]
	_           [64]byte // locks of their own cache lines
}

type entry[S state] struct {
	key        string
	shard      *shard[S]
	state      S
	limit      *Limit // which the state knows
	used       time.Duration
	prev, next *entry[S]
}

func newKeyed[S state](l *Limit, fresh S, clone func(S) S) *keyed[S] {
	t := &keyed[S]{seed: maphash.MakeSeed(), fresh: fresh, seen: l, copy: clone}
	t.limit.Store(l)
	return t
}

// lock returns the state of a key, in use from now on and locked, or nil if there are too many.
// The caller unlocks its shard.
func (t *keyed[S]) lock(now time.Duration, key []byte) *entry[S] {
	s := &t.shards[maphash.Bytes(t.seed, key)%shards]
	s.mu.Lock()
	l := t.limit.Load() // under the lock, so that no key goes back to an older one
	e, ok := s.byKey[string(key)]
	if !ok {
		if e = t.add(now, s, key, l); e == nil {
			s.mu.Unlock()
			return nil
		}
	}
	if e.limit != l {
		e.state.reconfigure(now, l)
		e.limit = l
	}
	if now > e.used || !ok {
		e.used = max(now, e.used)
		s.toBack(e)
	}
	return e
}

// relock locks an entry that was had before. It may have been dropped since, at rest.
func (t *keyed[S]) relock(e *entry[S]) { e.shard.mu.Lock() }

// add makes room for a key and adds it, or returns nil.
func (t *keyed[S]) add(now time.Duration, s *shard[S], key []byte, l *Limit) *entry[S] {
	t.drop(now, s, 2, func(e *entry[S]) bool { return now-e.used >= l.Idle })
	for t.count.Add(1) > l.MaxKeys {
		t.count.Add(-1)
		if t.drop(now, s, 8, func(*entry[S]) bool { return true }) == 0 {
			return nil
		}
	}
	state, l := t.unused(now)
	e := &entry[S]{key: string(key), shard: s, state: state, limit: l, used: now}
	if s.byKey == nil {
		s.byKey = map[string]*entry[S]{}
	}
	s.byKey[e.key] = e
	s.push(e)
	return e
}

// unused returns the state of a key that nobody used, and the limit that it knows.
func (t *keyed[S]) unused(now time.Duration) (S, *Limit) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.limit.Load()
	if t.seen != l {
		t.fresh.reconfigure(now, l)
		t.seen = l
	}
	return t.copy(t.fresh), l
}

// look shows the state of a key, which does not come into use by it.
func (t *keyed[S]) look(now time.Duration, key []byte, show func(S)) *Limit {
	s := &t.shards[maphash.Bytes(t.seed, key)%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.byKey[string(key)]
	if !ok {
		state, l := t.unused(now)
		show(state)
		return l
	}
	if l := t.limit.Load(); e.limit != l {
		e.state.reconfigure(now, l)
		e.limit = l
	}
	show(e.state)
	return e.limit
}

// drop looks at the few longest unused keys of a shard and drops those that may go and are at
// rest. The others are looked at again when it is their turn.
func (t *keyed[S]) drop(now time.Duration, s *shard[S], most int, may func(*entry[S]) bool) (dropped int) {
	for range most {
		e := s.first
		if e == nil || !may(e) {
			return dropped
		}
		if !e.state.rest(now) {
			s.toBack(e)
			continue
		}
		s.unlink(e)
		delete(s.byKey, e.key)
		t.count.Add(-1)
		dropped++
	}
	return dropped
}

// sweep drops what was idle for long enough, in every shard.
func (t *keyed[S]) sweep(now time.Duration) {
	l := t.limit.Load()
	for i := range t.shards {
		s := &t.shards[i]
		for more := true; more; { // in pieces, so that callers get their turns
			s.mu.Lock()
			more = t.drop(now, s, 256, func(e *entry[S]) bool { return now-e.used >= l.Idle }) == 256
			s.mu.Unlock()
		}
	}
}

// apply changes the limit. Keys learn of it when they are next used, or, eagerly, now.
func (t *keyed[S]) apply(now time.Duration, l *Limit, eagerly bool) {
	t.limit.Store(l)
	for i := range t.shards {
		s := &t.shards[i]
		if !eagerly {
			return
		}
		s.mu.Lock()
		for e := s.first; e != nil; e = e.next {
			e.state.reconfigure(now, l)
			e.limit = l
		}
		s.mu.Unlock()
	}
}

// each looks at every key.
func (t *keyed[S]) each(look func(S)) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for e := s.first; e != nil; e = e.next {
			look(e.state)
		}
		s.mu.Unlock()
	}
}

func (s *shard[S]) push(e *entry[S]) {
	e.prev, e.next = s.last, nil
	if s.last == nil {
		s.first = e
	} else {
		s.last.next = e
	}
	s.last = e
}

func (s *shard[S]) unlink(e *entry[S]) {
	if e.prev == nil {
		s.first = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		s.last = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.prev, e.next = nil, nil
}

func (s *shard[S]) toBack(e *entry[S]) {
	if s.last != e {
		s.unlink(e)
		s.push(e)
	}
}
