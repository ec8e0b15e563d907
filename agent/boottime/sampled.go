package boottime

import (
	"math"
	"sync/atomic"
	"time"
)

// sampled reads boot time without a system call on most readings. It keeps a sample of the
// boot clock beside Go's two clocks, which cost no system call, and extrapolates by the
// monotonic one. That one stands still while the machine is suspended and the wall clock does
// not, so a difference between the two since the sample means a suspend, or a step of the wall
// clock; either way the boot clock is read anew. See the package comment for what escapes it.
type sampled struct {
	boot func() time.Duration
	read func() (mono time.Duration, wall int64) // since the epoch; Unix ns
	last atomic.Pointer[reading]
}

type reading struct {
	mono time.Duration
	wall int64
	boot time.Duration
}

const (
	// tolerance is the most that the wall clock may run apart from the monotonic one
	// between samples without a suspend being suspected. It is far above what slewing does in
	// resample (0.5 ms), and a suspend shorter than it is inside any lease's grace.
	tolerance = 5 * time.Millisecond
	resample  = time.Second
)

func newSampled() *sampled {
	epoch := time.Now()
	c := &sampled{boot: readBoot, read: func() (time.Duration, int64) {
		t := time.Now()
		return t.Sub(epoch), t.UnixNano()
	}}
	c.sample()
	return c
}

// Now is the current boot time.
func (c *sampled) Now() time.Duration {
	mono, wall := c.read()
	s := c.last.Load()
	elapsed := mono - s.mono
	apart := time.Duration(wall-s.wall) - elapsed
	if elapsed >= 0 && elapsed < resample && apart > -tolerance && apart < tolerance {
		return s.boot + elapsed
	}
	return c.sample()
}

// sample reads all three clocks at one moment, as nearly as can be: if the goroutine was held
// up between the readings they are taken again, and the closest are kept. Of the two readings
// around the boot clock's the later one counts, so that what error is left makes time seem
// earlier by that spread at most, never later.
func (c *sampled) sample() time.Duration {
	var s *reading
	best := time.Duration(math.MaxInt64)
	for range attempts {
		before, _ := c.read()
		boot := c.boot()
		mono, wall := c.read()
		if spread := mono - before; spread < best {
			best, s = spread, &reading{mono: mono, wall: wall, boot: boot}
		}
		if best < closeEnough {
			break
		}
	}
	c.last.Store(s)
	return s.boot
}

const (
	attempts    = 4
	closeEnough = 200 * time.Microsecond
)
