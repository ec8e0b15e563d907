package bench

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// keepTime gives a thread to who has to be in time: the runtime's own timers may be a
// millisecond late, which is more than an answer takes.
func keepTime(do func(pause func(time.Duration))) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	do(func(d time.Duration) {
		span := unix.NsecToTimespec(int64(d))
		_ = unix.Nanosleep(&span, nil) // woken too early, it is asked again
	})
}
