package main

import (
	"os"
	"runtime/debug"
)

// spareCollector lets the heap grow by so many percent before it is collected, where little of what is
// made lasts: with a heap of a few megabytes Go would collect it many times a second, and each time
// walk the stacks of all callers. Who sets GOGC knows better.
func spareCollector(percent int) (restore func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	was := debug.SetGCPercent(percent)
	return func() { debug.SetGCPercent(was) }
}

const (
	// controlPlaneGC is a control plane's, whose heap does not grow with its keys: with it one grants a
	// seventh more.
	controlPlaneGC = 400
	// simGC is the simulator's, which takes half the time with it.
	simGC = 800
)
