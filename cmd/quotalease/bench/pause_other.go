//go:build !linux

package bench

import "time"

// keepTime makes do with the runtime's timers, which may be a millisecond late.
func keepTime(do func(pause func(time.Duration))) { do(time.Sleep) }
