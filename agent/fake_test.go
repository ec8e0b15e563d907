package agent

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// fakeUplink is a control plane in memory: it takes rtt, grants what is left of limit, and
// can be cut off.
type fakeUplink struct {
	rtt time.Duration

	mu      sync.Mutex
	down    bool
	limit   int64
	granted int64
	taken   map[string]int64 // by grant id
	final   map[string]bool
	spent   map[string]int64
	syncs   int
	class   string
	outage  *pb.Outage
	notices chan *pb.WatchReply
	gen     int64
	reason  string // of asks that are denied
}

func newFakeUplink() *fakeUplink {
	return &fakeUplink{
		rtt: 2 * time.Millisecond, limit: 1000, class: "hard", gen: 1,
		taken: map[string]int64{}, final: map[string]bool{}, spent: map[string]int64{},
		reason:  "exhausted",
		outage:  &pb.Outage{Mode: "closed", AfterUs: 10_000_000},
		notices: make(chan *pb.WatchReply, 8),
	}
}

func (f *fakeUplink) wait(ctx context.Context) error {
	f.mu.Lock()
	down := f.down
	f.mu.Unlock()
	if down {
		return errors.New("connection refused")
	}
	select {
	case <-time.After(f.rtt):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *fakeUplink) cut(down bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = down
}

func (f *fakeUplink) state(k *pb.Key) *pb.KeyState {
	return &pb.KeyState{Key: k, Generation: f.gen, Limit: f.limit, Headroom: max(0, f.limit-f.granted), LeaseCap: 100,
		PolicyVersion: 3, Window: &pb.Window{StartUs: 1, EndUs: time.Now().Add(time.Hour).UnixMicro()}}
}

func (f *fakeUplink) Sync(ctx context.Context, req *pb.SyncRequest) (*pb.SyncReply, error) {
	if err := f.wait(ctx); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.syncs++
	reply := &pb.SyncReply{Token: []byte("t"), LedgerNowUs: time.Now().UnixMicro()}
	if req.GetHello().GetPolicyVersion() == 0 {
		reply.Catalogue = &pb.Catalogue{PolicyVersion: 3, Dimensions: []*pb.Dimension{{
			Name: "report_export", Kind: "period", Class: f.class, Limit: f.limit, Period: &pb.Period{Every: "day"},
			TtlUs: 10_000_000, LowWatermarkPpm: 200_000, Outage: f.outage, Cold: &pb.Cold{WaitUs: 10_000, Then: "deny"},
		}}}
	}
	for _, r := range req.GetReports() {
		id := string(r.GetGrantId())
		f.taken[id] = r.GetTaken() - r.GetRefunded()
		if r.GetFinal() && !f.final[id] {
			f.final[id] = true
			f.granted -= r.GetReturned() + r.GetRefunded()
		}
		state := pb.GrantState_GRANT_STATE_LIVE
		if f.final[id] {
			state = pb.GrantState_GRANT_STATE_FINAL
		}
		reply.Results = append(reply.Results, &pb.ReportResult{GrantId: r.GetGrantId(), State: state})
	}
	for _, a := range req.GetAsks() {
		d := &pb.Decision{GrantId: a.GetGrantId(), Generation: f.gen, TtlUs: 10_000_000, PolicyVersion: 3, Window: f.state(a.GetKey()).GetWindow()}
		amount := min(a.GetWant(), 100, f.limit-f.granted)
		if amount >= a.GetNeed() {
			f.granted += amount
			d.Amount, d.State = amount, pb.GrantState_GRANT_STATE_LIVE
		} else {
			d.Reason, d.State = f.reason, pb.GrantState_GRANT_STATE_DENIED
		}
		reply.Decisions = append(reply.Decisions, d)
		reply.Keys = append(reply.Keys, f.state(a.GetKey()))
	}
	for _, k := range req.GetKeys() {
		reply.Keys = append(reply.Keys, f.state(k))
	}
	return reply, nil
}

func (f *fakeUplink) Spend(ctx context.Context, req *pb.SpendRequest) (*pb.SpendReply, error) {
	if err := f.wait(ctx); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	reply := &pb.SpendReply{LedgerNowUs: time.Now().UnixMicro()}
	for _, r := range req.GetRefunds() {
		f.granted -= f.spent[string(r.GetGrantId())]
		delete(f.spent, string(r.GetGrantId()))
	}
	for _, it := range req.GetItems() {
		d := &pb.Decision{GrantId: it.GetSpendId(), Generation: f.gen}
		if f.granted+it.GetCost() <= f.limit {
			f.granted += it.GetCost()
			f.spent[string(it.GetSpendId())] = it.GetCost()
			d.Amount = it.GetCost()
		} else {
			d.Reason = "exhausted"
		}
		reply.Decisions = append(reply.Decisions, d)
		reply.Keys = append(reply.Keys, f.state(it.GetKey()))
	}
	return reply, nil
}

func (f *fakeUplink) Defer(context.Context, *pb.DeferRequest) (*pb.DeferReply, error) {
	return nil, errors.New("nobody waits here")
}

func (f *fakeUplink) Watch(ctx context.Context, _ *pb.WatchRequest, notice func(*pb.WatchReply)) error {
	for {
		select {
		case n := <-f.notices:
			notice(n)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *fakeUplink) confirmed() (units int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.taken {
		units += n
	}
	for _, n := range f.spent {
		units += n
	}
	return units
}

// start runs an agent until the returned stop is called, which waits for its end.
func start(t *testing.T, up Uplink, change ...func(*Config)) (a *Agent, stop func()) {
	t.Helper()
	began := time.Now()
	cfg := Config{Name: "a", Region: "eu", now: func() time.Duration { return time.Hour + time.Since(began) }}
	for _, c := range change {
		c(&cfg)
	}
	a, err := New(cfg, up)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	return a, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
