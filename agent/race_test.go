package agent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// strictUplink is a ledger in memory that grants a few units at a time, loses requests and
// replies while it is told to, and finds fault with everything that an agent may not say.
type strictUplink struct {
	t     *testing.T
	limit int64
	loses atomic.Int64 // one message in so many is lost; 0: none

	mu     sync.Mutex
	rng    *rand.Rand
	calls  int // Syncs in flight
	grants map[string]*strictGrant
	spends map[string]*strictGrant
	gone   map[string]bool // withdrawn before they came
	keys   map[string]*strictKey
}

type strictGrant struct {
	key                     string
	amount, taken, returned int64
	final                   bool
	ask                     *pb.Ask
}

type strictKey struct{ settled, out, generation int64 }

func newStrictUplink(t *testing.T, limit int64) *strictUplink {
	return &strictUplink{
		t: t, limit: limit, rng: rand.New(rand.NewPCG(1, 2)), grants: map[string]*strictGrant{},
		spends: map[string]*strictGrant{}, gone: map[string]bool{}, keys: map[string]*strictKey{},
	}
}

var errLost = errors.New("the message was lost")

// travel is one way through the network.
func (s *strictUplink) travel(ctx context.Context) error {
	s.mu.Lock()
	d := time.Duration(s.rng.IntN(4000)) * time.Microsecond
	n := s.loses.Load()
	lost := n > 0 && s.rng.Int64N(n) == 0
	s.mu.Unlock()
	select {
	case <-time.After(d):
	case <-ctx.Done():
		return ctx.Err()
	}
	if lost {
		return errLost
	}
	return nil
}

func (s *strictUplink) key(k *pb.Key) *strictKey {
	found, ok := s.keys[k.GetTenant()]
	if !ok {
		found = &strictKey{generation: 1}
		s.keys[k.GetTenant()] = found
	}
	return found
}

func (s *strictUplink) state(k *pb.Key) *pb.KeyState {
	at := s.key(k)
	st := &pb.KeyState{Key: k, Generation: at.generation, Limit: s.limit, Headroom: max(0, s.limit-at.settled-at.out), LeaseCap: 7,
		PolicyVersion: 3, Window: &pb.Window{StartUs: 1, EndUs: time.Now().Add(time.Hour).UnixMicro()}}
	if at.settled >= s.limit {
		st.Reason = string(quota.Exhausted)
	}
	return st
}

