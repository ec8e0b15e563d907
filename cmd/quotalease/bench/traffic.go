package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/quotalease/quotalease/agent"
)

// taker decides: an agent.
type taker interface {
	Take(ctx context.Context, tenant, dimension string, cost int64) (agent.Decision, error)
}

// traffic takes one unit at a time, at a constant rate.
type traffic struct {
	now     func() time.Time
	rate    int     // takes a second, by all callers together
	callers []taker // what each of them asks; one take at a time
	// pick says of what a caller takes: n counts the takes of its own.
	pick func(caller int, n int64) (tenant, dimension string)
}

// call is one take that was answered.
type call struct {
	at, lasted time.Duration // since the traffic began, and how long
}

// flow is what became of takes.
type flow struct {
	allowed, denied int64
	calls           []call
}

func (f flow) and(g flow) flow {
	return flow{f.allowed + g.allowed, f.denied + g.denied, append(f.calls, g.calls...)}
}

// due is how many takes of one caller belong to a time. They go around, so that those of all
// callers together are what the rate says, to the last one.
func (t traffic) due(place int, ran time.Duration) int64 {
	whole := int64(t.rate) * int64(ran) / int64(time.Second)
	return (whole + int64(place)) / int64(len(t.callers))
}

// next is when a caller that made so many takes has to make one more.
func (t traffic) next(place int, made int64) time.Duration {
	whole := (made+1)*int64(len(t.callers)) - int64(place)
	return time.Duration(float64(whole) / float64(t.rate) * float64(time.Second))
}

// beat is how often takes are made up for at most.
const beat = time.Millisecond

// play lets all callers take for a span.
func (t traffic) play(ctx context.Context, span time.Duration) (flow, error) {
	flows := make([]flow, len(t.callers))
	began := t.now()
	err := each(t.callers, func(i int, a taker) error {
		var err error
		flows[i], err = t.call(ctx, a, i, began, span)
		return err
	})
	var all flow
	for _, f := range flows {
		all = all.and(f)
	}
	return all, err
}

// call takes what is due, again and again. A take that has to wait makes those after it late,
// not fewer.
func (t traffic) call(ctx context.Context, a taker, place int, began time.Time, span time.Duration) (f flow, err error) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for made := int64(0); ; {
		select {
		case <-ctx.Done():
			return f, ctx.Err()
		case <-timer.C:
		}
		ran := min(t.now().Sub(began), span)
		for due := t.due(place, ran); made < due; made++ {
			if err := t.take(ctx, a, place, made, began, &f); err != nil {
				return f, err
			}
		}
		if ran == span {
			return f, nil
		}
		timer.Reset(max(beat, min(t.next(place, made), span)-t.now().Sub(began)))
	}
}

func (t traffic) take(ctx context.Context, a taker, place int, n int64, began time.Time, f *flow) error {
	tenant, dimension := t.pick(place, n)
	from := t.now()
	d, err := a.Take(ctx, tenant, dimension, 1)
	var unavailable *agent.UnavailableError
	switch {
	case errors.As(err, &unavailable): // no answer: it is not counted
		return nil
	case err != nil:
		return fmt.Errorf("take at a constant rate: %w", err)
	case d.Allowed:
		f.allowed++
	default:
		f.denied++
	}
	f.calls = append(f.calls, call{from.Sub(began), t.now().Sub(from)})
	return nil
}

// took are how long calls lasted, in order, of those that began in a time.
func took(calls []call, from, to time.Duration) []time.Duration {
	var list []time.Duration
	for _, c := range calls {
		if c.at >= from && c.at < to {
			list = append(list, c.lasted)
		}
	}
	slices.Sort(list)
	return list
}

// each does something with all at the same time.
func each[T any](list []T, do func(i int, x T) error) error {
	failed := make([]error, len(list))
	var wg sync.WaitGroup
	for i, x := range list {
		wg.Go(func() { failed[i] = do(i, x) })
	}
	wg.Wait()
	return errors.Join(failed...)
}
