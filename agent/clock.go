package agent

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/quotalease/quotalease/agent/core"
)

// bootClock reads boot time without a system call on most readings. It keeps a sample of the
// boot clock beside Go's two clocks, which cost no system call, and extrapolates by the
// monotonic one. That one stands still while the machine is suspended and the wall clock does
// not, so a difference between the two since the sample means a suspend, or a step of the wall
// clock; either way the boot clock is read anew. See the package comment for why this is the
// cheapest reading that is right for a lease.
type bootClock struct {
	boot func() time.Duration
	read func() (mono time.Duration, wall int64) // since the epoch; Unix ns
	last atomic.Pointer[clockSample]
}

type clockSample struct {
	mono time.Duration
	wall int64
	boot time.Duration
}

const (
	// clockTolerance is the most that the wall clock may run apart from the monotonic one
	// between samples without a suspend being suspected. It is far above what slewing does in
	// clockResample (0.5 ms), and a suspend shorter than it is inside any lease's grace.
	clockTolerance = 5 * time.Millisecond
	clockResample  = time.Second
)

func newBootClock() *bootClock {
	epoch := time.Now()
	c := &bootClock{boot: bootTime, read: func() (time.Duration, int64) {
		t := time.Now()
		return t.Sub(epoch), t.UnixNano()
	}}
	c.sample()
	return c
}

// Now is the current boot time.
func (c *bootClock) Now() core.Instant {
	mono, wall := c.read()
	s := c.last.Load()
	elapsed := mono - s.mono
	apart := time.Duration(wall-s.wall) - elapsed
	if elapsed >= 0 && elapsed < clockResample && apart > -clockTolerance && apart < clockTolerance {
		return s.boot + elapsed
	}
	return c.sample()
}

// sample reads all three clocks at one moment, as nearly as can be: if the goroutine was held
// up between the readings they are taken again, and the closest are kept. Of the two readings
// around the boot clock's the later one counts, so that what error is left makes time seem
// earlier by that spread at most, never later.
func (c *bootClock) sample() core.Instant {
	var s *clockSample
	best := time.Duration(math.MaxInt64)
	for range sampleAttempts {
		before, _ := c.read()
		boot := c.boot()
		mono, wall := c.read()
		if spread := mono - before; spread < best {
			best, s = spread, &clockSample{mono: mono, wall: wall, boot: boot}
		}
		if best < sampleSpread {
			break
		}
	}
	c.last.Store(s)
	return s.boot
}

const (
	sampleAttempts = 4
	sampleSpread   = 200 * time.Microsecond
)
