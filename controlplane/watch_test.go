package controlplane

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quotalease/quotalease/ledger"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// ear gathers the notices of one agent.
type ear struct {
	mu      sync.Mutex
	notices []*pb.Notice
}

func (e *ear) hear(m *pb.WatchReply) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.notices = append(e.notices, m.Notices...)
	return nil
}

func (e *ear) take() []*pb.Notice {
	e.mu.Lock()
	defer e.mu.Unlock()
	heard := e.notices
	e.notices = nil
	return heard
}

// listen watches as an agent until the bubble's work is done.
func (w *world) listen(agent ledger.ID) (*ear, func()) {
	e := &ear{}
	ctx, cancel := context.WithCancel(w.t.Context())
	var wait sync.WaitGroup
	wait.Go(func() {
		if err := w.cp.Watch(ctx, agent.Bytes(), e.hear); !errors.Is(err, context.Canceled) {
			w.t.Errorf("watch: %v", err)
		}
	})
	synctest.Wait()
	return e, func() { cancel(); wait.Wait() }
}

func TestW3RaisedLimitIsHeardWithinASecond(t *testing.T) {
	t.Parallel()
	running(t, examplePolicy, func(w *world) {
		a := w.agent()
		d := a.lease("small", 100)
		denied := a.lease("small", 1)
		if d.Amount != 100 || denied.Amount != 0 {
			w.t.Fatalf("granted %v, then %v", d, denied)
		}
		e, stop := w.listen(a.inc)
		defer stop()
		if first := e.take(); len(first) != 1 || first[0].PolicyVersion != 1 {
			w.t.Errorf("first notice %v, want the policy version", first)
		}
		w.edit("limit: 100", "limit: 200")
		time.Sleep(time.Second)
		synctest.Wait()
		grew, policyHeard := false, false
		for _, n := range e.take() {
			grew = grew || (n.Key.GetDimension() == "small" && n.Generation > denied.Generation)
			policyHeard = policyHeard || n.PolicyVersion == 2
		}
		if !grew || !policyHeard {
			w.t.Errorf("heard of growth: %t, of the policy: %t", grew, policyHeard)
		}
		if again := a.lease("small", 1); again.Amount != 1 {
			w.t.Errorf("after the raise: %v", again)
		}
	})
}

func TestW4LoweredLimitRecallsWhatIsOut(t *testing.T) {
	t.Parallel()
	running(t, examplePolicy, func(w *world) {
		a, b := w.agent(), w.agent()
		used := a.lease("small", 80)
		a.sync(&pb.SyncRequest{Reports: []*pb.Report{usedUp(used, acme("small"))}})
		out := b.lease("small", 10)
		e, stop := w.listen(b.inc)
		defer stop()
		other, stopOther := w.listen(a.inc)
		defer stopOther()
		w.edit("limit: 100", "limit: 50")
		time.Sleep(time.Second)
		synctest.Wait()
		recalled := func(notices []*pb.Notice) bool {
			for _, n := range notices {
				if string(n.RevokedGrant) == string(out.GrantId) {
					return true
				}
			}
			return false
		}
		if !recalled(e.take()) || recalled(other.take()) {
			w.t.Error("the holder, and nobody else, should hear that its lease was revoked")
		}
		reply := b.sync(&pb.SyncRequest{Keys: []*pb.Key{acme("small")}})
		if k := reply.Keys[0]; k.Headroom != 0 || k.Limit != 50 {
			w.t.Errorf("key state %v, want headroom 0 of 50", k)
		}
		if got := w.account("small"); got.Headroom() != -40 || got.OverLimit() != 30 || got.Overshoot != 0 {
			w.t.Errorf("headroom %d, over the limit %d, overshoot %d", got.Headroom(), got.OverLimit(), got.Overshoot)
		}
		if got := w.metric("leases_revoked_total"); got != 1 {
			w.t.Errorf("%v leases revoked, want 1", got)
		}
		w.verified()
	})
}

// journal is a ledger's journal that shows events in an order of its own.
type journal struct {
	ledger.Reader
	events []ledger.Event
}

func (j *journal) Events(_ context.Context, after int64, limit int) ([]ledger.Event, error) {
	var found []ledger.Event
	for _, e := range j.events {
		if e.ID > after && len(found) < limit {
			found = append(found, e)
		}
	}
	return found, nil
}

func (j *journal) show(ids ...int64) {
	j.events = nil
	for _, id := range ids {
		j.events = append(j.events, ledger.Event{ID: id, Kind: ledger.EventGrew, Generation: id})
	}
}

func TestEveryEventIsToldOnce(t *testing.T) {
	t.Parallel()
	j := &journal{}
	h := newHub(j, newMetrics(prometheus.NewRegistry()), func() int64 { return 1 })
	s := &subscriber{notices: make(chan *pb.Notice, 100)}
	h.join(s)
	for _, step := range []struct{ shown, want []int64 }{
		{[]int64{1, 2, 3}, nil}, // what was before is not told
		{[]int64{1, 2, 3, 5}, []int64{5}},
		{[]int64{1, 2, 3, 5}, nil},
		{[]int64{5, 6, 9}, []int64{6, 9}},
	} {
		j.show(step.shown...)
		if err := h.poll(t.Context()); err != nil {
			t.Fatal(err)
		}
		var got []int64
		for len(s.notices) > 0 {
			got = append(got, (<-s.notices).Generation)
		}
		if !slices.Equal(got, step.want) {
			t.Errorf("showing %v: told %v, want %v", step.shown, got, step.want)
		}
	}
}

