package core

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Table finds a key without a lock, and without an allocation for each that comes or goes. It is
// a hash table with open addressing and linear probing, in shards so that none is long in growing.
// Any goroutine may search it; the core alone changes it. A search beside a change may miss a key
// that is being put, never find a wrong one: its caller then asks the core.
type Table struct {
	seed   maphash.Seed
	shards [tableShards]shard
}

const tableShards = 256

type shard struct {
	slots atomic.Pointer[[]slot] // as many as a power of two; nil: no key yet
	used  int                    // of the slots, also by keys that went; the core's
	live  int                    // by keys; the core's
}

// slot has a key and what its id hashes to, never 0; 0 is a slot that was never used. The slot of
// a key that went keeps its hash, for searches pass over it.
type slot struct {
	hash atomic.Uint64
	key  atomic.Pointer[Key]
}

func newTable() *Table { return &Table{seed: maphash.MakeSeed()} }

// Find returns the key's state, or nil.
func (t *Table) Find(id quota.Key) *Key {
	h := t.hash(id)
	slots := t.shard(h).slots.Load()
	if slots == nil {
		return nil
	}
	all := *slots
	for i := h; ; i++ {
		s := &all[i&uint64(len(all)-1)]
		switch s.hash.Load() {
		case h:
			if k := s.key.Load(); k != nil && k.ID == id {
				return k
			}
		case 0:
			return nil
		}
	}
}

func (t *Table) hash(id quota.Key) uint64 {
	return max(1, maphash.String(t.seed, id.Tenant)*31+maphash.String(t.seed, id.Dimension))
}

// shard is chosen by the bits of a hash that choose no slot.
func (t *Table) shard(hash uint64) *shard { return &t.shards[hash>>56] }

func (t *Table) put(k *Key) {
	h := t.hash(k.ID)
	sh := t.shard(h)
	slots := sh.slots.Load()
	if slots == nil || sh.used >= len(*slots)/4*3 {
		slots = sh.grow()
	}
	sh.used++
	sh.live++
	place(*slots, h, k)
}

// place puts a key into the first slot from its own on that was never used. One that was is not
// used again: a search that reads it meanwhile would have the hash of one key and the other.
func place(slots []slot, hash uint64, k *Key) {
	for i := hash; ; i++ {
		s := &slots[i&uint64(len(slots)-1)]
		if s.hash.Load() == 0 {
			s.key.Store(k)
			s.hash.Store(hash)
			return
		}
	}
}

// grow moves the keys into slots of which they fill three eighths at most, and forgets those
// that went. Searches under way end in the old ones.
func (s *shard) grow() *[]slot {
	n := minSlots
	for n*3 < (s.live+1)*8 {
		n *= 2
	}
	next := make([]slot, n)
	if old := s.slots.Load(); old != nil {
		for i := range *old {
			if o := &(*old)[i]; o.key.Load() != nil {
				place(next, o.hash.Load(), o.key.Load())
			}
		}
	}
	s.used = s.live
	s.slots.Store(&next)
	return &next
}

const minSlots = 8

func (t *Table) drop(id quota.Key) {
	h := t.hash(id)
	sh := t.shard(h)
	all := *sh.slots.Load()
	for i := h; ; i++ {
		switch s := &all[i&uint64(len(all)-1)]; s.hash.Load() {
		case h:
			if k := s.key.Load(); k != nil && k.ID == id {
				s.key.Store(nil)
				sh.live--
				return
			}
		case 0:
			return
		}
	}
}
