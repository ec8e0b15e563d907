package controlplane

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// running is a world in a bubble of fake time, with its replica's loops on. The ledger's and
// the replica's clock are the bubble's.
func running(t *testing.T, text string, check func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, ledger: &wall{at: noon}}
		began := time.Now()
		now := func() time.Time { return w.ledger.now().Add(time.Since(began)) }
		w.start(text, now, now)
		ctx, stop := context.WithCancel(t.Context())
		var wait sync.WaitGroup
		wait.Go(func() {
			if err := w.cp.Run(ctx); err != nil {
				t.Errorf("run: %v", err)
			}
		})
		synctest.Wait()
		check(w)
		stop()
		wait.Wait()
	})
}

// hold makes the store's transactions wait until release is called.
func (w *world) hold() (release func()) {
	gate := make(chan struct{})
	w.store.before = func(s ledger.Scope) ledger.Scope {
		<-gate
		return s
	}
	return func() { close(gate) }
}

// occupy sends a Sync for each transaction that a granter has at once, so that others wait.
func (w *world) occupy(ctx context.Context, key *pb.Key, done func(*pb.SyncReply, error)) *sync.WaitGroup {
	var all sync.WaitGroup
	for range inFlight {
		one := w.crowd(ctx, 1, key, done)
		all.Go(one.Wait)
		synctest.Wait() // it is in its transaction
	}
	return &all
}

// crowd sends one Sync each of n agents at once and calls done for every answer.
func (w *world) crowd(ctx context.Context, n int, key *pb.Key, done func(*pb.SyncReply, error)) *sync.WaitGroup {
	var wait sync.WaitGroup
	for range n {
		a := w.agent()
		m := &pb.SyncRequest{Hello: a.hello(), Asks: []*pb.Ask{{GrantId: w.id().Bytes(), Key: key, Want: 1, Need: 1}}}
		wait.Go(func() { done(w.cp.Sync(ctx, m)) })
	}
	return &wait
}

func TestP4SixtyFourAsksOnOneKeyShareThreeCommits(t *testing.T) {
	t.Parallel()
	running(t, examplePolicy, func(w *world) {
		release := w.hold()
		var mu sync.Mutex
		granted := 0
		count := func(reply *pb.SyncReply, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err != nil || reply.Decisions[0].Amount != 1 {
				w.t.Errorf("sync: %v, %v", reply, err)
				return
			}
			granted++
		}
		first := w.occupy(w.t.Context(), acme("small"), count)
		others := w.crowd(w.t.Context(), 62, acme("small"), count)
		synctest.Wait()
		release()
		first.Wait()
		others.Wait()
		if commits := w.metric("commits_total"); commits != 3 || granted != 64 {
			w.t.Errorf("%d granted in %v commits, want 64 in 3", granted, commits)
		}
		if got := w.account("small").Outstanding; got != 64 {
			w.t.Errorf("%d outstanding, want 64", got)
		}
		w.verified()
	})
}

func TestBatchesAreCapped(t *testing.T) {
	t.Parallel()
	running(t, examplePolicy, func(w *world) {
		release := w.hold()
		ok := func(_ *pb.SyncReply, err error) {
			if err != nil {
				w.t.Errorf("sync: %v", err)
			}
		}
		first := w.occupy(w.t.Context(), acme("small"), ok)
		others := w.crowd(w.t.Context(), 360, acme("small"), ok) // three items each
		synctest.Wait()
		release()
		first.Wait()
		others.Wait()
		if commits := w.metric("commits_total"); commits != 4 {
			w.t.Errorf("%v commits for 2 + 360 requests of 3 items, want 2 + 2 of at most 1024", commits)
		}
	})
}

