package core

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"google.golang.org/protobuf/proto"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// driver plays time, callers and a small ledger against one core. The ledger grants what is
// asked up to a cap and the headroom, and settles what is reported; it is a stand-in whose
// every answer the test can see, not a copy of the real rules.
type driver struct {
	t    *testing.T
	core *Core
	now  Instant
	rtt  time.Duration

	limit, cap int64
	grants     map[ID]*fakeGrant
	generation int64
	token      int
	catalogue  *pb.Catalogue
	window     *pb.Window
	every      time.Duration // windows of that length follow each other; 0: there is one
	reason     string        // when set, asks are denied with it
}

type fakeGrant struct {
	window                  int64 // its start
	amount, taken, returned int64
	refunded                int64
	final                   bool
	ttl                     time.Duration
	asks                    int
}

var epoch = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

var exports = quota.Key{Tenant: "acme", Dimension: "report_export"}

func hardDay() *pb.Dimension {
	return &pb.Dimension{
		Name: "report_export", Kind: "period", Class: "hard", Limit: 1000,
		Period: &pb.Period{Every: "day", Timezone: "UTC"}, TtlUs: (10 * time.Second).Microseconds(),
		LowWatermarkPpm: 200_000, Outage: &pb.Outage{Mode: "closed", AfterUs: (10 * time.Second).Microseconds()},
		Cold: &pb.Cold{WaitUs: 10_000, Then: "deny"},
	}
}

func newDriver(t *testing.T, dims ...*pb.Dimension) *driver {
	t.Helper()
	if len(dims) == 0 {
		dims = []*pb.Dimension{hardDay()}
	}
	day := quota.NewWindow(epoch.Truncate(24*time.Hour), epoch.Truncate(24*time.Hour).Add(24*time.Hour))
	return &driver{
		t: t, now: time.Hour, rtt: 4 * time.Millisecond, limit: 1000, cap: 100, generation: 1,
		core:      New(Config{Name: "a", Region: "eu", Random: seeded(1), Wall: epoch, Start: time.Hour}),
		grants:    map[ID]*fakeGrant{},
		catalogue: &pb.Catalogue{PolicyVersion: 7, Dimensions: dims},
		window:    &pb.Window{StartUs: day.Start.UnixMicro(), EndUs: day.End.UnixMicro()},
	}
}

func (d *driver) advance(by time.Duration) {
	d.now += by
	d.core.Tick(d.now)
}

// ledgerNow is the stand-in's clock: a fixed offset from the agent's.
func (d *driver) ledgerNow() time.Time { return epoch.Add(d.now - time.Hour) }

// take is one caller: the fast way, then the core. pending is set when no answer came yet.
func (d *driver) take(key quota.Key, cost int64) (got *Outcome, w *Waiter) {
	d.t.Helper()
	if k := d.core.Table.Find(key); k != nil {
		if t := k.Take(d.now, cost); t.Allowed || t.Denied {
			if t.Low {
				d.core.Low(d.now, k)
			}
			return &Outcome{Taken: t}, nil
		}
	}
	got = nil
	w = &Waiter{Key: key, Cost: cost}
	w.Done = func(o Outcome) { got = &o }
	d.core.Want(d.now, w)
	if got != nil {
		return got, w
	}
	later := new(Outcome)
	w.Done = func(o Outcome) { *later = o }
	return nil, w
}

func (d *driver) build() *pb.SyncRequest { return d.core.BuildSync(d.now) }

// sync carries one Sync there and back, if one is due.
func (d *driver) sync() *pb.SyncRequest {
	d.t.Helper()
	req := d.build()
	if req == nil {
		return nil
	}
	reply := d.answer(req)
	d.now += d.rtt
	d.core.SyncDone(d.now, reply)
	return req
}

// settle syncs until nothing is due at this moment.
func (d *driver) settle() {
	d.t.Helper()
	for range 50 {
		if d.sync() == nil {
			return
		}
	}
	d.t.Fatal("syncs without end")
}

func (d *driver) used() (settled, out int64) { return d.usedIn(d.present().GetStartUs()) }

func (d *driver) usedIn(window int64) (settled, out int64) {
	for _, g := range d.grants {
		if d.every > 0 && g.window != window {
			continue
		}
		settled += g.taken - g.refunded
		if !g.final {
			out += g.amount - g.taken + g.refunded - g.returned
		}
	}
	return settled, out
}

// present is the window that the ledger's clock is in.
func (d *driver) present() *pb.Window {
	if d.every == 0 {
		return d.window
	}
	start := d.ledgerNow().Truncate(d.every)
	return &pb.Window{StartUs: start.UnixMicro(), EndUs: start.Add(d.every).UnixMicro()}
}

// following is the window after that.
func (d *driver) following() *pb.Window {
	if d.every == 0 {
		return nil
	}
	end := d.present().GetEndUs()
	return &pb.Window{StartUs: end, EndUs: end + d.every.Microseconds()}
}

