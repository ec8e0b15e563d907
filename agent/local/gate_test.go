package local

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

func gate(slots, queue int64) *pb.LocalLimit {
	return &pb.LocalLimit{Name: "gate", Algorithm: "concurrency", Capacity: slots, QueueCount: queue, QueueAgeUs: time.Second.Microseconds(),
		Ipv6Prefix: 64, IdleUs: 1_000_000, MaxKeys: 10}
}

// Callers who wait for slots are served in order, at most as many as there are slots run at once,
// and who hangs up or runs out of time leaves nothing behind.
func TestR1_11AStormAtTheGate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := setOf(t, gate(2, 5))
		began := time.Now()
		now := func() time.Duration { return time.Since(began) }
		enter := func(ctx context.Context) (Verdict, []Charge, error) {
			charges := s.Plan().Dimension(nil, d, 1, 1)
			v, err := s.Enter(ctx, nil, now, &Caller{}, charges, forever)
			return v, charges, err
		}
		var wg sync.WaitGroup
		var running, most atomic.Int64
		outcomes := map[Outcome]int{}
		var mu sync.Mutex
		for i := range 10 { // two run, five wait, three are refused
			wg.Go(func() {
				time.Sleep(time.Duration(i) * ms)
				v, charges, err := enter(t.Context())
				mu.Lock()
				outcomes[v.Outcome]++
				mu.Unlock()
				if err != nil || v.Denied != nil {
					return
				}
				most.Store(max(most.Load(), running.Add(1)))
				time.Sleep(400 * ms)
				running.Add(-1)
				s.Leave(now(), charges)
			})
		}
		wg.Wait()
		// At 400 and 800 ms two more begin; the seventh would at 1200, and gives up after a second.
		if most.Load() != 2 || outcomes[""] != 6 || outcomes[NoPermit] != 1 || outcomes[QueueFull] != 3 {
			t.Errorf("at most %d ran at once, %v", most.Load(), outcomes)
		}
		a, held, _ := enter(t.Context())
		_, held2, _ := enter(t.Context())
		ctx, hangUp := context.WithCancel(t.Context())
		time.AfterFunc(10*ms, hangUp)
		if _, _, err := enter(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("who hung up is told %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*ms)
		defer cancel()
		if v, _, err := enter(ctx); err != nil || v.Outcome != NoPermit {
			t.Errorf("whose deadline is over is told %+v, %v", v, err)
		}
		s.Leave(now(), held)
		s.Leave(now(), held2)
		if l := s.Plan().byName["gate"].slots; a.Denied != nil || l.count.Load() != 1 {
			t.Error("a gate without a key has one queue")
		} else {
			l.each(func(s *slots) {
				if !s.rest(0) {
					t.Errorf("%+v is left behind", s)
				}
			})
		}
	})
}
