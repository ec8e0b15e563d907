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
//   - The end of a quota is shared out, not taken by the first asker, in whole units.
//     (TestLeaseSizeIsTheLeastOfItsLimits, TestClaimsAreLoweredExactly)
//   - What a dimension can go over is computed before it is accepted, with what to change.
//     (TestR2_4BoundIsComputedBeforeItIsAccepted, TestR2_4BoundSaysWhatToChange,
//     TestSmallerLeasesAreAdvisedOnlyForAPeakThatIsGiven)
//   - What policy lets pass outside of a bound is named beside it.
//     (TestR2_4BoundNamesWhatLiesOutsideOfIt, TestBoundNamesOperationsThatGoOn)
//   - What a window can end with is stated for every class and kind, and what is used is shown as
//     its kind counts it. (TestWindowBoundCoversEveryClass, TestWindowBoundOfEveryKind,
//     TestUsageOfEveryKind)
//   - Rates, slots, allowances, credits and regional shares are in the bound, worked out; where
//     there is no number it says so. (TestBoundOfEveryKind, TestRegionsDivideWhatIsAtRisk,
//     TestBoundOfATenantHasItsCreditsAndReleases, TestBestEffortSlotsGoOnAtLostAgents)
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
//     (TestP4SixtyFourAsksOnOneKeyShareThreeCommits, TestAPoisonedRequestFailsAlone,
//     TestTogetherAnswersEachCallOfOneTransaction, TestTogetherLeavesWhatATransactionDoesNotHold)
//   - A store that hangs or breaks is an outage, told fast, and never a denial.
//     (TestO2FullQueueFailsFast, TestO4StoreDownIsAnOutageNotADenial)
//   - While the clocks disagree reports count and nothing else happens.
//     (TestWhileClocksDisagreeReportsCountAndAsksWait, TestWhileClocksDisagreeNothingIsSwept)
//   - Any number of replicas close each lease once, and write each statement once.
//     (TestM5ThreeSweepersCloseEachLeaseOnce, TestThreeSweepersWriteEachStatementOnce)
//   - Every window that ends is stated, with the limits that were in force; statements are found
//     and shown by the tenant's own calendar. (TestR2_16TheSweepClosesAmendsAndEndsStatements,
//     TestC7StatementsOfRealMonths, TestC9AStatementIsOfTheTenantsDay)
//   - A credit is heard within a second; an adjustment is made once under its id, in the window
//     that it names, and the bound says what was released. (TestR2_15ACreditIsHeardWithinASecond,
//     TestD1ACreditIsAddedOnceUnderItsID, TestAnAdjustmentNamesItsWindow,
//     TestHeldUnitsAreReleasedOnceAndTheBoundSaysSo)
//   - Slots are renewed while they are in use, not after their lease closed and not for a copy;
//     what has ended is swept. (TestR2_12SlotsAreRenewedOverTheWire,
//     TestACopysRenewalsAreNotAnswered, TestSlotsThatEndAreSwept)
//   - Housekeeping costs what there is to fold, however many accounts there are; what cannot be
//     folded hides nothing, and a stop waits for one transaction at most.
//     (TestKeepTouchesOnlyAccountsWithOldGrants, TestKeepGoesOnWhereItStopped,
//     TestKeepMovesOnFromWhatItCannotFold, TestKeepEndsWithItsContext)
//   - An ask may name the next window, and one that never was, or is too far ahead, is a fault of
//     that ask alone. (TestANextWindowIsNamedAndLeasedAhead, TestD9AnAskNamesAWindowThatIs)
//   - A rate is told with when a denied cost would pass, trickles with when their units may be
//     used; that one leaves the bucket owing recalls nothing. (TestR1_1ARateOverTheWire,
//     TestW4ALoweredBurstRecallsWhatIsOut)
//   - A group of spends is decided as one, and an item that cannot be decided on is named.
//     (TestR1_10AGroupIsSpentAllOrNone, TestAGroupWithAFaultyItemNamesIt)
//   - Agents hear that an account is drained, and that what they hold idle is wanted.
//     (TestADrainedAccountIsToldToAll, TestHoldersHearThatTheirIdleUnitsAreWanted)
//   - Every event is told once; a slow listener blocks nobody. (TestEveryEventIsToldOnce,
//     TestASlowWatcherLosesNoticesAndBlocksNobody, TestAListenerHearsWithoutWaiting)
//   - Callers wait in the order in which they came, whichever agents and replicas they ask; when a
//     window opens, those go for whom there is room. (TestR4_5WhoWaitsKeepsItsPlaceOverARestartOfTheControlPlane,
//     TestR4_5WhenAWindowOpensThoseGoForWhomThereIsRoom, TestR4_5TheTimeToAskAgainIsThatOfTheDenier)
//   - A step in a line that makes no sense is a fault of its own and makes no line; an outage gives
//     no place and takes none. (TestStepsThatMakeNoSenseAreFaultsOfTheirOwn,
//     TestR4_5AnOutageIsNoPlaceInALine)
//   - Operators see who waits, for what and since when; looking moves nobody, and what cannot be
//     asked names its field. (TestR4_5OperatorsSeeWhoWaits, TestBadQuestionsAboutLinesNameTheField)
//   - Agents hear where somebody waits. (TestR4_5AgentsHearWhereSomebodyWaits)
//   - A Sync about any number of windows that are over is answered.
//     (TestASyncAboutAnyNumberOfPastWindowsIsAnswered)
//   - A bad policy file leaves the last good policy, and readiness says so.
//     (TestW8BadFileKeepsTheLastGoodPolicy)
//   - The number of metric series does not depend on tenants. (TestM1SeriesDoNotDependOnTenants)
package controlplane
