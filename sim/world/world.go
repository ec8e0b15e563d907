package world

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/gofrs/uuid/v5"

	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/controlplane"
	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
	"github.com/quotalease/quotalease/sim/oracle"
)

// epoch is when every world begins: the minute ends while it is busy.
var epoch = time.Date(2026, 11, 29, 12, 0, 52, 0, time.UTC)

// World is one history in the making. One goroutine runs it.
type World struct {
	seed   uint64
	setup  Setup
	now    time.Duration // true time
	queue  queue
	events int
	digest uint64
	out    io.Writer // of a history for people; nil: none
	lines  int

	oracle   *oracle.Oracle
	database *database
	log      *policy.MemoryLog
	version  int64 // of the policy in force
	terms    oracle.Terms
	latest   time.Time // that the ledger's clock ever was, as accounts remember it

	replicas []*replica
	places   []*place
	running  []*node                   // every process, in the order of their starts
	twins    map[int]*node             // copies at large, by place
	copies   map[int]bool              // places where a copy will be wanted
	askers   map[core.ID]oracle.Holder // of asks of agents with a copy at large
	holders  oracle.Holder
	cuts     []cut
	ids      *uuid.Gen // of operators
	working  int       // runs on slots, at this moment
	calm     bool
	fired    [kinds]int
}

func newWorld(seed uint64, setup Setup, copies map[int]bool, out io.Writer) *World {
	w := &World{seed: seed, setup: setup, out: out, digest: 14695981039346656037, oracle: oracle.New(maxDrift), twins: map[int]*node{}, askers: map[core.ID]oracle.Holder{}, copies: copies,
		ids: uuid.NewGenWithOptions(uuid.WithRandomReader(seeded(seed, 7)))}
	w.database = newDatabase(w)
	w.database.SetRetention(setup.Retention)
	w.log = policy.NewMemoryLog(w.database.now)
	w.apply(0)
	rng := rand.New(rand.NewPCG(seed, 6))
	for i := range setup.Replicas {
		r := &replica{world: w, place: i, offset: time.Duration(rng.IntN(1000)-500) * time.Millisecond}
		w.replicas = append(w.replicas, r)
		r.start()
		r.loops()
	}
	for i := range setup.Agents {
		p := &place{
			world: w, index: i, rng: rand.New(rand.NewPCG(seed, 16+uint64(i))),
			distance: time.Duration(100+rng.IntN(4000)) * time.Microsecond,
			boot:     time.Duration(rng.Int64N(int64(time.Hour))), drift: rng.Int64N(2*maxDrift+1) - maxDrift,
			wall: time.Duration(rng.IntN(3)-1) * time.Minute,
		}
		if p.drift != 0 {
			w.fire(Drifted)
		}
		w.places = append(w.places, p)
		p.start()
	}
	w.boundaries()
	return w
}

// maxDrift is how far a clock may be from true time's pace, in ppm (DESIGN 4.3).
const maxDrift = 500

// boundaries counts the minute's end.
func (w *World) boundaries() {
	end := epoch.Truncate(time.Minute).Add(time.Minute)
	w.after(end.Sub(epoch), func() {
		w.fire(Boundary)
		w.say("* the minute ends")
	})
}

func (w *World) after(d time.Duration, do func()) { w.queue.push(w.now+max(d, 0), do) }

// runUntil lets everything happen that is due by then.
func (w *World) runUntil(end time.Duration) {
	for w.oracle.Fault() == nil {
		at, ok := w.queue.next()
		if !ok || at > end {
			break
		}
		e := w.queue.pop()
		w.now = max(w.now, e.at)
		w.events++
		w.mix(uint64(w.now))
		e.do()
	}
	w.now = max(w.now, end)
}

func (w *World) moment() oracle.Moment { return oracle.Moment{At: w.now, Ledger: w.database.now()} }

// fire counts that a kind of trouble happened.
func (w *World) fire(k Kind) { w.fired[k]++ }

