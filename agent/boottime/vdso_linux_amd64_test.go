package boottime

import "testing"

// allowed is how far a reading may be from the kernel's: on this platform it is the kernel's.
const allowed = 0

func TestTheKernelsFunctionIsFound(t *testing.T) {
	t.Parallel()
	if _, err := clockGettime(); err != nil {
		t.Error(err)
	}
	if entry, _ := clockGettime(); callClock(entry, 1<<20) != -1 {
		t.Error("a clock that does not exist was read")
	}
}
