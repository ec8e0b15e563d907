package boottime

import (
	"testing"
	"time"
)

// allowed is how far a reading may be from the kernel's: here it is the kernel's, unless that is old.
var allowed = func() time.Duration {
	if readsBoot(release()) {
		return 0
	}
	return time.Millisecond
}()

func TestTheKernelsFunctionIsFound(t *testing.T) {
	t.Parallel()
	if !readsBoot(release()) {
		t.Skip("this kernel's function is not called: it is", release())
	}
	if _, err := clockGettime(); err != nil {
		t.Error(err)
	}
	if entry, _ := clockGettime(); callClock(entry, 1<<20) != -1 {
		t.Error("a clock that does not exist was read")
	}
}

// A kernel whose vDSO does not read the boot clock itself is not called: it would cost a system
// call each time, and an old one's function is not where a new one's is.
func TestOldKernelsAreNotCalled(t *testing.T) {
	t.Parallel()
	for release, want := range map[string]bool{
		"2.6.60-1": false, "3.10.0-1160.el7.x86_64": false, "4.4.0": false, "4.18.0-553.el8": false, "5.2.21": false,
		"5.3.0-42-generic": true, "5.10.0": true, "6.18.44": true, "10.0": true,
		"": false, "6": false, "6.": false, "v6.1": false, "-6.1": false,
	} {
		if readsBoot(release) != want {
			t.Errorf("%q: %t", release, !want)
		}
	}
}