func (w *World) broken(p oracle.Promise, format string, args ...any) {
	w.oracle.Break(w.now, p, format, args...)
}

// expectOutage takes an error for an outage, or for a broken promise: nothing that an honest
// agent or operator sends is refused otherwise.
func (w *World) expectOutage(err error, doing string) {
	if err != nil && !errors.Is(err, controlplane.ErrUnavailable) && !errors.Is(err, ledger.ErrStalePolicy) {
		w.broken(oracle.Works, "%s: %v", doing, err)
	}
}

// committed passes on what the ledger wrote.
func (w *World) committed(c ledger.Changes) {
	for i := range c.NewGrants {
		g := &c.NewGrants[i]
		w.mix(binary.BigEndian.Uint64(g.ID[8:]), uint64(g.Amount))
		if !g.StartsAt.IsZero() {
			w.fire(Ahead)
		}
		if g.Drip > 0 {
			w.fire(Trickle)
		}
		if w.out != nil {
			w.say("ledger: %s", grantWords(*g))
		}
	}
	for i := range c.Grants {
		g := &c.Grants[i]
		w.mix(binary.BigEndian.Uint64(g.ID[8:]), uint64(g.Taken), uint64(g.State))
		if w.out != nil {
			w.say("ledger: %s", grantWords(*g))
		}
	}
	for _, s := range c.Statements {
		if s.Revision > 1 {
			w.fire(Amended)
		}
	}
	if len(c.Folded) > 0 {
		w.fire(Folded)
	}
	for i := range c.Accounts {
		if at := c.Accounts[i].Clock; at.After(w.latest) {
			w.latest = at
		}
	}
	m := w.moment()
	m.Suspect = w.database.suspect
	w.oracle.Commit(m, c)
}

// told looks at what a Sync is answered.
func (w *World) told(n *node, req *pb.SyncRequest, reply *pb.SyncReply) {
	w.decided(reply.GetDecisions(), !n.is(req.GetHello()), req.GetAsks(), nil)
	for _, c := range req.GetCancels() {
		if _, known := w.terms(keyOf(c.GetKey()), quota.Window{}); !known { // no record tells what comes later
			w.oracle.Refused(uuid.FromBytesOrNil(c.GetGrantId()))
		}
	}
	for i, d := range reply.GetRenewals() {
		switch f := d.GetFault(); {
		case f == nil:
			w.fire(Renewed)
		case f.GetCode() == "unknown_dimension" || f.GetCode() == "unknown_tenant":
		default:
			w.broken(oracle.Works, "a renewal of %s of %s is refused: %s %s", n.name, shortBytes(req.GetRenewals()[i].GetGrantId()), f.GetCode(), f.GetField())
		}
	}
	for i, r := range reply.GetResults() {
		f := r.GetFault()
		if f == nil || f.GetCode() == "report_step" {
			continue
		}
		report := req.GetReports()[i]
		switch code := f.GetCode(); {
		case code == "unknown_dimension" || code == "unknown_tenant", w.tooOld(f), code == "invalid" && f.GetField() == "window":
			w.oracle.Forgotten(accountOf(report))
			n.displaced[keyOf(report.GetKey())] = true
		default:
			w.broken(oracle.Works, "a report of %s on %s is refused: %s %s", n.name, shortBytes(report.GetGrantId()), code, f.GetField())
		}
	}
}

