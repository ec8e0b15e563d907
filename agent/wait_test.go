package agent_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// theirs is somebody else's service: 100 calls a second, and up to 100 at once.
type theirs struct {
	mu              sync.Mutex
	level           time.Duration // a call is 10 ms
	at              time.Time
	sends, rejected int
}

func (s *theirs) call() (accepted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.level, s.at = min(s.level+now.Sub(s.at), time.Second), now
	s.sends++
	if s.level < 10*time.Millisecond {
		s.rejected++
		return false
	}
	s.level -= 10 * time.Millisecond
	return true
}

// REQUIREMENTS R1.12. Their burst of 100 is split into ours and what leases may add to it.
func TestR1_12WaitingSendsEachRecordOnce(t *testing.T) {
	t.Parallel()
	const records, callers = 10_000, 8
	inWorld(t, `
dimensions:
- {name: their_api, kind: rate, limit: 100/s, burst: 50, class: hard, overshoot: 50, lease: {ttl: 10s}, cold: {wait: 500ms, then: deny}}
`, func(t *testing.T, w *world) {
		began := time.Now()
		resent := &theirs{level: time.Second, at: began}
		for done := 0; done < records; time.Sleep(time.Second / 300) { // who resends what was rejected
			if resent.call() {
				done++
			}
		}
		if resent.sends < 29_000 || resent.sends > 30_000 {
			t.Errorf("resending what was rejected: %d sends, want about 30,000", resent.sends)
		}
		began = time.Now()
		paced := &theirs{level: time.Second, at: began}
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for range records / callers {
					if err := w.agent.Wait(t.Context(), "acme", "their_api", 1); err != nil {
						t.Error(err)
						return
					}
					paced.call()
				}
			})
		}
		wg.Wait()
		if paced.sends != records || paced.rejected != 0 {
			t.Errorf("waiting: %d sends, %d rejected, want %d and none", paced.sends, paced.rejected, records)
		}
		if took := time.Since(began); took > 101*time.Second {
			t.Errorf("waiting took %v, want the 99 s that 100 a second need", took)
		}
	})
}

// Callers are served in the order in which they came, a large cost too, which small ones would
// overtake if each took when it could.
func TestWaitIsFirstComeFirstServed(t *testing.T) {
	t.Parallel()
	inWorld(t, doorsPolicy, func(t *testing.T, w *world) {
		w.take(of+`"calls","cost":4}`, "allowed", "calls") // 2 a second from here
		var mu sync.Mutex
		var served []int64
		var at []time.Duration
		began := time.Now()
		var wg sync.WaitGroup
		for _, cost := range []int64{1, 4, 1, 2, 1} {
			wg.Go(func() {
				if err := w.agent.Wait(t.Context(), "acme", "calls", cost); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				served, at = append(served, cost), append(at, time.Since(began).Round(100*time.Millisecond))
			})
			synctest.Wait() // it is in line
		}
		wg.Wait()
		if want := []int64{1, 4, 1, 2, 1}; !slices.Equal(served, want) {
			t.Errorf("served %v, want %v", served, want)
		}
		want := []time.Duration{500 * time.Millisecond, 2500 * time.Millisecond, 3 * time.Second, 4 * time.Second, 4500 * time.Millisecond}
		if !slices.Equal(at, want) {
			t.Errorf("served at %v, want %v", at, want)
		}
	})
}

// A thousand who wait ask no more often than one.
func TestAThousandWaitersAskAsOne(t *testing.T) {
	t.Parallel()
	inWorld(t, doorsPolicy, func(t *testing.T, w *world) {
		w.take(of+`"calls","cost":4}`, "allowed", "calls")
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				if err := w.agent.Wait(ctx, "acme", "calls", 1); err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		before := w.up.calls()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := w.up.calls() - before; n > 100 {
			t.Errorf("%d messages in ten seconds in which 20 were served", n)
		}
		cancel()
		wg.Wait()
	})
}

// wantDenied holds an error to a denial that it is no use to wait for.
func wantDenied(t *testing.T, err error, reason quota.Reason) *agent.DeniedError {
	t.Helper()
	var denied *agent.DeniedError
	if !errors.As(err, &denied) || denied.Reason != reason {
		t.Fatalf("%v, want a denial: %s", err, reason)
	}
	return denied
}

