// Package stage starts what `dev` and `demo` play on: a Postgres, a control plane and agents,
// the last two as processes of this same binary. It stops what it started, in order, and
// leaves nothing behind.
//
// Promises, and the tests that guard them:
//
//   - A child ends when its parent does, however that happens. (TestAChildDoesNotOutliveItsParent)
//   - A child that does not start says why. (TestAChildThatFailsSaysWhy)
//   - A child never waits for its output to be read. (TestALongLineDoesNotStallTheChild)
//   - Stop is graceful, and forceful when that takes too long. (TestStopIsGracefulThenForceful)
package stage
