//go:build !linux

package boottime

import "time"

var started = time.Now()

// readBoot stands in for a boot clock where none is at hand: the later of the monotonic and
// the wall clock's elapsed time. A suspend shows in the second; a wall clock set forward ends
// leases early, which is safe; one set back leaves the monotonic reading.
func readBoot() time.Duration {
	t := time.Now()
	return max(t.Sub(started), t.Round(0).Sub(started.Round(0)))
}
