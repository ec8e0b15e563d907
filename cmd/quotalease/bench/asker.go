package bench

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/quotalease/quotalease/agent/rpc"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// syncer takes a Sync: the control plane itself, or the way to it.
type syncer interface {
	Sync(context.Context, *pb.SyncRequest) (*pb.SyncReply, error)
}

// asker is an agent that does nothing but to ask for a lease, and to report the one before as
// used up with the same message, as agents do.
type asker struct {
	door  syncer
	hello *pb.Hello
	keys  []*pb.Key
	held  []*pb.Report // of each key, the lease before
	next  int          // of keys
}

// region is where all agents of a run are.
const region = "bench"

func newAsker(door syncer, name string, keys []*pb.Key) *asker {
	id := newID()
	return &asker{door: door, keys: keys, held: make([]*pb.Report, len(keys)),
		hello: &pb.Hello{Incarnation: id.Bytes[:], Name: name, Region: region}}
}

// ask gets one unit of each of the next keys, as many as there are to a message.
func (a *asker) ask(ctx context.Context, each int) error {
	at := a.next
	if at+each > len(a.keys) {
		at = 0
	}
	a.next = at + each
	return a.askFor(ctx, at, at+each)
}

// askFor gets one unit of each of some keys, with one message.
func (a *asker) askFor(ctx context.Context, from, to int) error {
	m := &pb.SyncRequest{Hello: a.hello}
	for at := from; at < to; at++ {
		id := newID()
		m.Asks = append(m.Asks, &pb.Ask{GrantId: id.Bytes[:], Key: a.keys[at], Want: 1, Need: 1})
		if a.held[at] != nil {
			m.Reports = append(m.Reports, a.held[at])
		}
	}
	reply, err := a.sync(ctx, m)
	if err != nil {
		return err
	}
	for i, d := range reply.GetDecisions() {
		key := a.keys[from+i]
		if d.GetAmount() != 1 {
			return fmt.Errorf("ask for %s: denied: %s%s", key.GetTenant(), d.GetReason(), d.GetFault().GetCode())
		}
		a.held[from+i] = &pb.Report{GrantId: d.GetGrantId(), Key: key, Window: d.GetWindow(), Taken: 1, Final: true}
	}
	return nil
}

// settle reports what is left, so that nothing has to be swept while something else is measured.
func (a *asker) settle(ctx context.Context) error {
	m := &pb.SyncRequest{Hello: a.hello}
	for i, r := range a.held {
		if r != nil {
			m.Reports = append(m.Reports, r)
		}
		a.held[i] = nil
	}
	if len(m.Reports) == 0 {
		return nil
	}
	_, err := a.sync(ctx, m)
	return err
}

func (a *asker) sync(ctx context.Context, m *pb.SyncRequest) (*pb.SyncReply, error) {
	reply, err := a.door.Sync(ctx, m)
	if err != nil {
		return nil, err
	}
	a.hello.Token = reply.GetToken()
	if c := reply.GetCatalogue(); c != nil {
		a.hello.PolicyVersion = c.GetPolicyVersion()
	}
	for _, r := range reply.GetResults() {
		if f := r.GetFault(); f != nil {
			return nil, fmt.Errorf("report: refused: %s %s", f.GetCode(), f.GetField())
		}
	}
	return reply, nil
}

// askers are n of them. Each has keys of its own, so that as many accounts are in use as there
// are keys; of one key, all have that.
func (w *world) askers(name string, n, keys int, door func(i int) syncer) []*asker {
	list := make([]*asker, n)
	for i := range list {
		var own []*pb.Key
		for k := i % keys; k < keys; k += n {
			own = append(own, &pb.Key{Tenant: fmt.Sprintf("%s-%d", name, k), Dimension: "grants"})
		}
		list[i] = newAsker(door(i), fmt.Sprintf("%s-%d", name, i), own)
	}
	return list
}

// opening makes askers a subject: every account is made before the first measurement.
func opening(ctx context.Context, list []*asker, per int, close func() error) (*opened, error) {
	o := &opened{workers: len(list), per: per,
		do: func(ctx context.Context, worker int) error { return list[worker].ask(ctx, per) },
		close: func(ctx context.Context) error {
			return errors.Join(each(list, func(_ int, a *asker) error { return a.settle(ctx) }), close())
		}}
	if err := each(list, func(_ int, a *asker) error { return a.askFor(ctx, 0, len(a.keys)) }); err != nil {
		return nil, errors.Join(err, close())
	}
	return o, nil
}

// granter asks the control plane in this process.
func (w *world) granter(name string, n, keys int) subject { return w.asking(ours, name, n, keys, 1) }

// asking asks it for several keys with each message, as agents do that use many.
func (w *world) asking(subjectName, name string, n, keys, each int) subject {
	return subject{subjectName, func(ctx context.Context) (*opened, error) {
		list := w.askers(name, n, keys, func(int) syncer { return w.control })
		return opening(ctx, list, each, func() error { return nil })
	}}
}

// connections is how many of them askers share that ask by gRPC.
const connections = 4

// byRPC asks it through gRPC, with a call for every request.
func (w *world) byRPC(name string, n, keys int) subject {
	return subject{oursByRPC, func(ctx context.Context) (*opened, error) {
		var links []*rpc.Uplink
		close := func() error {
			var errs []error
			for _, l := range links {
				errs = append(errs, l.Close())
			}
			return errors.Join(errs...)
		}
		for range connections {
			l, err := rpc.NewUplink([]string{w.address})
			if err != nil {
				return nil, errors.Join(err, close())
			}
			links = append(links, l)
		}
		return opening(ctx, w.askers(name, n, keys, func(i int) syncer { return links[i%connections] }), 1, close)
	}}
}

// watched notes the counters as the subject is ready to be measured: what a commit carries from
// then on is what the yardstick that writes as many is told.
func (w *world) watched(s subject, since *counters) subject {
	return subject{s.name, func(ctx context.Context) (*opened, error) {
		o, err := s.open(ctx)
		if err != nil {
			return nil, err
		}
		if *since, err = w.counters(); err != nil {
			return nil, errors.Join(err, o.close(ctx))
		}
		return o, nil
	}}
}

// counters are what the control plane has done so far. uses are of its connections to Postgres:
// its transactions and reads, those of housekeeping too.
type counters struct{ grants, commits, uses float64 }

func (w *world) counters() (c counters, err error) {
	if c.grants, err = w.counted("approved_total"); err != nil {
		return c, err
	}
	c.uses = float64(w.pool.Stat().AcquireCount())
	c.commits, err = w.counted("commits_total")
	return c, err
}

// batch is how many grants a commit carried since then.
func (c counters) batch(since counters) int {
	return int(math.Round((c.grants - since.grants) / max(1, c.commits-since.commits)))
}
