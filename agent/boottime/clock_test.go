package boottime

import (
	"bytes"
	"runtime"
	"runtime/pprof"
	"sync"
	"testing"
	"time"
)

func TestReadingsAreTheKernels(t *testing.T) {
	t.Parallel()
	now := Reader()
	for range 100_000 {
		before := readBoot()
		is := now()
		if after := readBoot(); is < before-allowed || is > after+allowed {
			t.Fatalf("read %d between the kernel's %d and %d", is, before, after)
		}
	}
}

// Readings run the kernel's code on stacks that begin small, while signals of a profiler and of
// the scheduler come in between, and stacks are moved.
func TestSignalsAndSmallStacks(t *testing.T) {
	var profile bytes.Buffer
	if err := pprof.StartCPUProfile(&profile); err != nil {
		t.Fatal(err)
	}
	defer pprof.StopCPUProfile()
	now := Reader()
	var wg sync.WaitGroup
	for range 2_000 {
		wg.Go(func() {
			last := now()
			for range 200 {
				is := deep(20, now)
				if is < last-allowed {
					t.Errorf("went back from %d to %d", last, is)
				}
				last = is
			}
		})
	}
	for range 20 {
		runtime.GC()
	}
	wg.Wait()
}

// deep reads the clock below some frames, where the stack's end may be near.
func deep(frames int, now func() time.Duration) time.Duration {
	var room [64]byte
	if frames > 0 {
		is := deep(frames-1, now)
		runtime.KeepAlive(&room)
		return is
	}
	return now()
}

func TestAReadingAllocatesNothing(t *testing.T) {
	now := Reader()
	if n := testing.AllocsPerRun(1_000, func() { now() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkClocks has the clocks side by side: ours, what there is without a vDSO, and Go's.
func BenchmarkClocks(b *testing.B) {
	sampled, since := newSampled().Now, time.Now()
	for _, c := range []struct {
		name string
		read func() time.Duration
	}{
		{"boot", Reader()},
		{"sampled", sampled},
		{"system call", readBoot},
		{"time.Since", func() time.Duration { return time.Since(since) }},
		{"time.Now", func() time.Duration { return time.Duration(time.Now().Nanosecond()) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.read()
			}
		})
	}
}