func TestASlowWatcherLosesNoticesAndBlocksNobody(t *testing.T) {
	t.Parallel()
	m := newMetrics(prometheus.NewRegistry())
	h := newHub(&journal{}, m, func() int64 { return 1 })
	slow, quick := &subscriber{notices: make(chan *pb.Notice, 1)}, &subscriber{notices: make(chan *pb.Notice, 9)}
	h.join(slow)
	h.join(quick)
	for range 5 {
		h.publish(&pb.Notice{})
	}
	if len(slow.notices) != 1 || len(quick.notices) != 5 {
		t.Errorf("slow has %d, quick has %d notices, want 1 and 5", len(slow.notices), len(quick.notices))
	}
}

// Notices about keys go to every agent, revocations to one: a flood of the former must not cost
// an agent the latter.
func TestAFloodOfNoticesPushesNoRevocationOut(t *testing.T) {
	t.Parallel()
	h := newHub(&journal{}, newMetrics(prometheus.NewRegistry()), func() int64 { return 1 })
	holder, other := ledger.ID{1}, ledger.ID{2}
	l, err := h.listen(holder)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	o, err := h.listen(other)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	for range 2 * watchBuffer {
		h.tell(ledger.Event{Kind: ledger.EventWanted})
	}
	lease := ledger.ID{3}
	h.tell(ledger.Event{Kind: ledger.EventRevoked, Agent: holder, Grant: lease})
	l.Notices() // the first tells the policy version
	heard := l.Notices()
	if len(heard) != watchSend || !bytes.Equal(heard[0].GetRevokedGrant(), lease.Bytes()) {
		t.Errorf("heard %d notices, the first of them %v; want %d, the revocation first", len(heard), heard[0], watchSend)
	}
	o.Notices()
	for heard := o.Notices(); len(heard) > 0; heard = o.Notices() {
		for _, n := range heard {
			if len(n.GetRevokedGrant()) > 0 {
				t.Fatal("another agent heard of it")
			}
		}
	}
}

func TestLastEventIsFound(t *testing.T) {
	t.Parallel()
	for _, last := range []int64{0, 1, 2, 3, 7, 8, 1000, 1 << 40} {
		j := &journal{}
		if last > 0 {
			j.show(last)
		}
		if got, err := lastEvent(t.Context(), j); err != nil || got != last {
			t.Errorf("last event %d, %v, want %d", got, err, last)
		}
	}
}

func TestADrainedAccountIsToldToAll(t *testing.T) {
	t.Parallel()
	running(t, examplePolicy, func(w *world) {
		a, b := w.agent(), w.agent()
		b.lease("small", 1)
		e, stop := w.listen(b.inc)
		defer stop()
		e.take()
		d := a.spend(a.item("small", 99, 0)).Decisions[0]
		if !d.Last {
			w.t.Errorf("%v, want that it is called the last", d)
		}
		time.Sleep(time.Second)
		heard := e.take()
		if len(heard) != 1 || !heard[0].Drained || heard[0].Generation != w.account("small").Generation || heard[0].Wanted {
			w.t.Errorf("heard %v, want once that small is drained", heard)
		}
	})
}

func TestHoldersHearThatTheirIdleUnitsAreWanted(t *testing.T) {
	t.Parallel()
	running(t, examplePolicy, func(w *world) {
		a, b := w.agent(), w.agent()
		a.lease("small", 100)
		e, stop := w.listen(a.inc)
		defer stop()
		e.take()
		for range 10 {
			if d := b.lease("small", 5); d.Reason != "leased_out" {
				w.t.Fatalf("%v, want leased out", d)
			}
		}
		time.Sleep(time.Second)
		heard := e.take()
		if len(heard) != 1 || !heard[0].Wanted || heard[0].Drained || heard[0].Key.Dimension != "small" {
			w.t.Errorf("heard %v, want once that small is wanted", heard)
		}
	})
}

func TestAListenerHearsWithoutWaiting(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	a, other := w.agent(), w.agent()
	if err := w.cp.Poll(t.Context()); err != nil { // what happened before is not told
		t.Fatal(err)
	}
	mine, err := w.cp.Listen(a.inc.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := w.cp.Listen(other.inc.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []*Listener{mine, theirs} {
		if first := l.Notices(); len(first) != 1 || first[0].GetPolicyVersion() != 1 {
			t.Errorf("first notices %v, want the policy version", first)
		}
		if more := l.Notices(); more != nil {
			t.Errorf("then %v, want nothing", more)
		}
	}
	d := a.lease("small", 10)
	if _, err := w.cp.RevokeLeases(t.Context(), &pb.RevokeLeasesRequest{GrantIds: [][]byte{d.GrantId}, Who: "tester", Why: "test"}); err != nil {
		t.Fatal(err)
	}
	if err := w.cp.Poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := mine.Notices(); len(got) != 1 || !slices.Equal(got[0].GetRevokedGrant(), d.GrantId) {
		t.Errorf("the holder hears %v, want its lease revoked", got)
	}
	if got := theirs.Notices(); got != nil {
		t.Errorf("another agent hears %v, want nothing", got)
	}
	mine.Close()
	a.lease("small", 10)
	if got := mine.Notices(); got != nil {
		t.Errorf("a closed listener hears %v", got)
	}
	if _, err := w.cp.Listen(nil); err == nil {
		t.Error("nobody may listen")
	}
}