func TestWaitSaysAtOnceWhatItIsNoUseToWaitFor(t *testing.T) {
	t.Parallel()
	inWorld(t, doorsPolicy, func(t *testing.T, w *world) {
		w.take(of+`"calls","cost":4}`, "allowed", "calls")
		w.take(of+`"exports","cost":10}`, "allowed", "exports")
		began := time.Now()
		soon, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()

		if d := wantDenied(t, w.agent.Wait(t.Context(), "acme", "calls", 5), quota.TooLarge); d.Largest != 4 ||
			d.Error() != "wait for acme/calls: too_large: the largest cost that can pass is 4" {
			t.Errorf("%v", d)
		}
		if d := wantDenied(t, w.agent.Wait(soon, "acme", "calls", 2), quota.Exhausted); d.RetryIn < 900*time.Millisecond || d.RetryIn > time.Second {
			t.Errorf("%v, want about a second", d)
		}
		wantDenied(t, w.agent.WaitAll(soon, "acme", []core.DimensionCost{{Dimension: "payments", Cost: 1}, {Dimension: "exports", Cost: 1}}), quota.Exhausted)
		wantDenied(t, w.agent.WaitOperation(soon, "acme", "export", 1), quota.Exhausted)
		var field *quota.FieldError
		for _, err := range []error{
			w.agent.Wait(t.Context(), "acme", "calls", 0), w.agent.Wait(t.Context(), "", "calls", 1),
			w.agent.Wait(t.Context(), "acme", "exprots", 1), w.agent.WaitOperation(t.Context(), "acme", "exprot", 1),
			w.agent.WaitAll(t.Context(), "acme", nil),
		} {
			if !errors.As(err, &field) {
				t.Errorf("%v, want a fault of the request", err)
			}
		}
		if took := time.Since(began); took > 50*time.Millisecond {
			t.Errorf("took %v", took)
		}
		// Behind somebody who has to wait longer than that.
		first := make(chan error, 1)
		go func() { first <- w.agent.Wait(t.Context(), "acme", "calls", 4) }()
		synctest.Wait()
		time.Sleep(100 * time.Millisecond)
		began = time.Now()
		hurried, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if d := wantDenied(t, w.agent.Wait(hurried, "acme", "calls", 1), quota.Exhausted); d.RetryIn < 1700*time.Millisecond || time.Since(began) != 0 {
			t.Errorf("%v after %v", d, time.Since(began))
		}
		if err := <-first; err != nil {
			t.Error(err)
		}
	})
}

// Who waits outlasts an outage, unless the deadline comes first; who hangs up is charged nothing.
func TestWaitOutlastsAnOutage(t *testing.T) {
	t.Parallel()
	inWorld(t, doorsPolicy, func(t *testing.T, w *world) {
		w.take(of+`"payments"}`, "allowed", "payments")
		w.up.cut(true)
		time.Sleep(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		var away *agent.UnavailableError
		if err := w.agent.Wait(ctx, "acme", "payments", 1); !errors.As(err, &away) || time.Since(began) > 10*time.Second {
			t.Errorf("after %v: %v, want an outage", time.Since(began), err)
		}
		hungUp, hangUp := context.WithCancel(t.Context())
		left, served := make(chan error, 1), make(chan error, 1)
		go func() { left <- w.agent.Wait(hungUp, "acme", "payments", 50) }()
		synctest.Wait()
		go func() { served <- w.agent.Wait(t.Context(), "acme", "payments", 1) }()
		synctest.Wait()
		hangUp()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("who hung up: %v", err)
		}
		w.up.cut(false)
		if err := <-served; err != nil {
			t.Errorf("who waited: %v", err)
		}
		w.left("payments", 98)
	})
}

// A limit that grows serves who waits for a far moment.
func TestWaitHearsOfAGrownLimit(t *testing.T) {
	t.Parallel()
	inWorld(t, doorsPolicy, func(t *testing.T, w *world) {
		w.take(of+`"exports","cost":10}`, "allowed", "exports")
		served := make(chan error, 1)
		go func() { served <- w.agent.Wait(t.Context(), "acme", "exports", 1) }()
		synctest.Wait()
		time.Sleep(time.Minute)
		more := &pb.PolicyFile{Name: "test.yaml", Text: strings.Replace(doorsPolicy, "limit: 10,", "limit: 11,", 1)}
		applied, err := w.up.control.ApplyPolicy(t.Context(), &pb.ApplyPolicyRequest{Files: []*pb.PolicyFile{more}, Who: "tester", Why: "test"})
		if err != nil {
			t.Fatal(err)
		}
		w.up.store.SetPolicyVersion(applied.GetVersion())
		began := time.Now()
		if err := <-served; err != nil || time.Since(began) > 15*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}
