// Package agent decides takes from leased units, without a message per decision. Agent is the
// shell around agent/core: it owns the clock, the goroutines and the calls to the control
// plane, which an Uplink makes (agent/rpc has the one over gRPC).
//
// # The clock
//
// A lease must die on time although the machine may sleep, so every decision reads the boot
// clock (package boottime): for a window's edge, a revocation and slots nothing less is right, and
// nothing less would be much cheaper.
//
// Rate limits need the same reading and nothing more: the ledger refills their bucket, by its own
// clock, and here a trickle's units are released by the time since its receipt. A suspend that
// a reading misses would release nothing early, since it makes time seem earlier.
//
// Promises, and the tests that guard them:
//
//   - A suspend ends the leases that it outlasts, before anything more is taken from them.
//     (TestC2SuspendEndsLeases)
//   - Callers are woken by the grant they wait for. (TestF8WaitingCallersAreWokenByTheGrant)
//   - An outage is an error, never a denial, and callers learn of it at once.
//     (TestO4OutageIsAnErrorAndNeverADenial)
//   - A million keys in use take 400 bytes each at most, with their names, and what nobody uses goes,
//     leases and memory. (TestR1_13AMillionKeysInBoundedMemory)
//   - What outage mode open lets through is marked, counted and logged. (TestO3SilentFailOpen)
//   - So is what mode extend lets through.
//     (TestO3WhatAnAllowanceLetsThroughIsMarkedCountedAndLogged)
//   - A start in an outage goes by the terms of the last one, unless they are old or damaged.
//     (TestAStartInAnOutageFollowsEachKeysMode, TestDescriptorsOutliveARestartInAnOutage,
//     TestTermsThatCannotBeBelievedAreIgnored)
//   - Slots are acquired and released at any number of agents, never more than there are; who is
//     denied or waits is counted apart. (TestR2_12ManyJobsBeginAndEndAtTwoAgents,
//     TestR1_11ABlockedAcquireIsCountedApart)
//   - Local limits are asked first; what they gave goes back when what is leased denies or cannot
//     be asked; slots of theirs come back however work ends. (TestR1_10AChainThatBeginsWithALocalLimit,
//     TestDoorsAgreeAboutLocalLimits, TestO4LocalLimitsInAnOutage, TestR1_11WaitingForALocalSlot,
//     TestALocalSlotOfAPermitThatNobodyHeardOfComesBack)
//   - Nobody passes a local limit before the agent knows that there is one.
//     (TestNobodyPassesBeforeLocalLimitsAreKnown)
//   - A shaped request is answered in its turn, and a take under local limits allocates nothing.
//     (TestR1_8AShapedRequestIsAnsweredInItsTurn, BenchmarkTakeUnderALocalLimit)
//   - A graceful stop reports and returns everything, and ends without a control plane too.
//     (TestD6StopReportsAndReturnsEverything, TestD6StopEndsWithoutAControlPlane)
//   - A spend that nobody waits for any more is taken back. (TestAnAbandonedSpendIsTakenBack)
//   - A permit that was given to a caller who had just hung up is taken back.
//     (TestAPermitThatNobodyHeardOfIsNotKept)
//   - Several dimensions, or an operation's, are taken together or not at all; from units in
//     hand without a lock or an allocation. (TestR1_10SeveralDimensionsAreTakenTogether,
//     TestAPaymentTakesItsLeaseAndItsSpend, BenchmarkTakeAll)
//   - So are keys of several tenants, and local limits with them; what is only watched is taken by
//     itself, and what it would deny is counted apart. (TestKeysOfSeveralTenantsAreTakenTogether,
//     TestTakeKeysRefusesWhatMakesNoSense, TestR1_10ALocalLimitAndAQuotaAreTakenTogether,
//     TestR1_10RequestsOfLocalLimitsAndQuotasAreAllOrNone, TestWhatShadowWouldDenyIsCountedApart)
//   - A rule that is read before its policy's local limits are in force waits for its own.
//     (TestO4ARuleThatIsAheadOfItsLocalLimit)
//   - A cost that is not known beforehand is reserved and settled.
//     (TestUnknownCostIsReservedAndSettled)
//   - A take of any kind that is repeated with its id is charged once.
//     (TestARepeatedTakeIsChargedOnce, TestARepeatOfAnyKindIsChargedOnce)
//   - Who waits for units sends nothing that is rejected, is served first come first served, is told
//     at once when waiting is no use, and outlasts an outage. (TestR1_12WaitingSendsEachRecordOnce,
//     TestWaitIsFirstComeFirstServed, TestAThousandWaitersAskAsOne,
//     TestWaitSaysAtOnceWhatItIsNoUseToWaitFor, TestWaitOutlastsAnOutage, TestWaitHearsOfAGrownLimit)
//   - Where policy lets denied callers wait, they are served in their order, each once, whatever is
//     lost; newcomers go behind whom the agent knows to wait, and who vanished holds up nobody for
//     long. (TestR4_5WaitingCallersAreServedInTheirOrder,
//     TestR4_5NewcomersGoBehindWhomTheAgentKnowsToWait,
//     TestR4_5LostRepliesMakeNoSecondTicketAndChargeNothingTwice,
//     TestR4_5ACallerThatVanishedHoldsUpNobodyForLong, TestR4_5AgeAndLengthOfALineAreLimited,
//     TestR4_5WhoeverIsBehindOthersIsToldSo, TestR4_5WhoLeavesMakesRoomForThoseBehind,
//     TestBadDeparturesNameTheField, TestAGracefulStopTakesServedTicketsOutOfTheLine)
//   - An outage gives no ticket, and a ticket in hand keeps its place.
//     (TestR4_5AnOutageGivesNoTicketAndTakesNoPlace)
//   - A handle takes as its key does, without the search and without an allocation; it outlives its
//     key, believes no denial of one that was dropped, and asks local limits as soon as there are any.
//     (TestAHandleTakesAsItsKeyDoes, TestAHandleOutlivesItsKey,
//     TestAHandleIsUnderTheLocalLimitsOfItsDimension, TestTakingByHandleAllocatesNothing)
//   - Bad input names its field and makes no state. (TestBadInputNamesTheFieldAndMakesNoState)
//   - A replacement is ready once the keys that were hot hold leases, or soon whatever happens; what is
//     on disk of them is believed only if it is whole and fresh. A rolling restart denies nobody
//     while units are free, and callers of a killed agent lack at most what it held.
//     (TestHotKeysOutliveARestart, TestAnAgentThatIsKilledLeavesTheHotKeysOfAMinuteAgo,
//     TestAnOutageKeepsNoReplacementFromBeingReady, TestHotKeysThatCannotBeBelievedAreIgnored,
//     FuzzReadHot, TestARollingRestartUnderLoadDeniesNobodyWhileUnitsAreFree,
//     TestAKilledAgentsCallersGoToTheOther)
//   - The metrics tell whether limits are too tight: what is denied, what remains, and when callers
//     are told to come back. (TestR4_6LimitsAreMonitoredForBeingTooTight)
//   - The number of metric series does not depend on the number of tenants,
//     nor on what requests bring along. (TestM1MetricsDoNotGrowWithTenants,
//     TestM1DerivedDimensionsMakeNoSeries)
package agent
