package core

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/gofrs/uuid/v5"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// ID is the UUID of a grant, a spend or an incarnation.
type ID = uuid.UUID

// Config is what a core is told at birth. Everything else comes in by events.
type Config struct {
	Name    string
	Region  string
	Random  io.Reader // of ids and jitter; never fails. A copy of the machine must not repeat it
	Wall    time.Time // wall clock at Start: ids go by it until the first contact
	Start   Instant   // clock reading at birth
	MaxKeys int       // keys held at most; 0: 1,000,000
}

// Core plans for an agent: what to ask, what to report, when to prefetch, what to answer
// when there is nothing to take from. It is pure: time and messages come in by its methods,
// messages go out by what they return. One goroutine at a time may call it; only Key.Take
// and Table.Find are for everyone.
type Core struct {
	Table *Table

	cfg         Config
	rng         *rand.Rand
	gen         *uuid.Gen
	incarnation ID
	life        uint16 // incarnations before this one, to tell them apart
	token       []byte

	operations  atomic.Pointer[map[string]*Operation] // of the catalogue in force
	descriptors atomic.Pointer[Descriptors]           // the same one's
	dims        map[string]*Dimension
	version     int64   // of dims
	told        int64   // version that the control plane sent; not one from before the start
	keys        []place // in the table, in an order that the events alone decide
	wakes       wakes
	shared      shared
	dirty       []*Key // the next Sync has something urgent to say of them, first come first
	lazy        []*Key // something that can wait for the next Sync, or until lazyAt
	lazyAt      Instant
	news        []*Key              // something that nobody waits for; each Sync takes some along
	leading     []*Key              // their asks for the next window wait for a Sync
	debts       map[quota.Key]int64 // units that passed before a key's first lease (DESIGN 5)
	cancels     []*pb.Cancel        // asks withdrawn, until a Sync carried them
	warming     warming             // keys that were hot before this start
	early       []*Waiter           // callers who came before the first catalogue
	earlyGroups []*Group

	syncing   *syncInFlight
	syncAt    Instant // heartbeat: the next Sync at the latest
	beat      Instant // how long before that a Sync is one, too
	retryAt   Instant // not before, after a failure
	failures  int     // in a row
	lostAt    Instant // send time of the first of them
	contact   Instant // last answer from the ledger
	synced    Instant // last of them to a Sync
	contacted bool
	rtt       time.Duration
	ledgerAt  time.Time // the ledger's clock, as of ledgerOn
	ledgerOn  Instant
	ledgerErr time.Duration // most that it was off then

	spends   []*spend
	spending []*spend
	refunds  []*pb.Cancel
	refunded int  // of refunds, carried by the Spend in flight
	spendOut bool // a Spend is in flight

	reserved      map[ID]*reservation
	reservedOrder []*reservation // oldest first

	permits      map[permitID]*permit
	permitHeap   permitHeap       // those that have not ended
	endedPermits []*permit        // oldest first
	lapsed       map[string]int64 // slots that no caller gave back, by dimension

	stopping bool
	faults   map[string]int64 // protocol faults the ledger told us of, by code
	retired  map[string]int64 // taken from leases of keys that are gone, by dimension
	leased   map[string]int64 // taken from leases, as last told
	exact    map[string]int64 // spent through the exact lane, by dimension
	unleased map[string]int64 // allowed without a lease, by dimension
	extended map[string]int64 // spent from allowances, by dimension
}

// New returns a core that has not yet been in contact.
func New(cfg Config) *Core {
	if cfg.MaxKeys == 0 {
		cfg.MaxKeys = 1_000_000
	}
	c := &Core{
		Table: newTable(), cfg: cfg, rng: rand.New(numbers{cfg.Random}),
		gen:   uuid.NewGenWithOptions(uuid.WithRandomReader(cfg.Random)),
		debts: map[quota.Key]int64{}, reserved: map[ID]*reservation{}, permits: map[permitID]*permit{}, lapsed: map[string]int64{}, contact: cfg.Start, synced: cfg.Start, syncAt: cfg.Start, lazyAt: never,
		rtt: 20 * time.Millisecond, ledgerAt: cfg.Wall, ledgerOn: cfg.Start, ledgerErr: unknownErr,
		faults: map[string]int64{}, retired: map[string]int64{}, exact: map[string]int64{}, unleased: map[string]int64{}, extended: map[string]int64{},
	}
	c.incarnation = c.newID(cfg.Start)
	return c
}