func (s *strictUplink) Sync(ctx context.Context, req *pb.SyncRequest) (*pb.SyncReply, error) {
	if err := s.travel(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	if s.calls++; s.calls > 1 {
		s.t.Error("two Syncs at once")
	}
	reply := &pb.SyncReply{Token: []byte("t"), LedgerNowUs: time.Now().UnixMicro()}
	if req.GetHello().GetPolicyVersion() == 0 {
		reply.Catalogue = &pb.Catalogue{PolicyVersion: 3, Dimensions: []*pb.Dimension{{
			Name: "report_export", Kind: "period", Class: "hard", Limit: s.limit, Period: &pb.Period{Every: "day"},
			TtlUs: 1_000_000, LowWatermarkPpm: 200_000, Outage: &pb.Outage{Mode: "closed", AfterUs: 10_000_000},
			Cold: &pb.Cold{WaitUs: 10_000, Then: "deny"},
		}}}
	}
	for _, r := range req.GetReports() {
		reply.Results = append(reply.Results, s.report(r))
		reply.Keys = append(reply.Keys, s.state(r.GetKey()))
	}
	for _, c := range req.GetCancels() {
		s.cancel(c)
	}
	for _, a := range req.GetAsks() {
		reply.Decisions = append(reply.Decisions, s.decide(a))
		reply.Keys = append(reply.Keys, s.state(a.GetKey()))
	}
	for _, k := range req.GetKeys() {
		reply.Keys = append(reply.Keys, s.state(k))
	}
	s.calls--
	s.mu.Unlock()
	return reply, s.travel(ctx)
}

func (s *strictUplink) report(r *pb.Report) *pb.ReportResult {
	g, ok := s.grants[string(r.GetGrantId())]
	switch {
	case !ok || r.GetUnleased():
		s.t.Errorf("a report on no lease: %v", r)
		return &pb.ReportResult{GrantId: r.GetGrantId()}
	case r.GetTaken() < g.taken || r.GetReturned() < g.returned:
		s.t.Errorf("a counter fell: %v after %d taken, %d returned", r, g.taken, g.returned)
	case r.GetTaken()+r.GetReturned() > g.amount || r.GetFinal() && r.GetTaken()+r.GetReturned() != g.amount:
		s.t.Errorf("%d units cannot be so: %v", g.amount, r)
	case g.final && r.GetTaken() != g.taken:
		s.t.Errorf("spent after its final report: %v", r)
	}
	at := s.key(r.GetKey())
	if g.taken+g.returned < g.amount {
		at.out -= g.amount - g.taken - g.returned
	}
	at.settled += r.GetTaken() - g.taken
	if r.GetReturned() > g.returned {
		at.generation++
	}
	g.taken, g.returned, g.final = r.GetTaken(), r.GetReturned(), g.final || r.GetFinal()
	at.out += g.amount - g.taken - g.returned
	state := pb.GrantState_GRANT_STATE_LIVE
	if g.final {
		state = pb.GrantState_GRANT_STATE_FINAL
	}
	return &pb.ReportResult{GrantId: r.GetGrantId(), State: state}
}

func (s *strictUplink) cancel(c *pb.Cancel) {
	id := string(c.GetGrantId())
	at := s.key(c.GetKey())
	if g, ok := s.grants[id]; ok && !g.final {
		at.out -= g.amount - g.taken - g.returned
		at.generation++
		g.returned, g.final = g.amount-g.taken, true
	}
	if g, ok := s.spends[id]; ok {
		at.settled -= g.amount
		at.generation++
		delete(s.spends, id)
	}
	s.gone[id] = true
}

func (s *strictUplink) decide(a *pb.Ask) *pb.Decision {
	id := string(a.GetGrantId())
	at := s.key(a.GetKey())
	d := &pb.Decision{GrantId: a.GetGrantId(), Generation: at.generation, TtlUs: 1_000_000, State: pb.GrantState_GRANT_STATE_DENIED,
		Window: &pb.Window{StartUs: 1}}
	g, ok := s.grants[id]
	switch free := s.limit - at.settled - at.out; {
	case ok && (g.ask.GetWant() != a.GetWant() || g.ask.GetNeed() != a.GetNeed()):
		s.t.Errorf("asked %v, then with the same id %v", g.ask, a)
	case ok:
	case s.gone[id]:
		d.Reason = string(quota.Cancelled)
		return d
	case free >= a.GetNeed():
		g = &strictGrant{key: a.GetKey().GetTenant(), amount: min(free, a.GetWant(), 7), ask: a}
		s.grants[id] = g
		at.out += g.amount
	case a.GetNeed() <= s.limit-at.settled:
		d.Reason = string(quota.LeasedOut)
		return d
	default:
		d.Reason = string(quota.Exhausted)
		return d
	}
	d.Amount, d.State = g.amount, pb.GrantState_GRANT_STATE_LIVE
	if g.final {
		d.State = pb.GrantState_GRANT_STATE_FINAL
	}
	return d
}

func (s *strictUplink) Defer(context.Context, *pb.DeferRequest) (*pb.DeferReply, error) {
	return nil, errors.New("nobody waits here")
}

func (s *strictUplink) Spend(ctx context.Context, req *pb.SpendRequest) (*pb.SpendReply, error) {
	if err := s.travel(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	reply := &pb.SpendReply{LedgerNowUs: time.Now().UnixMicro()}
	for _, c := range req.GetRefunds() {
		s.cancel(c)
	}
	for _, it := range req.GetItems() {
		at := s.key(it.GetKey())
		d := &pb.Decision{GrantId: it.GetSpendId(), Generation: at.generation}
		switch free := s.limit - at.settled - at.out; {
		case s.gone[string(it.GetSpendId())]:
			d.Reason = string(quota.Cancelled)
		case it.GetCost() <= free:
			at.settled += it.GetCost()
			s.spends[string(it.GetSpendId())] = &strictGrant{amount: it.GetCost()}
			d.Amount = it.GetCost()
		case it.GetCost() <= s.limit-at.settled:
			d.Reason = string(quota.LeasedOut)
		default:
			d.Reason = string(quota.Exhausted)
		}
		reply.Decisions = append(reply.Decisions, d)
		reply.Keys = append(reply.Keys, s.state(it.GetKey()))
	}
	s.mu.Unlock()
	return reply, s.travel(ctx)
}

func (s *strictUplink) Watch(ctx context.Context, _ *pb.WatchRequest, _ func(*pb.WatchReply)) error {
	<-ctx.Done()
	return ctx.Err()
}

// books are what the ledger has settled of a tenant, and what is out.
func (s *strictUplink) books(tenant string) (settled, out int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.key(&pb.Key{Tenant: tenant})
	return at.settled, at.out
}

const raceTenants = 4

func raceTenant(i int) string { return fmt.Sprintf("tenant-%d", i) }

// crowd are callers who take until end; allowed counts units by tenant.
func crowd(t *testing.T, a *Agent, end context.Context, allowed *[raceTenants]atomic.Int64) *sync.WaitGroup {
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 3))
			for end.Err() == nil {
				ctx, cancel := context.WithCancel(t.Context())
				switch rng.IntN(10) {
				case 0: // the caller hangs up
					stop := time.AfterFunc(time.Duration(rng.IntN(6000))*time.Microsecond, cancel)
					defer stop.Stop()
				case 1:
					ctx, cancel = context.WithTimeout(t.Context(), time.Duration(rng.IntN(8000))*time.Microsecond)
				}
				cost := []int64{1, 1, 1, 1, 2, 3, 9, 0}[rng.IntN(8)] // 9 is more than one lease may hold
				tenant := rng.IntN(raceTenants)
				d, err := a.Take(ctx, raceTenant(tenant), "report_export", cost)
				cancel()
				if err == nil && d.Allowed {
					allowed[tenant].Add(cost)
				}
				time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
			}
		})
	}
	return &wg
}

