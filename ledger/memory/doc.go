// Package memory keeps a ledger in memory, for tests and simulation. It holds the same
// promises as the Postgres store, and loads what a transaction needs by the same rules; its
// clock, policy version and faults are its owner's to set. Nothing survives the process.
//
// Promises, and the tests that guard them:
//
//   - It passes the conformance suite that the Postgres store passes. (TestStore)
//   - What goes in and comes out is copied: a caller can change neither the store nor
//     another caller's view. (TestNothingIsShared)
//   - A commit that fails writes nothing and is tried again; one whose outcome is unknown is
//     submitted again and finds what it wrote. (TestD5RetryAfterAFailedCommit,
//     TestD8UnknownCommit)
//   - A transaction reads what its scope names and no more, however much there is beside it.
//     (TestLoadsAreBounded)
package memory