func TestAPoisonedRequestFailsAlone(t *testing.T) {
	t.Parallel()
	running(t, examplePolicy, func(w *world) {
		poison := quota.Key{Tenant: "poison", Dimension: "small"}
		gate := make(chan struct{})
		w.store.before = func(s ledger.Scope) ledger.Scope {
			<-gate
			// The store forgets to lock an account: the rules break on whoever needs it.
			var kept []ledger.AccountID
			for _, id := range s.Accounts {
				if id.Key != poison {
					kept = append(kept, id)
				}
			}
			s.Accounts = kept
			return s
		}
		var mu sync.Mutex
		var failed []error
		granted := 0
		count := func(reply *pb.SyncReply, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = append(failed, err)
			} else if reply.Decisions[0].Amount == 1 {
				granted++
			}
		}
		first := w.occupy(w.t.Context(), acme("small"), count)
		bad := w.crowd(w.t.Context(), 1, keyMessage(poison), count)
		good := w.crowd(w.t.Context(), 10, acme("small"), count)
		synctest.Wait()
		close(gate)
		first.Wait()
		bad.Wait()
		good.Wait()
		if granted != 12 || len(failed) != 1 || !errors.Is(failed[0], ledger.ErrNotLocked) || errors.Is(failed[0], ErrUnavailable) {
			w.t.Errorf("%d granted, failed %v; want 12, and one that is not locked", granted, failed)
		}
		if commits := w.metric("commits_total"); commits != 3 {
			w.t.Errorf("%v commits, want 3", commits)
		}
	})
}

func TestO2FullQueueFailsFast(t *testing.T) {
	t.Parallel()
	running(t, examplePolicy, func(w *world) {
		release := w.hold()
		ctx, leave := context.WithCancel(w.t.Context())
		var mu sync.Mutex
		refused, left := 0, 0
		count := func(_ *pb.SyncReply, err error) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, context.Canceled) && errors.Is(err, ErrUnavailable):
				left++
			case errors.Is(err, ErrUnavailable):
				refused++
			default:
				w.t.Errorf("sync: %v", err)
			}
		}
		first := w.occupy(ctx, acme("small"), count)
		others := w.crowd(ctx, 1024+7, acme("small"), count)
		synctest.Wait()
		mu.Lock()
		if refused != 7 {
			w.t.Errorf("%d refused, want the 7 beyond a queue of 1024", refused)
		}
		mu.Unlock()
		leave()
		first.Wait()
		others.Wait()
		if left != 1026 {
			w.t.Errorf("%d left, want 1026", left)
		}
		release()
		synctest.Wait()
		// The transactions that were under way are whole; what only waited was dropped.
		if got := w.account("small").Outstanding; got != 2 {
			w.t.Errorf("%d outstanding, want 2", got)
		}
		if commits := w.metric("commits_total"); commits != 2 {
			w.t.Errorf("%v commits, want 2", commits)
		}
	})
}

func TestAStoppedReplicaIsUnavailable(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := w.cp.Run(ctx); err != nil {
		t.Fatal(err)
	}
	a := w.agent()
	if _, err := w.cp.Sync(t.Context(), &pb.SyncRequest{Hello: a.hello()}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("sync: %v, want unavailable", err)
	}
	if err := w.cp.Watch(t.Context(), a.inc.Bytes(), func(*pb.WatchReply) error { return nil }); !errors.Is(err, ErrUnavailable) {
		t.Errorf("watch: %v, want unavailable", err)
	}
	if w.cp.Ready() == nil {
		t.Error("a stopped replica says that it is ready")
	}
}

func TestSpendGoesThroughTheGranter(t *testing.T) {
	t.Parallel()
	running(t, examplePolicy, func(w *world) {
		a := w.agent()
		reply, err := w.cp.Spend(w.t.Context(), &pb.SpendRequest{Hello: a.hello(),
			Items: []*pb.SpendItem{{SpendId: w.id().Bytes(), Key: acme("payments"), Cost: 3}}})
		if err != nil || reply.Decisions[0].Amount != 3 || reply.Keys[0].Headroom != 7 {
			w.t.Errorf("spend: %v, %v", reply, err)
		}
	})
}
