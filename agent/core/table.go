package core

import (
	"hash/maphash"
	"maps"
	"sync/atomic"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Table finds a key without a lock. Each shard is a map that is never changed, only
// replaced, so readers load one pointer; writers (the core alone) copy one shard of many.
type Table struct {
	seed   maphash.Seed
	shards [tableShards]atomic.Pointer[map[quota.Key]*Key]
}

const tableShards = 1024

func newTable() *Table { return &Table{seed: maphash.MakeSeed()} }

// Find returns the key's state, or nil.
func (t *Table) Find(id quota.Key) *Key {
	m := t.shard(id).Load()
	if m == nil {
		return nil
	}
	return (*m)[id]
}

func (t *Table) shard(id quota.Key) *atomic.Pointer[map[quota.Key]*Key] {
	h := maphash.String(t.seed, id.Tenant)*31 + maphash.String(t.seed, id.Dimension)
	return &t.shards[h%tableShards]
}

func (t *Table) put(k *Key) {
	shard := t.shard(k.ID)
	next := map[quota.Key]*Key{k.ID: k}
	if m := shard.Load(); m != nil {
		maps.Copy(next, *m)
		next[k.ID] = k
	}
	shard.Store(&next)
}

func (t *Table) drop(id quota.Key) {
	shard := t.shard(id)
	next := maps.Clone(*shard.Load())
	delete(next, id)
	shard.Store(&next)
}
