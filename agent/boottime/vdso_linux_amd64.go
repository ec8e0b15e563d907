package boottime

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Reader returns the function that reads the clock.
func Reader() func() time.Duration {
	if readsBoot(release()) {
		if entry, err := clockGettime(); err == nil && callClock(entry, unix.CLOCK_BOOTTIME) >= 0 {
			return func() time.Duration { return time.Duration(callClock(entry, unix.CLOCK_BOOTTIME)) }
		}
	}
	return newSampled().Now // a kernel without it, or a sandbox that hides it
}

// release is that of the kernel, empty if it does not say.
func release() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// readsBoot reports that the vDSO of a kernel of this release reads the boot clock, since 5.3. Older
// ones are not called: theirs makes a system call of it, is linked to begin elsewhere (before
// 3.16), or was built by some to touch more of the stack than a goroutine has (before 4.15).
func readsBoot(release string) bool {
	var major, minor int
	n, _ := fmt.Sscanf(release, "%d.%d", &major, &minor)
	return n == 2 && (major > 5 || major == 5 && minor >= 3)
}

// callClock calls the kernel's clock_gettime(2), and returns nanoseconds or, if it fails, -1.
func callClock(entry uintptr, clock int32) (ns int64)

// clockGettime finds the function in what the kernel mapped into this process.
func clockGettime() (entry uintptr, err error) {
	const (
		header   = 33      // AT_SYSINFO_EHDR: where the mapping begins
		mostSize = 1 << 20 // of the mapping, which has a few pages
	)
	vector, err := unix.Auxv()
	if err != nil {
		return 0, fmt.Errorf("read the auxiliary vector: %w", err)
	}
	var base uintptr
	for _, v := range vector {
		if v[0] == header {
			base = v[1]
		}
	}
	if base == 0 {
		return 0, errors.New("the kernel maps no vdso")
	}
	memory, err := os.Open("/proc/self/mem")
	if err != nil {
		return 0, fmt.Errorf("read the vdso: %w", err)
	}
	defer func() { err = errors.Join(err, memory.Close()) }()
	image, err := elf.NewFile(io.NewSectionReader(memory, int64(base), mostSize))
	if err != nil {
		return 0, fmt.Errorf("read the vdso: %w", err)
	}
	symbols, err := image.DynamicSymbols()
	if err != nil {
		return 0, fmt.Errorf("read the vdso's symbols: %w", err)
	}
	for _, s := range symbols {
		if s.Name == "__vdso_clock_gettime" {
			return base + uintptr(s.Value), nil // it is linked to begin at 0
		}
	}
	return 0, errors.New("the vdso reads no clocks")
}
