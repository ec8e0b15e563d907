package core

import (
	"container/heap"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// fleet is many cores before one small ledger: a hard key with a budget of the whole limit,
// one-way latency of 2 to 8 ms, windows of one second, Poisson demand. It counts what the
// protocol costs; the rules' own tests are elsewhere.
type fleet struct {
	rng    *rand.Rand
	now    time.Duration
	events eventQueue
	serial int
	limit  int64
	cap    int64

	cores   []*Core
	syncing []bool
	granted map[int64]int64 // by window: granted and not given back
	used    map[int64]int64
	grants  map[ID]*fakeGrant
	holds   map[share]int64
	drained map[int64]bool
	syncs   int
	allowed int
}

// share is what one agent holds of one window.
type share struct {
	agent  int
	window int64
}

const fleetTTL = 2 * time.Second

func newFleet(agents int, limit, cap int64) *fleet {
	f := &fleet{
		rng: rand.New(rand.NewPCG(1, 2)), limit: limit, cap: cap, granted: map[int64]int64{}, used: map[int64]int64{},
		grants: map[ID]*fakeGrant{}, holds: map[share]int64{}, drained: map[int64]bool{}, syncing: make([]bool, agents),
	}
	for i := range agents {
		c := New(Config{Name: "a", Region: "eu", Random: seeded(uint64(i)), Wall: epoch, Start: time.Hour})
		f.cores = append(f.cores, c)
	}
	return f
}

func (f *fleet) after(d time.Duration, do func()) {
	f.serial++
	heap.Push(&f.events, event{f.now + d, f.serial, do})
}

func (f *fleet) latency() time.Duration {
	return 2*time.Millisecond + time.Duration(f.rng.Int64N(int64(6*time.Millisecond)))
}

func (f *fleet) instant() Instant { return time.Hour + f.now }

func (f *fleet) window(ahead int64) *pb.Window {
	start := epoch.Add(f.now).Truncate(time.Second).UnixMicro() + ahead*1_000_000
	return &pb.Window{StartUs: start, EndUs: start + 1_000_000}
}

// pump is one agent's loops.
func (f *fleet) pump(i int) {
	c := f.cores[i]
	c.Tick(f.instant())
	if f.syncing[i] {
		return
	}
	req := c.BuildSync(f.instant())
	if req == nil {
		return
	}
	f.syncing[i] = true
	f.syncs++
	f.after(f.latency(), func() {
		reply := f.answer(i, req)
		f.after(f.latency(), func() {
			f.syncing[i] = false
			c.SyncDone(f.instant(), reply)
			f.pump(i)
		})
	})
}

// timer runs the loops of an agent when something is due.
func (f *fleet) timer(i int) {
	f.pump(i)
	next := f.cores[i].NextSync()
	if at, ok := f.cores[i].NextTick(); ok {
		next = min(next, at)
	}
	f.after(min(max(next-f.instant(), time.Millisecond), 5*time.Millisecond), func() { f.timer(i) })
}

func (f *fleet) answer(i int, req *pb.SyncRequest) *pb.SyncReply {
	reply := &pb.SyncReply{Token: []byte("t"), LedgerNowUs: epoch.Add(f.now).UnixMicro()}
	if req.GetHello().GetPolicyVersion() == 0 {
		d := hardDay()
		d.Period, d.TtlUs, d.GraceUs = &pb.Period{Every: "second", Timezone: "UTC"}, fleetTTL.Microseconds(), 1_000_000
		d.Limit = f.limit
		reply.Catalogue = &pb.Catalogue{PolicyVersion: 7, Dimensions: []*pb.Dimension{d}}
	}
	for _, r := range req.GetReports() {
		g := f.grants[uuid.FromBytesOrNil(r.GetGrantId())]
		f.used[g.window] += r.GetTaken() - g.taken
		f.holds[share{i, g.window}] -= r.GetTaken() - g.taken + r.GetReturned() - g.returned
		if back := r.GetReturned() - g.returned; back > 0 {
			f.granted[g.window] -= back
			f.drained[g.window] = false
		}
		g.taken, g.returned = r.GetTaken(), r.GetReturned()
		state := pb.GrantState_GRANT_STATE_LIVE
		if r.GetFinal() {
			state = pb.GrantState_GRANT_STATE_FINAL
		}
		reply.Results = append(reply.Results, &pb.ReportResult{GrantId: r.GetGrantId(), State: state})
	}
	for _, a := range req.GetAsks() {
		reply.Decisions = append(reply.Decisions, f.decide(i, a))
	}
	if len(req.GetReports())+len(req.GetAsks())+len(req.GetKeys()) > 0 {
		w := f.window(0)
		reply.Keys = append(reply.Keys, &pb.KeyState{Key: wireKey(exports), Window: w, Next: f.window(1), Generation: 1,
			Limit: f.limit, Headroom: f.limit - f.granted[w.GetStartUs()], LeaseCap: f.cap, PolicyVersion: 7})
	}
	return reply
}

func (f *fleet) decide(i int, a *pb.Ask) *pb.Decision {
	w := f.window(0)
	var startsIn int64
	if start := a.GetWindow().GetStartUs(); start > w.GetStartUs() {
		w = a.GetWindow()
		startsIn = start - epoch.Add(f.now).UnixMicro()
	}
	free := f.limit - f.granted[w.GetStartUs()]
	d := &pb.Decision{GrantId: a.GetGrantId(), Generation: 1, PolicyVersion: 7, Window: w, StartsInUs: startsIn}
	amount := min(a.GetWant(), f.cap-f.holds[share{i, w.GetStartUs()}], free)
	if amount < a.GetNeed() {
		d.Reason, d.State = string(quota.LeasedOut), pb.GrantState_GRANT_STATE_DENIED
		if a.GetNeed() <= free {
			d.Reason = string(quota.ExactLane)
		}
		return d
	}
	id := uuid.FromBytesOrNil(a.GetGrantId())
	f.grants[id] = &fakeGrant{window: w.GetStartUs(), amount: amount}
	f.holds[share{i, w.GetStartUs()}] += amount
	f.granted[w.GetStartUs()] += amount
	d.Amount, d.State = amount, pb.GrantState_GRANT_STATE_LIVE
	d.TtlUs = min(fleetTTL.Microseconds(), w.GetEndUs()-epoch.Add(f.now).UnixMicro())
	if free == amount {
		d.Last = true
		f.tellDrained(w)
	}
	return d
}

func (f *fleet) tellDrained(w *pb.Window) {
	n := &pb.Notice{Key: wireKey(exports), Generation: 1, Window: w, Drained: true}
	for i := range f.cores {
		f.after(f.latency(), func() {
			f.cores[i].Notice(f.instant(), n)
			f.pump(i)
		})
	}
}

// callers of one agent come at random, perSecond on average.
func (f *fleet) callers(i int, perSecond float64) {
	f.after(time.Duration(f.rng.ExpFloat64()/perSecond*float64(time.Second)), func() {
		c, now := f.cores[i], f.instant()
		if k := c.Table.Find(exports); k != nil {
			if t := k.Take(now, 1); t.Allowed || t.Denied {
				if t.Allowed {
					f.allowed++
				}
				if t.Low {
					c.Low(now, k)
				}
				f.pump(i)
				f.callers(i, perSecond)
				return
			}
		}
		w := &Waiter{Key: exports, Cost: 1, Done: func(o Outcome) {
			if o.Allowed {
				f.allowed++
			}
		}}
		c.Want(now, w)
		f.pump(i)
		f.after(10*time.Millisecond, func() { c.GiveUp(f.instant(), w) })
		f.callers(i, perSecond)
	})
}

func (f *fleet) run(until time.Duration) {
	for len(f.events) > 0 && f.events[0].at <= until {
		e := heap.Pop(&f.events).(event)
		f.now = e.at
		e.do()
	}
	f.now = until
}

func TestAFleetCostsTwoRoundTripsAWindow(t *testing.T) {
	t.Parallel()
	const limit, windows = 1000, 10
	for _, agents := range []int{8, 512} {
		f := newFleet(agents, limit, limit/int64(agents))
		for i := range agents {
			f.timer(i)
			f.callers(i, 3*limit/float64(agents))
		}
		f.run(2 * time.Second)
		syncs, allowed := f.syncs, f.allowed
		f.run((2 + windows) * time.Second)
		trips := float64(f.syncs-syncs) / float64(agents*windows)
		used := float64(f.allowed-allowed) / (limit * windows)
		t.Logf("%d agents: %.2f round trips an agent and window, %.4f of the limit used", agents, trips, used)
		if used < 0.99 || used > 1 {
			t.Errorf("%d agents use %.4f of the limit", agents, used)
		}
		if agents == 512 && trips > 2 {
			t.Errorf("%d agents: %.2f round trips an agent and window, want at most two", agents, trips)
		}
	}
}
