// Package controlplane decides on leases and spends: it reads a policy snapshot, then records
// grants in the ledger. A replica is stateless; any number of them share one ledger.
//
// Desk is the core: requests in, one transaction, answers out, without a queue or a goroutine.
// ControlPlane wraps it in the loops of a replica (group commit, policy, notices, recall,
// sweeping), which Run owns. Messages are those of proto/quotalease/v1; package rpc serves them.
//
// Promises, and the tests that guard them:
//
//   - L is the budget over the agents, and no lease exceeds L less what its agent holds, the
//     headroom or the budget. (TestR2_4LeaseCapIsBudgetOverAgents,
//     TestR2_4TwentyFourAgentsHoldTenEach, TestLeaseSizeNeverExceedsItsRoom)
//   - The end of a quota is shared out, not taken by the first asker.
//     (TestLeaseSizeIsTheLeastOfItsLimits)
//   - What a dimension can go over is computed before it is accepted, with what to change.
//     (TestR2_4BoundIsComputedBeforeItIsAccepted, TestR2_4BoundSaysWhatToChange,
//     TestSmallerLeasesAreAdvisedOnlyForAPeakThatIsGiven)
//   - What policy lets pass outside of a bound is named beside it.
//     (TestR2_4BoundNamesWhatLiesOutsideOfIt)
//   - What a window can end with is stated for every class. (TestWindowBoundCoversEveryClass)
//   - Lost, repeated and reordered Syncs, crashes and sweeps never lift true use above a
//     class's bound. (TestHistoriesKeepEveryBound)
//   - A repeat gets the first answer, whatever happened to its policy since.
//     (TestD1LostReplyGetsTheFirstAnswer, TestR2_2RepeatOutlivesItsDimension)
//   - A report and an ask in one Sync count once. (TestD3ReportAndAskInOneSyncCountOnce)
//   - A copy of an agent starts anew; its reports count, its asks do not.
//     (TestD2CloneStartsAnewAndItsReportsCount)
//   - Windows are the ledger's, whatever the replica's clock shows.
//     (TestD9WindowEndsBetweenReplicaAndLedger, TestC1LedgersClockGoesBackOverMidnight)
//   - Names and windows that policy does not know make no record.
//     (TestW7UnknownNamesMakeNoAccount, TestReportsOfOddWindowsMakeNoAccount)
//   - Nothing is granted under a policy that is not in force.
//     (TestStalePolicyIsReloadedBeforeAnythingIsGranted)
//   - A raise is heard within a second; a cut recalls what is out, whoever sees it first.
//     (TestW3RaisedLimitIsHeardWithinASecond, TestW4LoweredLimitRecallsWhatIsOut,
//     TestW4ASyncThatComesFirstRecallsToo)
//   - An override by command holds at once, and until it is removed or rolled back.
//     (TestOverrideHoldsAtOnceAndUntilItIsRemoved, TestBadOverridesChangeNothing)
//   - Requests that wait share a commit, and one that breaks fails alone.
//     (TestP4SixtyFourAsksOnOneKeyShareTwoCommits, TestAPoisonedRequestFailsAlone)
//   - A store that hangs or breaks is an outage, told fast, and never a denial.
//     (TestO2FullQueueFailsFast, TestO4StoreDownIsAnOutageNotADenial)
//   - While the clocks disagree reports count and nothing else happens.
//     (TestWhileClocksDisagreeReportsCountAndAsksWait, TestWhileClocksDisagreeNothingIsSwept)
//   - Any number of replicas close each lease once. (TestM5ThreeSweepersCloseEachLeaseOnce)
//   - Housekeeping costs what there is to fold, however many accounts there are; what cannot be
//     folded hides nothing, and a stop waits for one transaction at most.
//     (TestKeepTouchesOnlyAccountsWithOldGrants, TestKeepGoesOnWhereItStopped,
//     TestKeepMovesOnFromWhatItCannotFold, TestKeepEndsWithItsContext)
//   - Every event is told once; a slow listener blocks nobody. (TestEveryEventIsToldOnce,
//     TestASlowWatcherLosesNoticesAndBlocksNobody, TestAListenerHearsWithoutWaiting)
//   - A Sync about any number of windows that are over is answered.
//     (TestASyncAboutAnyNumberOfPastWindowsIsAnswered)
//   - A bad policy file leaves the last good policy, and readiness says so.
//     (TestW8BadFileKeepsTheLastGoodPolicy)
//   - The number of metric series does not depend on tenants. (TestM1SeriesDoNotDependOnTenants)
package controlplane
