package local

import (
	"context"
	"errors"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Enter takes the slots that charges name, one limit after the other, and waits in line for them
// for at most patience, the age that the queue allows and ctx, and not once stop is closed. All or
// none: who is denied, or leaves, holds nothing. The error is a *quota.FieldError about the caller,
// or ctx's when it was cancelled; a deadline is the end of patience.
func (s *Set) Enter(ctx context.Context, stop <-chan struct{}, now func() time.Duration, c *Caller, charges []Charge, patience time.Duration) (Verdict, error) {
	began := now()
	for i := range charges {
		ch := &charges[i]
		if ch.limiter.slots == nil {
			continue
		}
		var room [4 * MaxCallerBytes]byte
		t := ch.limiter.slots
		key, err := t.limit.Load().key(s.hash, room[:0], ch.tenant, c)
		if err != nil {
			s.Leave(now(), charges[:i])
			return Verdict{}, err
		}
		at := now()
		out, left := TooManyKeys, quota.Units(0)
		if e := t.lock(at, key); e != nil {
			woken := make(chan struct{})
			ch.slots, ch.place = e, &place{cost: quota.Units(ch.cost), bytes: c.Bytes, wake: func() { close(woken) }}
			e.state.enter(at, ch.place, max(patience-(at-began), 0))
			waits := ch.place.state == queued
			e.shard.mu.Unlock()
			if waits {
				stand(ctx, stop, woken, ch.place.until-at)
			}
			out, left = ch.settle(now())
			ch.limiter.counts.wait.Observe((now() - at).Seconds())
		}
		if errors.Is(ctx.Err(), context.Canceled) {
			s.Leave(now(), charges[:i+1])
			return Verdict{}, ctx.Err()
		}
		ch.limiter.counts.decided(out, ch.cost, left)
		if out != Passed {
			s.Leave(now(), charges[:i])
			ch.place = nil
			return Verdict{Denied: ch.limiter.limit(), Outcome: out, Answer: Answer{Left: left, TooLarge: out == TooLarge}}, nil
		}
	}
	return Verdict{}, nil
}

// stand waits in line.
func stand(ctx context.Context, stop, woken <-chan struct{}, most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-woken:
	case <-timer.C:
	case <-stop:
	case <-ctx.Done():
	}
}

// settle is the end of a wait: work has begun, or it will not.
func (ch *Charge) settle(now time.Duration) (Outcome, quota.Units) {
	t := ch.limiter.slots
	t.relock(ch.slots)
	defer ch.slots.shard.mu.Unlock()
	if ch.place.state == queued {
		ch.slots.state.leave(now, ch.place)
	}
	left := ch.slots.state.left()
	if ch.place.state == running {
		return Passed, left
	}
	return ch.place.why, left
}

// Leave gives back the slots: the work has ended. A repeat changes nothing.
func (s *Set) Leave(now time.Duration, charges []Charge) {
	for i := range charges {
		ch := &charges[i]
		p := ch.place
		if p == nil {
			continue
		}
		ch.limiter.slots.relock(ch.slots)
		ended := p.state == running
		ch.slots.state.leave(now, p)
		ch.slots.shard.mu.Unlock()
		ch.place = nil
		if ended {
			ch.limiter.counts.held.Observe((now - p.began).Seconds())
		}
	}
}