// numbers reads a stream as whole numbers: jitter has no other source than ids have.
type numbers struct{ io.Reader }

func (n numbers) Uint64() uint64 {
	var b [8]byte
	_, _ = io.ReadFull(n.Reader, b[:])
	return binary.LittleEndian.Uint64(b[:])
}

// newID is a UUIDv7 by the estimate of ledger time.
func (c *Core) newID(now Instant) ID {
	id, err := c.gen.NewV7AtTime(c.LedgerTime(now))
	if err != nil { // only if the random source fails, and ours cannot
		panic(err)
	}
	return id
}

// NewID is an id for a record of the ledger that the core does not keep.
func (c *Core) NewID(now Instant) ID { return c.newID(now) }

// LedgerTime estimates the ledger's clock from the last reply (the wall clock at birth before
// the first), so that no wall clock is trusted after that (DESIGN 4.5).
func (c *Core) LedgerTime(now Instant) time.Time { return c.ledgerAt.Add(now - c.ledgerOn) }

// Incarnation is this start of the agent.
func (c *Core) Incarnation() ID { return c.incarnation }

// PolicyVersion is the version of the catalogue in force here; 0 before the first contact.
func (c *Core) PolicyVersion() int64 { return c.version }

// Failing reports that the last Sync failed: until the next success answers that need the
// ledger are an outage.
func (c *Core) Failing() bool { return c.failures > 0 }

// Stopping reports that Stop was called.
func (c *Core) Stopping() bool { return c.stopping }

// cutOff reports that nobody can say what the ledger would: the last attempt failed, or one
// is on its way for so long that it looks like failing. A caller whose wait ends then was not
// denied.
func (c *Core) cutOff(now Instant) bool {
	return c.Failing() || c.syncing != nil && now-c.syncing.sent > max(8*c.rtt, 250*time.Millisecond)
}

// failed notes an attempt that failed. To have been silent for want of anything to say is not
// to have been cut off: without contact counts from a heartbeat before the first failure.
func (c *Core) failed(now, sent Instant) {
	if c.failures == 0 {
		c.lostAt = sent
	}
	c.failures++
	c.retryAt = now + c.backoff()
}

// Contact is when the ledger last answered, and whether it ever did.
func (c *Core) Contact() (Instant, bool) { return c.contact, c.contacted }

// Dimension returns a dimension of the catalogue, or one that is derived from it.
func (c *Core) Dimension(name string) (*Dimension, bool) {
	d := c.dimension(name)
	return d, d != nil
}

func (c *Core) newKey(now Instant, id quota.Key, dim *Dimension) *Key {
	k := newKey(id, dim, now)
	c.syncAt = min(c.syncAt, now+c.Jitter(max(dim.beat(), minHeartbeat)))
	k.index = int32(len(c.keys))
	c.keys = append(c.keys, c.Table.put(k))
	return k
}

// each calls what for every key, until that says no. Nothing may come or go meanwhile.
func (c *Core) each(what func(k *Key) bool) {
	for _, p := range c.keys {
		if !what(c.Table.keys.at(p)) {
			return
		}
	}
}

// forget drops a key that holds nothing and owes nothing.
func (c *Core) forget(k *Key) {
	c.retired[quota.BaseDimension(k.Dimension())] += k.total()
	c.dropWake(k)
	last := c.keys[len(c.keys)-1]
	c.Table.keys.at(last).index = k.index
	c.keys[k.index] = last
	c.keys = c.keys[:len(c.keys)-1]
	k.index = gone
	c.Table.drop(k)
}

// gone is the index of a key that was forgotten.
const gone = -1

// known reports that a key is still held.
func (k *Key) known() bool { return k.index != gone }

// mark puts a key in line for the next Sync.
func (c *Core) mark(k *Key) {
	if !k.dirty && k.known() {
		k.dirty = true
		c.dirty = append(c.dirty, k)
	}
}

// Jitter spreads d over [0.75 d, 1.25 d), so that agents started together drift apart.
func (c *Core) Jitter(d time.Duration) time.Duration {
	d = max(d, 0)
	return d*3/4 + time.Duration(c.rng.Int64N(int64(d/2)+1))
}