// answer is the stand-in ledger.
func (d *driver) answer(req *pb.SyncRequest) *pb.SyncReply {
	d.token++
	reply := &pb.SyncReply{Token: []byte{byte(d.token)}, LedgerNowUs: d.ledgerNow().UnixMicro()}
	if req.GetHello().GetPolicyVersion() != d.catalogue.GetPolicyVersion() {
		reply.Catalogue = proto.CloneOf(d.catalogue)
	}
	keys := map[string]*pb.Key{}
	for _, r := range req.GetReports() {
		g, ok := d.grants[uuid.FromBytesOrNil(r.GetGrantId())]
		if !ok {
			g = &fakeGrant{window: r.GetWindow().GetStartUs()}
			d.grants[uuid.FromBytesOrNil(r.GetGrantId())] = g
		}
		g.taken, g.returned = max(g.taken, r.GetTaken()), max(g.returned, r.GetReturned())
		g.refunded = max(g.refunded, r.GetRefunded())
		g.final = g.final || r.GetFinal()
		state := pb.GrantState_GRANT_STATE_LIVE
		if g.final {
			state = pb.GrantState_GRANT_STATE_FINAL
		}
		reply.Results = append(reply.Results, &pb.ReportResult{GrantId: r.GetGrantId(), State: state})
		keys[r.GetKey().GetTenant()+"/"+r.GetKey().GetDimension()] = r.GetKey()
	}
	for _, c := range req.GetCancels() {
		id := uuid.FromBytesOrNil(c.GetGrantId())
		if g, ok := d.grants[id]; ok {
			g.returned, g.final = g.amount-g.taken, true
		} else {
			d.grants[id] = &fakeGrant{final: true}
		}
	}
	for _, a := range req.GetAsks() {
		reply.Decisions = append(reply.Decisions, d.decide(a))
		keys[a.GetKey().GetTenant()+"/"+a.GetKey().GetDimension()] = a.GetKey()
	}
	for _, k := range req.GetKeys() {
		keys[k.GetTenant()+"/"+k.GetDimension()] = k
	}
	settled, out := d.used()
	for _, k := range keys {
		st := &pb.KeyState{
			Key: k, Window: d.present(), Next: d.following(), Generation: d.generation, Limit: d.limit,
			Headroom: max(0, d.limit-settled-out), LeaseCap: d.cap, PolicyVersion: 7,
		}
		if settled >= d.limit {
			st.Reason = string(quota.Exhausted)
		}
		reply.Keys = append(reply.Keys, st)
	}
	return reply
}

func (d *driver) decide(a *pb.Ask) *pb.Decision {
	id := uuid.FromBytesOrNil(a.GetGrantId())
	g, ok := d.grants[id]
	window := d.present()
	var startsIn time.Duration
	if w := a.GetWindow(); w != nil && w.GetStartUs() != window.GetStartUs() {
		startsIn = time.UnixMicro(w.GetStartUs()).Sub(d.ledgerNow())
		if window = w; startsIn > d.ttl()/2 {
			return &pb.Decision{GrantId: a.GetGrantId(), Fault: &pb.Fault{Code: "invalid", Field: "window"}}
		}
	}
	settled, out := d.usedIn(window.GetStartUs())
	dec := &pb.Decision{GrantId: a.GetGrantId(), Generation: d.generation, PolicyVersion: 7, Window: window, StartsInUs: max(0, startsIn.Microseconds())}
	if !ok {
		// One agent: what is out is what it holds, and counts against L.
		amount := min(a.GetWant(), d.cap-out, d.limit-settled-out)
		if amount < a.GetNeed() || d.reason != "" {
			dec.Reason, dec.State = d.reason, pb.GrantState_GRANT_STATE_DENIED
			switch {
			case dec.Reason != "":
			case a.GetNeed() <= d.limit-settled-out:
				dec.Reason = string(quota.ExactLane)
			default:
				dec.Reason = string(quota.Exhausted)
			}
			return dec
		}
		g = &fakeGrant{amount: amount, ttl: d.ttl(), window: window.GetStartUs()}
		if end := window.GetEndUs(); end > 0 {
			g.ttl = min(g.ttl, time.UnixMicro(end).Sub(d.ledgerNow()))
		}
		d.grants[id] = g
	}
	g.asks++
	dec.Amount, dec.TtlUs, dec.State = g.amount, g.ttl.Microseconds(), pb.GrantState_GRANT_STATE_LIVE
	if g.final {
		dec.State = pb.GrantState_GRANT_STATE_FINAL
	}
	return dec
}

// ttl is that of the first dimension.
func (d *driver) ttl() time.Duration { return micros(d.catalogue.GetDimensions()[0].GetTtlUs()) }

func (d *driver) key(id quota.Key) *Key {
	d.t.Helper()
	k := d.core.Table.Find(id)
	if k == nil {
		d.t.Fatalf("no state for %s", id)
	}
	return k
}

// seeded is the random stream of one number.
func seeded(n uint64) io.Reader {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], n)
	return rand.NewChaCha8(seed)
}
