package trace

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Due is how long after the start of a replay an event happens that was recorded at the
// time at, in a trace that begins at first. Speed 1 is as recorded, 10 ten times faster,
// and 0 leaves no pauses at all.
func Due(first, at time.Time, speed float64) time.Duration {
	gap := at.Sub(first)
	if gap <= 0 || speed == 0 {
		return 0
	}
	due := float64(gap) / speed
	if due >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(due)
}

// Pacing says how fast to replay, and by which clock.
type Pacing struct {
	Speed    float64                                    // see Due
	Now      func() time.Time                           // not called at speed 0
	Sleep    func(context.Context, time.Duration) error // not called at speed 0; see Sleep
	Progress func(done, total int)                      // after every event; may be nil
}

// Pace hands every event to emit when it is due, one after the other, and returns when the
// last one was emitted, emit or Sleep reports an error, or ctx ends. Events must be in
// order of time. One that is late goes at once, and does not delay those after it: the
// time of each is counted from the start of the replay.
func Pace(ctx context.Context, events []Event, p Pacing, emit func(Event) error) error {
	if math.IsNaN(p.Speed) || math.IsInf(p.Speed, 1) || p.Speed < 0 {
		return &quota.FieldError{Field: "--speed", Allowed: "0 (no pauses) or above; 1 is as recorded"}
	}
	var start time.Time
	if p.Speed > 0 {
		start = p.Now()
	}
	for i, e := range events {
		if ctx.Err() != nil {
			return fmt.Errorf("replay event %d of %d: %w", i+1, len(events), context.Cause(ctx))
		}
		if p.Speed > 0 {
			if wait := Due(events[0].At, e.At, p.Speed) - p.Now().Sub(start); wait > 0 {
				if err := p.Sleep(ctx, wait); err != nil {
					return fmt.Errorf("wait for event %d of %d: %w", i+1, len(events), err)
				}
			}
		}
		if err := emit(e); err != nil {
			return fmt.Errorf("replay event %d of %d: %w", i+1, len(events), err)
		}
		if p.Progress != nil {
			p.Progress(i+1, len(events))
		}
	}
	return nil
}

// Sleep waits for d or the end of ctx, whichever comes first, on the machine's clock.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