func TestRaceExactlyTheLimitIsAllowed(t *testing.T) {
	t.Parallel()
	const limit = 400
	synctest.Test(t, func(t *testing.T) {
		up := newStrictUplink(t, limit)
		up.loses.Store(8)
		a, stop := start(t, up, func(c *Config) { c.SyncTimeout = 100 * time.Millisecond })
		var allowed [raceTenants]atomic.Int64
		end, over := context.WithCancel(t.Context())
		wg := crowd(t, a, end, &allowed)
		time.Sleep(3 * time.Second)
		up.loses.Store(0)
		time.Sleep(20 * time.Second)
		over()
		wg.Wait()
		stop()
		for i := range raceTenants {
			settled, out := up.books(raceTenant(i))
			if n := allowed[i].Load(); n != limit || settled != limit || out != 0 {
				t.Errorf("%s: %d of %d allowed, %d reported, %d out", raceTenant(i), n, limit, settled, out)
			}
		}
	})
}

func TestRaceStopWhileCallersTake(t *testing.T) {
	t.Parallel()
	for round := range 20 {
		synctest.Test(t, func(t *testing.T) {
			up := newStrictUplink(t, 1_000_000)
			up.loses.Store(int64(round % 3 * 10))
			a, stop := start(t, up, func(c *Config) { c.SyncTimeout, c.StopTimeout = 100*time.Millisecond, time.Minute })
			var allowed [raceTenants]atomic.Int64
			end, over := context.WithCancel(t.Context())
			wg := crowd(t, a, end, &allowed)
			time.Sleep(time.Duration(100+37*round) * time.Millisecond)
			stop()
			var before [raceTenants]int64
			for i := range raceTenants {
				before[i], _ = up.books(raceTenant(i))
			}
			time.Sleep(2 * time.Second)
			over()
			wg.Wait()
			var sum int64
			for i := range raceTenants {
				settled, out := up.books(raceTenant(i))
				n := allowed[i].Load()
				if sum += n; n != settled || out != 0 || settled != before[i] {
					t.Errorf("stopped after %d ms: %d allowed, %d reported by the stop, %d now, %d out", 100+37*round, n, before[i], settled, out)
				}
			}
			if sum == 0 {
				t.Error("nothing was allowed at all")
			}
			if _, err := a.Take(t.Context(), raceTenant(0), "report_export", 1); !errors.Is(err, ErrStopped) {
				t.Errorf("after the stop: %v", err)
			}
		})
	}
}
