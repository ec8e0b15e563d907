package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/quotalease/quotalease/agent"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// agents is the product in its two forms: the key is named at each take, or was found before.
func agents() []subject {
	return []subject{
		{name: take, kind: ours, free: true, open: func(keys []string) (*opened, error) {
			a, stop, err := start(keys)
			if err != nil {
				return nil, err
			}
			return &opened{close: stop, loop: func(w *walk, n int) error {
				ctx := context.Background()
				for range n {
					if d, err := a.Take(ctx, keys[w.pick(len(keys))], dimension, 1); err != nil || !d.Allowed {
						return denied(d, err)
					}
				}
				return nil
			}}, nil
		}},
		{name: handleTake, kind: ours, free: true, open: func(keys []string) (*opened, error) {
			a, stop, err := start(keys)
			if err != nil {
				return nil, err
			}
			handles := make([]*agent.Handle, len(keys))
			for i, k := range keys {
				if handles[i], err = a.Handle(k, dimension); err != nil {
					return nil, errors.Join(err, stop())
				}
				if d, err := handles[i].Take(context.Background(), 1); err != nil || !d.Allowed {
					return nil, errors.Join(denied(d, err), stop())
				}
			}
			return &opened{close: stop, loop: func(w *walk, n int) error {
				ctx := context.Background()
				for range n {
					if d, err := handles[w.pick(len(handles))].Take(ctx, 1); err != nil || !d.Allowed {
						return denied(d, err)
					}
				}
				return nil
			}}, nil
		}},
	}
}

func denied(d agent.Decision, err error) error {
	return errors.Join(err, fmt.Errorf("take: denied as %q", d.Reason))
}

// start runs an agent until it holds a lease of every key that no benchmark empties.
func start(keys []string) (*agent.Agent, func() error, error) {
	a, err := agent.New(agent.Config{Name: "bench", Region: "eu", MaxKeys: len(keys)}, ledger{})
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- a.Run(ctx) }()
	stop := func() error {
		cancel()
		return <-over
	}
	if err := warm(ctx, a, keys); err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	return a, stop, nil
}

// warm takes once of each key, many at a time: each waits for a message.
func warm(ctx context.Context, a *agent.Agent, keys []string) error {
	const workers = 256
	var wg sync.WaitGroup
	failed := make([]error, workers)
	for i := range workers {
		wg.Go(func() {
			for k := i; k < len(keys) && failed[i] == nil; k += workers {
				if d, err := a.Take(ctx, keys[k], dimension, 1); err != nil || !d.Allowed {
					failed[i] = denied(d, err)
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(failed...)
}

// ledger is a control plane that grants more than anybody uses. Its answers are marshalled and
// read back, so that the agent keeps what it would keep of a message from the wire.
type ledger struct{}

const (
	grant = 1 << 40
	hour  = 3_600_000_000 // us
)

func (ledger) Sync(_ context.Context, req *pb.SyncRequest) (*pb.SyncReply, error) {
	now := time.Now()
	window := func() *pb.Window {
		return &pb.Window{StartUs: now.Add(-time.Hour).Truncate(time.Hour).UnixMicro(), EndUs: now.Add(1000 * time.Hour).Truncate(time.Hour).UnixMicro()}
	}
	state := func(k *pb.Key) *pb.KeyState {
		return &pb.KeyState{Key: k, Generation: 1, Limit: 1 << 50, Headroom: 1 << 50, LeaseCap: grant, PolicyVersion: 1, Window: window()}
	}
	reply := &pb.SyncReply{Token: []byte("t"), LedgerNowUs: now.UnixMicro()}
	if req.GetHello().GetPolicyVersion() == 0 {
		reply.Catalogue = &pb.Catalogue{PolicyVersion: 1, Dimensions: []*pb.Dimension{{
			Name: dimension, Kind: "period", Class: "hard", Limit: 1 << 50, Period: &pb.Period{Every: "year"}, TtlUs: hour, LowWatermarkPpm: 200_000,
			Outage: &pb.Outage{Mode: "closed", AfterUs: hour}, Cold: &pb.Cold{WaitUs: 60_000_000, Then: "deny"},
		}}}
	}
	for _, r := range req.GetReports() {
		s := pb.GrantState_GRANT_STATE_LIVE
		if r.GetFinal() {
			s = pb.GrantState_GRANT_STATE_FINAL
		}
		reply.Results = append(reply.Results, &pb.ReportResult{GrantId: r.GetGrantId(), State: s})
	}
	for _, a := range req.GetAsks() {
		reply.Decisions = append(reply.Decisions, &pb.Decision{GrantId: a.GetGrantId(), Generation: 1, PolicyVersion: 1, Amount: grant, TtlUs: hour,
			State: pb.GrantState_GRANT_STATE_LIVE, Window: window()})
		reply.Keys = append(reply.Keys, state(a.GetKey()))
	}
	for _, k := range req.GetKeys() {
		reply.Keys = append(reply.Keys, state(k))
	}
	wire, err := proto.Marshal(reply)
	if err != nil {
		return nil, err
	}
	read := &pb.SyncReply{}
	return read, proto.Unmarshal(wire, read)
}

func (ledger) Spend(context.Context, *pb.SpendRequest) (*pb.SpendReply, error) {
	return nil, errors.New("nothing here is exact")
}

func (ledger) Defer(context.Context, *pb.DeferRequest) (*pb.DeferReply, error) {
	return nil, errors.New("nobody waits here")
}

func (ledger) Watch(ctx context.Context, _ *pb.WatchRequest, _ func(*pb.WatchReply)) error {
	<-ctx.Done()
	return ctx.Err()
}
