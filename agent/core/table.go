package core

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Table finds a key without a lock, and without an allocation for each that comes or goes. It is
// a hash table with open addressing and linear probing, in shards so that none is long in growing.
// Any goroutine may search it; the core alone changes it. A search beside a change may miss a key
// that is being put, never find a wrong one: its caller then asks the core.
//
// The slots have no pointers, so that the garbage collector reads none of them: a slot says where in
// the directory its key stands.
type Table struct {
	seed   maphash.Seed
	shards [tableShards]shard
	keys   directory
}

const tableShards = 256

type shard struct {
	slots atomic.Pointer[[]atomic.Uint64] // as many as a power of two; nil: no key yet
	used  int                             // of the slots, also by keys that went; the core's
	live  int                             // by keys; the core's
}

// A slot has in its upper half what its key's id hashes to, never 0, and in its lower one the key's
// place in the directory. 0 is a slot that was never used. The slot of a key that went keeps its hash,
// for searches pass over it.
const (
	placeBits = 32
	placeMask = 1<<placeBits - 1
)

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
		s := all[i&uint64(len(all)-1)].Load()
		if s>>placeBits == h {
			if k := t.keys.at(place(s)); k != nil && k.is(id) {
				return k
			}
		} else if s == 0 {
			return nil
		}
	}
}

// hash is of 32 bits, not 0.
func (t *Table) hash(id quota.Key) uint64 {
	return max(1, (maphash.String(t.seed, id.Tenant)*31+maphash.String(t.seed, id.Dimension))>>32)
}

// shard is chosen by the bits of a hash that choose no slot.
func (t *Table) shard(hash uint64) *shard { return &t.shards[hash>>24] }

func (t *Table) put(k *Key) place {
	h := t.hash(k.ID())
	sh := t.shard(h)
	slots := sh.slots.Load()
	if slots == nil || sh.used >= len(*slots)/4*3 {
		slots = sh.grow()
	}
	sh.used++
	sh.live++
	at := t.keys.put(k)
	settle(*slots, h<<placeBits|uint64(at))
	return at
}

// settle puts a slot into the first place from its own on that was never used. One that was is not
// used again: a search that reads it meanwhile might look for its key behind it.
func settle(slots []atomic.Uint64, s uint64) {
	for i := s >> placeBits; ; i++ {
		if at := &slots[i&uint64(len(slots)-1)]; at.Load() == 0 {
			at.Store(s)
			return
		}
	}
}

// grow moves the keys into slots of which they fill three eighths at most, and forgets those
// that went. Searches under way end in the old ones.
func (s *shard) grow() *[]atomic.Uint64 {
	n := minSlots
	for n*3 < (s.live+1)*8 {
		n *= 2
	}
	next := make([]atomic.Uint64, n)
	if old := s.slots.Load(); old != nil {
		for i := range *old {
			if o := (*old)[i].Load(); o&placeMask != 0 {
				settle(next, o)
			}
		}
	}
	s.used = s.live
	s.slots.Store(&next)
	return &next
}

const minSlots = 8

func (t *Table) drop(k *Key) {
	h := t.hash(k.ID())
	sh := t.shard(h)
	all := *sh.slots.Load()
	for i := h; ; i++ {
		at := &all[i&uint64(len(all)-1)]
		s := at.Load()
		if s == 0 {
			return
		}
		if s>>placeBits == h && t.keys.at(place(s)) == k {
			at.Store(h << placeBits)
			t.keys.drop(place(s))
			sh.live--
			return
		}
	}
}

// directory has the keys in places that are numbered from 1, in parts of which each is as large as all
// before it together. Any goroutine may look up a place that a slot has: its part was made before.
type directory struct {
	parts [24][]atomic.Pointer[Key]
	used  place   // also free ones; the core's
	free  []place // of keys that went; the core's
}

// place is that of a key in the directory; 0 is none.
type place uint32

// firstPart is how many places the first part has, as a power of two.
const firstPart = 9

// part is which part has a place, and where in it.
func (p place) part() (part int, at place) {
	part = bits.Len32(uint32(p) >> firstPart)
	return part, p & (sizeOf(part) - 1)
}

func sizeOf(part int) place { return 1 << (firstPart - 1 + max(part, 1)) }

// at is the key at a place, or nil.
func (d *directory) at(p place) *Key {
	if p == 0 {
		return nil
	}
	part, at := p.part()
	return d.parts[part][at].Load()
}

// put gives a key a place.
func (d *directory) put(k *Key) (p place) {
	if n := len(d.free); n > 0 {
		p, d.free = d.free[n-1], d.free[:n-1]
	} else {
		d.used++
		p = d.used
	}
	part, at := p.part()
	if d.parts[part] == nil {
		d.parts[part] = make([]atomic.Pointer[Key], sizeOf(part))
	}
	d.parts[part][at].Store(k)
	return p
}

func (d *directory) drop(p place) {
	part, at := p.part()
	d.parts[part][at].Store(nil)
	d.free = append(d.free, p)
}
