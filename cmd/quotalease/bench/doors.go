package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	commonpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/quotalease/quotalease/cmd/quotalease/stage"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// Doors are measured from outside: the agent is the program itself in a process of its own, with
// the control plane of this run above it, and the stub is another. Both have the same callers.
const (
	doorCallers = 64
	doorTenants = 10_000
	doorPace    = 8_000 // calls a second, of an open loop

	agentDoor = "quotalease agent"
	agentOne  = "a call for each take"
	agentMany = "quotalease agent, 64 a call"
	stubDoor  = "a stub that says yes"

	startPatience = 30 * time.Second
	doorPatience  = 8 * time.Second // for an agent's last report
	readyPause    = 10 * time.Millisecond
)

// doorServer is a process that answers, at its address.
type doorServer struct {
	*stage.Proc
	address string
	pages   string // the HTTP door's
}

// start runs the program once more.
func (w *world) start(ctx context.Context, name string, args ...string) (*doorServer, error) {
	p, err := stage.Spawn(w.program, name, nil, nil, args...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	addresses, err := p.Ready(ctx)
	if err != nil {
		p.Kill()
		return nil, err
	}
	return &doorServer{p, addresses["grpc"], addresses["http"]}, nil
}

// startAgent waits until the agent knows its policy: proxies are told no before.
func (w *world) startAgent(ctx context.Context) (*doorServer, error) {
	d, err := w.start(ctx, "agent", "agent", "--region", region, "--control-plane", w.address,
		"--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--rls-patience", "1m")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for {
		err := askReady(ctx, "http://"+d.pages+"/readyz")
		if err == nil {
			return d, nil
		}
		select {
		case <-ctx.Done():
			d.Kill()
			return nil, errors.Join(err, ctx.Err())
		case <-time.After(readyPause):
		}
	}
}

func askReady(ctx context.Context, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("ask whether the agent is ready: %w", err)
	}
	if err := answer.Body.Close(); err != nil || answer.StatusCode != http.StatusOK {
		return errors.Join(fmt.Errorf("ask whether the agent is ready: %s", answer.Status), err)
	}
	return nil
}

func (w *world) startStub(ctx context.Context) (*doorServer, error) {
	return w.start(ctx, "stub", "bench", "stub")
}

// cpu is what the server has used, or nil where the system does not say.
func (d *doorServer) cpu() func() (time.Duration, error) {
	used := func() (time.Duration, error) {
		line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(d.Pid()), "stat"))
		if err != nil {
			return 0, fmt.Errorf("read the server's processor time: %w", err)
		}
		s, err := readStat(line)
		return s.own, err
	}
	if _, err := used(); err != nil {
		return nil
	}
	return used
}

// answering is a server with callers before it. With a pace they come at that, whether those
// before them were answered or not; without, each comes again once it was.
func (w *world) answering(name string, start func(context.Context) (*doorServer, error), pace int, of func() (first, then calling)) subject {
	return subject{name, func(ctx context.Context) (*opened, error) {
		first, then := of()
		server, err := start(ctx)
		if err != nil {
			return nil, err
		}
		list, err := dial(server.address, doorCallers)
		if err != nil {
			server.Kill()
			return nil, err
		}
		o := &opened{workers: doorCallers, connections: connections, per: then.per, pace: pace, cpu: server.cpu(),
			do: func(ctx context.Context, worker int) error {
				return list.ask(ctx, worker, &then, rand.IntN(len(then.messages)))
			},
			close: func(context.Context) error {
				err := list.close()
				server.Stop(doorPatience)
				return err
			}}
		err = each(list.answers, func(worker int, _ []byte) error {
			for i := worker; i < len(first.messages); i += doorCallers {
				if err := list.ask(ctx, worker, &first, i); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, errors.Join(err, o.close(ctx))
		}
		return o, nil
	}}
}

// leasedAtFirst is what a tenant takes before anything is measured. Agents lease a multiple of what
// is asked for, so that as good as nothing has to be leased while they are measured.
const leasedAtFirst = 100_000

// rateLimit asks as Envoy does: a descriptor and a hit.
func (w *world) rateLimit() (first, then calling) {
	asking := func(hits uint32) calling {
		return calling{method: rlspb.RateLimitService_ShouldRateLimit_FullMethodName, per: 1, allowed: startsWith(0x08, byte(rlspb.RateLimitResponse_OK)),
			answer: &rlspb.RateLimitResponse{}, messages: w.eachTenant(func(tenant string) proto.Message {
				return &rlspb.RateLimitRequest{Domain: "bench", HitsAddend: hits, Descriptors: []*commonpb.RateLimitDescriptor{
					{Entries: []*commonpb.RateLimitDescriptor_Entry{{Key: "org", Value: tenant}}},
				}}
			})}
	}
	return asking(leasedAtFirst), asking(1)
}

// take asks for a unit.
func (w *world) take() (first, then calling) {
	asking := func(cost *int64) calling {
		return calling{method: pb.DecisionService_Take_FullMethodName, per: 1, allowed: startsWith(0x08, 1), answer: &pb.TakeReply{},
			messages: w.eachTenant(func(tenant string) proto.Message {
				return &pb.TakeRequest{Tenant: tenant, Dimension: "decisions", Cost: cost}
			})}
	}
	return asking(proto.Int64(leasedAtFirst)), asking(nil)
}

// manyTakes is how many takes one call holds.
const manyTakes = 64

// takeMany asks for a unit of each of many tenants.
func (w *world) takeMany() (first, then calling) {
	first, one := w.take()
	then = calling{method: pb.DecisionService_TakeMany_FullMethodName, per: manyTakes, allowed: allAllowed, answer: &pb.TakeManyReply{}}
	for range one.messages {
		var many []byte
		for range manyTakes {
			many = protowire.AppendTag(many, 1, protowire.BytesType) // of TakeManyRequest: takes
			many = protowire.AppendBytes(many, one.messages[rand.IntN(len(one.messages))])
		}
		then.messages = append(then.messages, many)
	}
	return first, then
}

// allAllowed looks at every result.
func allAllowed(answer []byte) bool {
	var reply pb.TakeManyReply
	if proto.Unmarshal(answer, &reply) != nil || len(reply.GetResults()) != manyTakes {
		return false
	}
	return !slices.ContainsFunc(reply.GetResults(), func(r *pb.TakeResult) bool { return !r.GetAnswer().GetAllowed() })
}

func (w *world) eachTenant(message func(tenant string) proto.Message) [][]byte {
	list := make([][]byte, w.tenants)
	for i := range list {
		text, err := proto.Marshal(message(fmt.Sprintf("tenant-%d", i)))
		if err != nil {
			panic(err) // our own messages
		}
		list[i] = text
	}
	return list
}

// doorScenes are what is measured of an agent's doors.
func (w *world) doorScenes() []scene {
	return []scene{
		{rlsScene, []subject{w.answering(agentDoor, w.startAgent, 0, w.rateLimit), w.answering(stubDoor, w.startStub, 0, w.rateLimit)}},
		{rlsPacedScene, []subject{w.answering(agentDoor, w.startAgent, doorPace, w.rateLimit), w.answering(stubDoor, w.startStub, doorPace, w.rateLimit)}},
		{takeScene, []subject{w.answering(agentOne, w.startAgent, 0, w.take), w.answering(stubDoor, w.startStub, 0, w.take), w.answering(agentMany, w.startAgent, 0, w.takeMany)}},
	}
}
