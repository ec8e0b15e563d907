// Package boottime reads a clock that nobody can set and that counts through a suspend, at the
// price of any other clock.
//
// A lease must die on time although the machine may sleep: Go's monotonic clock stands still
// while it does, and the wall clock can be set by anyone. The boot clock is right, but as a
// system call it costs ten times what the decision does that needs it.
//
// On Linux the kernel maps code into each process, the vDSO, that reads its clocks without a
// system call (vdso(7)), and since Linux 5.3 the boot clock is one of them. Go's runtime calls
// that code for its own two clocks; on amd64 this package does for the boot clock. One reading is
// one clock then, where time.Now reads two. Nothing is left to argue: it is the kernel's own
// answer, at every interleaving with a suspend, and the kernel has brought it up to date before
// it lets a process go on.
//
// Elsewhere the clock is sampled, at most once a second, and between samples extrapolated by the
// monotonic clock, which Go reads together with the wall clock. Both are compared: while the
// machine sleeps the wall clock runs on and the monotonic one does not, so a suspend shows in the
// very first reading after it, before anything is spent, and the boot clock is read anew. A wall
// clock that was merely set costs one such reading. What escapes is a suspend shorter than the
// tolerance (5 ms), or one that a wall clock set back by the same amount at the same time
// hides, and that for at most a second; the ledger's grace is longer than both, and the units
// of a dead lease are held there anyway.
//
// A coarse clock word, refreshed by a ticker, would be cheaper still and would be right for
// the totals of period quotas; but after a resume it is stale for a tick, and a lease that
// ended with its window would be spent in the next one. The kernel's coarse clocks do not help:
// of those one stops in a suspend, and the other can be set.
//
// Promises, and the tests that guard them:
//
//   - A reading is the kernel's boot time, on any goroutine and beside signals, and allocates
//     nothing. (TestReadingsAreTheKernels, TestSignalsAndSmallStacks, TestAReadingAllocatesNothing)
//   - A kernel whose vDSO does not read the boot clock is not called. (TestOldKernelsAreNotCalled)
//   - Of a sampled clock: a suspend shows in the first reading after it. (TestC2Suspend)
//   - A wall clock that steps changes nothing. (TestC5WallClockStepsBack)
//   - Readings between samples make no system call. (TestReadingsBetweenSamplesMakeNoSystemCall)
package boottime
