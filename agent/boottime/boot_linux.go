package boottime

import (
	"time"

	"golang.org/x/sys/unix"
)

// readBoot reads a clock that no one can set and that counts through a suspend.
func readBoot() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(err) // the kernel has had it since 2.6.39
	}
	return time.Duration(ts.Nano())
}
