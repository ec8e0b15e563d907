package main

import (
	"os"
	"runtime/debug"
	"testing"
)

// Who starts a process with GOGC decides, whatever its command prefers.
func TestTheCollectorIsSparedUnlessGOGCIsSet(t *testing.T) { // not parallel: there is one collector
	current := func() int {
		percent := debug.SetGCPercent(100)
		debug.SetGCPercent(percent)
		return percent
	}
	t.Setenv("GOGC", "")
	if err := os.Unsetenv("GOGC"); err != nil {
		t.Fatal(err)
	}
	before := current()
	restore := spareCollector(before + 50)
	if got := current(); got != before+50 {
		t.Errorf("GOGC is %d, want %d", got, before+50)
	}
	restore()
	if got := current(); got != before {
		t.Errorf("GOGC is %d afterwards, want %d", got, before)
	}
	t.Setenv("GOGC", "100")
	defer spareCollector(before + 50)()
	if got := current(); got != before {
		t.Errorf("GOGC is %d, want the %d of before", got, before)
	}
}
