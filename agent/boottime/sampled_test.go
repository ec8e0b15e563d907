package boottime

import (
	"testing"
	"time"
)

// fakeClocks are the three clocks of a machine.
type fakeClocks struct {
	mono, boot time.Duration
	wall       int64
	bootReads  int
}

func (f *fakeClocks) run(d time.Duration) {
	f.mono, f.boot, f.wall = f.mono+d, f.boot+d, f.wall+int64(d)
}

// suspend stops Go's monotonic clock; wall and boot go on.
func (f *fakeClocks) suspend(d time.Duration) { f.boot, f.wall = f.boot+d, f.wall+int64(d) }

func (f *fakeClocks) clock() *sampled {
	c := &sampled{
		boot: func() time.Duration { f.bootReads++; return f.boot },
		read: func() (time.Duration, int64) { return f.mono, f.wall },
	}
	c.sample()
	return c
}

func TestC2Suspend(t *testing.T) {
	t.Parallel()
	f := &fakeClocks{boot: time.Hour, wall: 1e18}
	c := f.clock()
	deadline := c.Now() + 60*time.Second
	f.run(time.Second)
	if now := c.Now(); now >= deadline || now != time.Hour+time.Second {
		t.Fatalf("a second later it is %s", now)
	}
	f.suspend(600 * time.Second)
	if now := c.Now(); now < deadline {
		t.Fatalf("slept 600 s through a 60 s lease, and the clock says %s of %s: the dead lease would be spent", now, deadline)
	}
}

func TestC5WallClockStepsBack(t *testing.T) {
	t.Parallel()
	f := &fakeClocks{boot: time.Hour, wall: 1e18}
	c := f.clock()
	f.run(100 * time.Millisecond)
	before := c.Now()
	f.wall -= int64(time.Second)
	f.run(100 * time.Millisecond)
	if after := c.Now(); after-before != 100*time.Millisecond {
		t.Fatalf("the wall clock stepped back 1 s and 100 ms passed as %s", after-before)
	}
}

func TestReadingsBetweenSamplesMakeNoSystemCall(t *testing.T) {
	t.Parallel()
	f := &fakeClocks{boot: time.Hour, wall: 1e18}
	c := f.clock()
	reads := f.bootReads
	for range 900 {
		f.run(time.Millisecond)
		if c.Now() != f.boot {
			t.Fatalf("reads %s, boot time is %s", c.Now(), f.boot)
		}
	}
	if f.bootReads != reads {
		t.Fatalf("%d system calls in 0.9 s", f.bootReads-reads)
	}
	f.run(200 * time.Millisecond)
	if c.Now(); f.bootReads != reads+1 {
		t.Fatalf("%d samples after a second, want 1", f.bootReads-reads)
	}
}

func TestTheRealClockRuns(t *testing.T) {
	t.Parallel()
	c := newSampled()
	last := c.Now()
	for range 100_000 {
		now := c.Now()
		if now < last-time.Millisecond {
			t.Fatalf("went back from %s to %s", last, now)
		}
		last = now
	}
}

func TestASampleThatWasHeldUpIsTakenAgain(t *testing.T) {
	t.Parallel()
	f := &fakeClocks{boot: time.Hour, wall: 1e18}
	c := f.clock()
	readings := 0
	// The goroutine is held up for 50 ms after the first reading of the boot clock, and for
	// 1 ms, 20 ms and 20 ms after the others.
	held := []time.Duration{50 * time.Millisecond, time.Millisecond, 20 * time.Millisecond, 20 * time.Millisecond}
	c.boot = func() time.Duration {
		now := f.boot
		f.run(held[readings])
		readings++
		return now
	}
	f.run(2 * time.Second)
	c.sample()
	if late := f.boot - c.Now(); late < 0 || late > time.Millisecond {
		t.Errorf("after %d samples time is taken to be %s earlier than it is, the closest was 1 ms off", readings, late)
	}
}