// decided looks at decisions on their way to an agent. A copy that meanwhile went on under another
// incarnation may have taken back by the new one what it asked by the old. An ask for a window of
// its own may come before or after its time; nothing else is refused for its window.
func (w *World) decided(list []*pb.Decision, renamed bool, asks []*pb.Ask, items []*pb.SpendItem) {
	m := w.moment()
	for i, d := range list {
		switch f := d.GetFault(); {
		case f == nil && d.GetAmount() == 0 && groupRefused(list, items, i):
			w.oracle.Refused(uuid.FromBytesOrNil(d.GetGrantId()))
		case f == nil:
			w.oracle.Answered(m, oracle.Answer{
				ID: uuid.FromBytesOrNil(d.GetGrantId()), Amount: d.GetAmount(), Reason: quota.Reason(d.GetReason()),
				TTL: time.Duration(d.GetTtlUs()) * time.Microsecond, Generation: d.GetGeneration(),
			})
		case f.GetCode() == "terms_mismatch" && (renamed || w.oracle.IsShared(uuid.FromBytesOrNil(d.GetGrantId()))):
			// It was taken back under another incarnation, before it came. Nobody has it.
		case f.GetCode() == "unknown_dimension" || f.GetCode() == "unknown_tenant", w.tooOld(f):
			w.oracle.Refused(uuid.FromBytesOrNil(d.GetGrantId()))
		case f.GetCode() == "invalid" && f.GetField() == "window" && i < len(asks) && asks[i].GetWindow() != nil:
			w.oracle.Refused(uuid.FromBytesOrNil(d.GetGrantId()))
		default:
			w.broken(oracle.Works, "a request for %s is refused: %s %s", shortBytes(d.GetGrantId()), f.GetCode(), f.GetField())
		}
	}
}

// groupRefused reports an item that was not decided since policy does not admit another one of
// its group.
func groupRefused(list []*pb.Decision, items []*pb.SpendItem, i int) bool {
	if i >= len(items) || items[i].GetGroup() == 0 {
		return false
	}
	for j, x := range items {
		if x.GetGroup() == items[i].GetGroup() && list[j].GetFault() != nil {
			return true
		}
	}
	return false
}

// tooOld reports an id that lay around for longer than the ledger remembers.
func (w *World) tooOld(f *pb.Fault) bool {
	return f.GetCode() == "too_old" && w.setup.Retention == shortRetention
}

// forgotten reports an id that the ledger remembers no more, by its clock.
func (w *World) forgotten(id core.ID) bool {
	at, err := uuid.TimestampFromV7(id)
	if err != nil {
		return false
	}
	made, err := at.Time()
	return err == nil && w.setup.Retention == shortRetention && made.Before(w.database.now().Add(-shortRetention))
}

func accountOf(r *pb.Report) ledger.AccountID {
	return ledger.AccountID{Key: keyOf(r.GetKey()), Window: windowOf(r.GetWindow())}
}

func keyOf(k *pb.Key) quota.Key { return quota.Key{Tenant: k.GetTenant(), Dimension: k.GetDimension()} }

func windowOf(w *pb.Window) quota.Window {
	if w.GetStartUs() == 0 && w.GetEndUs() == 0 {
		return quota.Window{}
	}
	return quota.NewWindow(time.UnixMicro(w.GetStartUs()), time.UnixMicro(w.GetEndUs()))
}

// mix adds what happened to the history's digest.
func (w *World) mix(values ...uint64) {
	for _, v := range values {
		w.digest = (w.digest ^ v) * 1099511628211
	}
}

// say writes a line of the history.
func (w *World) say(format string, args ...any) {
	if w.out == nil {
		return
	}
	w.lines++
	fmt.Fprintf(w.out, "%5d  %10.6fs  %s\n", w.lines, w.now.Seconds(), fmt.Sprintf(format, args...))
}

// sayOf is say of what a process does, unless it is a copy that nobody sees yet.
func (w *World) sayOf(n *node, format string, args ...any) {
	if !n.asleep {
		w.say(format, args...)
	}
}

// stream is a source of randomness from numbers.
type stream struct{ *rand.ChaCha8 }

func seeded(numbers ...uint64) *stream {
	s := &stream{}
	s.reseed(numbers...)
	return s
}

func (s *stream) reseed(numbers ...uint64) {
	var seed [32]byte
	for i, n := range numbers {
		binary.LittleEndian.PutUint64(seed[8*i:], n)
	}
	s.ChaCha8 = rand.NewChaCha8(seed)
}
