package demo

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
	"github.com/quotalease/quotalease/sim/trace"
)

// Count is what the callers of one key saw. It knows nothing of the ledger.
type Count struct {
	Used        quota.Units // of allowed takes
	Open        quota.Units // of those, allowed without a lease during the outage
	Unknown     quota.Units // of takes whose answer never came: they may have been charged
	Allowed     int64
	Denied      int64
	Unavailable int64
	Refused     int64 // takes that the agent could not make sense of

	Running quota.Units // slots of work that runs at this moment
	Most    quota.Units // of Running, ever
}

// jobLasts is how long a job keeps its slots.
const jobLasts = 700 * time.Millisecond

// Callers send takes to agents, a few at a time per region, and count the answers.
type Callers struct {
	regions []*region
	slots   func(dimension string) bool // what limits how much runs at once: callers start jobs there
	next    atomic.Uint64
	wg      sync.WaitGroup
	mu      sync.Mutex // guards counts and refused
	counts  map[quota.Key]*Count
	refused error // the first take that an agent could not make sense of
}

type region struct {
	name string
	conn *grpc.ClientConn
	work chan trace.Event
	gone atomic.Bool // the agent was killed: callers go to the other regions

	// Units of takes that the agent answered with an outage. A spend whose outcome it did not
	// know it takes back; a killed agent no longer does. Guarded by the callers' mu.
	outage map[quota.Key]quota.Units
}

const (
	callersPerRegion = 24
	callTimeout      = 3 * time.Second
)

// NewCallers connects to agents at addresses, by region.
func NewCallers(regions []string, addresses []string) (*Callers, error) {
	c := &Callers{counts: map[quota.Key]*Count{}, slots: func(string) bool { return false }}
	for i, name := range regions {
		conn, err := grpc.NewClient(addresses[i], grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, fmt.Errorf("connect to the agent in %s: %w", name, err)
		}
		c.regions = append(c.regions, &region{name: name, conn: conn, work: make(chan trace.Event), outage: map[quota.Key]quota.Units{}})
	}
	return c, nil
}

// Start lets the callers work until Finish.
func (c *Callers) Start(ctx context.Context) {
	for _, r := range c.regions {
		client := pb.NewDecisionServiceClient(r.conn)
		for range callersPerRegion {
			c.wg.Go(func() {
				for e := range r.work {
					if c.slots(e.Dimension) {
						c.runJob(ctx, r, client, e)
					} else {
						c.take(ctx, r, client, e)
					}
				}
			})
		}
	}
}

// Send hands an event to the callers of the next region whose agent is there.
func (c *Callers) Send(ctx context.Context, e trace.Event) error {
	for {
		r := c.regions[c.next.Add(1)%uint64(len(c.regions))]
		if r.gone.Load() {
			continue
		}
		select {
		case r.work <- e:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Gone tells that a region's agent is about to be killed.
func (c *Callers) Gone(i int) { c.regions[i].gone.Store(true) }

// Finish waits for the answers on their way.
func (c *Callers) Finish() {
	for _, r := range c.regions {
		close(r.work)
	}
	c.wg.Wait()
	for _, r := range c.regions {
		_ = r.conn.Close()
	}
}

func (c *Callers) take(ctx context.Context, r *region, client pb.DecisionServiceClient, e trace.Event) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	cost := int64(e.Cost)
	reply, err := client.Take(ctx, &pb.TakeRequest{Tenant: e.Tenant, Dimension: e.Dimension, Cost: &cost})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.note(r, e, reply, err)
}

// runJob starts a job if there are slots for it, and says when it has ended. It goes on to its
// end though the agent that let it start is killed: then nobody hears of the end.
func (c *Callers) runJob(ctx context.Context, r *region, client pb.DecisionServiceClient, e trace.Event) {
	asking, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	cost := int64(e.Cost)
	reply, err := client.Acquire(asking, &pb.AcquireRequest{Tenant: e.Tenant, Dimension: e.Dimension, Cost: &cost})
	c.mu.Lock()
	n := c.note(r, e, reply.GetAnswer(), err)
	runs := err == nil && reply.GetAnswer().GetAllowed()
	if runs {
		n.Running += e.Cost
		n.Most = max(n.Most, n.Running)
	}
	c.mu.Unlock()
	if !runs {
		return
	}
	_ = trace.Sleep(ctx, jobLasts) // cut short only when everything is
	c.mu.Lock()
	n.Running -= e.Cost
	c.mu.Unlock()
	_, _ = client.Release(asking, &pb.ReleaseRequest{Tenant: e.Tenant, Id: reply.GetId()})
}

// note counts an answer. The owner holds mu.
func (c *Callers) note(r *region, e trace.Event, reply *pb.TakeReply, err error) *Count {
	key := quota.Key{Tenant: e.Tenant, Dimension: e.Dimension}
	n, ok := c.counts[key]
	if !ok {
		n = &Count{}
		c.counts[key] = n
	}
	switch {
	case err == nil && reply.GetAllowed():
		n.Allowed++
		n.Used += e.Cost
		if quota.Reason(reply.GetReason()) == quota.OpenMode {
			n.Open += e.Cost
		}
	case err == nil:
		n.Denied++
	case status.Code(err) == codes.ResourceExhausted:
		n.Denied++
	case saidUnavailable(err):
		n.Unavailable++
		r.outage[key] += e.Cost
	case status.Code(err) == codes.InvalidArgument || status.Code(err) == codes.Unimplemented:
		n.Refused++
		if c.refused == nil {
			c.refused = fmt.Errorf("take of %s: an agent refused it: %s", key, status.Convert(err).Message())
		}
	default: // the agent died on it, or time ran out: nobody knows
		n.Unavailable++
		n.Unknown += e.Cost
	}
	return n
}

// saidUnavailable reports that the agent itself answered that there is an outage: nothing
// was charged. A connection that broke looks alike but for the details.
func saidUnavailable(err error) bool {
	st := status.Convert(err)
	if st.Code() != codes.Unavailable {
		return false
	}
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetDomain() == "quotalease" {
			return true
		}
	}
	return false
}

// Counts returns what was counted so far.
func (c *Callers) Counts() map[quota.Key]Count {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := make(map[quota.Key]Count, len(c.counts))
	for k, n := range c.counts {
		count := *n
		for _, r := range c.regions {
			if r.gone.Load() {
				count.Unknown += r.outage[k]
			}
		}
		counts[k] = count
	}
	return counts
}

// Err is what went wrong that should not: requests that the agents could not read.
func (c *Callers) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused
}
