// Package postgres keeps the ledger in Postgres. SQL locks and stores; the arithmetic is
// package ledger's. A transaction is two round trips: lock, read the clock and load; write and
// commit. lock.go says why transactions cannot deadlock.
//
// The server needs nothing but the schema of package migrations. Classes exact, hard and
// bounded keep their bounds over a failover only with a synchronous standby. A pooler in
// transaction mode may stand between; if it does not know prepared statements, add
// default_query_exec_mode=exec to the connection string.
//
// Promises, and the tests that guard them:
//
//   - It behaves as ledger.Store, Reader, Keeper, Billing and Lines say, with prepared statements and
//     without. (TestConformance)
//   - A transaction takes two round trips, whatever its size, and two more on accounts that are new where
//     none were new for long. (TestTwoRoundTrips)
//   - Two transactions never deadlock, and first grants make one account.
//     (TestP1LockOrder, TestP2FirstGrants)
//   - A lock that is not free, a store that hangs and a demoted primary are ErrUnavailable in
//     bounded time, never a denial. (TestP3DeadLockHolder, TestO2SlowStore,
//     TestO1DemotedPrimary, TestO1StandbyBehindAPooler)
//   - A client that hangs loses its locks. (TestP3HungReplica)
//   - A transaction that conflicts runs again as a whole. (TestD5RetryAfter40001,
//     TestSameIDUnderOtherLocks)
//   - COMMIT is never cancelled, and an unknown outcome is settled by the same batch.
//     (TestCommitIsNeverCancelled, TestD8UnknownCommit)
//   - The clock is read under the locks, and a replica whose clock is off decides nothing.
//     (TestClockIsReadUnderTheLock, TestReplicaClockSkew)
//   - One changed counter is found and named. (TestVerifyFindsOneChangedCounter)
//   - Events become visible in the order of their ids.
//     (TestEventsBecomeVisibleInTheOrderOfTheirIds)
//   - Old grants are found by primary key, a bounded range at a time.
//     (TestFoldableWalksThePrimaryKey)
//   - Windows to close are found at the ends of two indexes; statements live as long as their
//     account. (TestWindowsToCloseAreTheEndsOfTwoIndexes, TestPruneTakesStatementsAndLimits,
//     TestAccountsOfAnOlderVersionAreStatedToo)
//   - Hot rows are updated in place, and plans made on empty tables stay good.
//     (TestP5UpdatesAreHOT, TestP5IdleTransactionBesideTheLoad, TestPlansOfEmptyTables)
//   - Every statement fits the schema. (TestStatementsPrepare)
package postgres
