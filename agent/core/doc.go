// Package core plans for an agent and spends its leases. The plan is pure: time and messages
// are arguments, requests are return values, and one goroutine at a time owns it. Spending is
// lock-free and belongs to every goroutine.
//
// Promises, and the tests that guard them:
//
//   - Units in hand are spent without a round trip; at the watermark the next lease is asked
//     for, once. (TestR2_3LocalSpendNeedsNoRoundTrip, TestF7WatermarkStorm)
//   - Taking from leases in hand allocates nothing. (TestTakingFromLeasesAllocatesNothing)
//   - A key is found without a lock, as in a map, beside whatever comes and goes, and the table stays as
//     large as what is in it needs. (TestTheTableIsAMap, TestSearchesBesideChanges,
//     TestTheTableForgetsWhatWent)
//   - A lease that lies in its key is moved there and away beside its takers without a unit lost, spent
//     twice, or spent after its end; who remembers which lease units came from is never wrong.
//     (TestALeaseMovesBesideItsTakers, TestOnlyPlainLeasesMoveIn, TestTheLeaseOfATakeIsRemembered)
//   - Of what is taken or put back beside a key that is being forgotten nothing is lost.
//     (TestTakersBesideKeysThatComeAndGo, TestR1_10WhatComesBackAfterItsKeyWasForgotten)
//   - A lease ends a ttl after its ask was first sent, however late the answer came, so this
//     agent stops before the ledger closes it. (TestC3LateReply, TestC2SuspendEndsLeases)
//   - A lease for the next window is there before that begins, and nothing is spent before its
//     window: the start counts from the receipt of the answer.
//     (TestTheNextWindowIsThereBeforeItBegins, TestNothingIsSpentBeforeItsWindow)
//   - Agents that live through the same boundary do not ask at the same moment, a Sync on its
//     way takes the ask along, and a window that the ledger does not admit is not asked for in
//     a loop. (TestTheAskForTheNextWindowIsSpreadOverTheLead,
//     TestASyncInTheLeadTakesTheAskForTheNextWindowAlong,
//     TestARefusedWindowIsNotAskedForInALoop)
//   - One ask is in flight for a key and window. (TestF7OnePrefetchInFlightForEachWindow)
//   - A report that frees nothing has no Sync of its own, and goes before the ledger closes the
//     lease. (TestASpentLeaseIsReportedWithWhateverSyncIsSentNext,
//     TestUnitsThatOthersCouldUseAreReturnedAtOnce)
//   - A fleet that shares a small limit uses it up with two round trips an agent and window.
//     (TestAFleetCostsTwoRoundTripsAWindow)
//   - A lease is an economic order quantity. (TestALeaseIsAnEconomicOrder)
//   - Near the end of a quota nothing is taken ahead, an account that is known to be drained is
//     not asked, units in others' hands are asked for ever more rarely, and idle ones go back
//     when others want them. (TestNearTheEndUnitsAreFetchedForCallersOnly,
//     TestADrainedAccountCostsNoRoundTrip, TestLeasedOutIsRetriedEverMoreRarely,
//     TestIdleUnitsGoBackWhenOthersWantThem)
//   - A denial that news on its way is about to overtake makes patient callers wait instead: right
//     after the account was emptied, for units that lie idle elsewhere, and at the end of a window,
//     for the lease that is in hand for the next. That costs no round trip, and is over soon.
//     (TestUnitsThatComeBackAreForWhoWaited, TestNobodyWaitsForUnitsThatDoNotComeBack,
//     TestWhosePatienceEndsIsToldThatUnitsAreLeasedOut, TestALongLineWaitsWithoutARoundTrip,
//     TestAGroupWaitsForUnitsToComeBackToo, TestAGroupInTheExactLaneIsDeniedWithoutARoundTrip,
//     TestADenialDoesNotOutliveItsWindow,
//     TestTheLastUnitsAreNotDeniedToWhoTheyAreFor)
//   - Callers of a long line do not cost it its leases, and what exposure refused is asked for again
//     once nothing is in hand. (TestALongLineDoesNotGiveUpItsLeases,
//     TestWhatExposureRefusedIsAskedForAgainWhenNothingIsInHand,
//     TestALeaseThatWentBackForAnotherIsAskedForAnewSoon)
//   - What is held when a limit is cut ends with its ttl, or as soon as the agent hears of it.
//     (TestR2_8ADowngradeEndsWhatIsHeldWithinATTL, TestW4ARevokedLeaseIsNotSpent)
//   - A trickle releases its units evenly, and a caller of a rate limit who waits as long as
//     told passes. (TestATrickleReleasesItsUnitsEvenly, TestH1ALoneCallerWhoWaitsAsToldSucceeds)
//   - Several keys are taken all or none, and the denier is named; nothing is held while a
//     lease is waited for. (TestR1_10AChainTakesAllOrNone, TestR1_10ExactKeysGoLastAndTogether,
//     TestNothingIsHeldWhileAKeyIsWaitedFor, TestAGroupAsksForAllItsColdKeysAtOnce)
//   - A reservation is settled once, in its window, on the grant that it was taken from; until
//     then, and if never, it counts in full. (TestSettlingADeadLeaseIsReportedOnItsGrant,
//     TestReservationsThatNobodySettlesCountInFull,
//     TestAnExactReservationIsNeverChargedLessThanWasUsed)
//   - Slots are renewed while they are in use and never overbooked, whatever is lost. Work that
//     runs is never cut: an outage, a limit cut or a lost lease stops starts only.
//     (TestSlotsAreNeverOverbookedAmidFaults, TestSlotsAreHeldWhileWorkRunsAndGivenBackAfter,
//     TestR2_9AnOutageWithThreeOperationsSideBySide, TestALimitCutStopsStartsAndNoWork)
//   - Who waits for slots is served first come first served, woken by a release here or by the
//     grant of what was freed elsewhere; a storm of callers makes one ask at a time.
//     (TestF8WaitingForASlotIsFirstComeFirstServed, TestF8ASlotFreedElsewhereWakesWhoWaits,
//     TestF7AStormOfCallersForSlots)
//   - Idle slots go back when others need them, and when nobody needed them for a ttl.
//     (TestIdleSlotsGoBack, TestIdleSlotsGoBackThoughNoNoticeComes)
//   - Slots and units are taken all or none, and all of several callers learn that a key is gone.
//     Work begins only on slots whose lease lives, however long the exact lane takes.
//     (TestR2_12JobSlotsAndTheDailyTotalAreSeparateLimits, TestR1_11TokensLeftButNoPermit,
//     TestSeveralCallersLearnThatAKeyIsGone, TestWorkDoesNotBeginOnSlotsWhoseLeaseHasEnded)
//   - A permit is given and given back once, and lapses with its caller.
//     (TestARepeatedAcquireTakesNothing, TestAPermitLapsesWhenItsCallerIsGone,
//     TestAPermitThatLapsedIsNobodysBeforeAnyTick)
//   - In outage mode extend an agent spends, at its share of the rate, what it was authorised for
//     this window and the next, and no copy of it doubles that; the rest goes back.
//     (TestO5TwoAgentsGoOnWithinTheirAllowances, TestAnAllowanceIsSpentAtTheAgentsShareOfTheRate,
//     TestO7TheNextWindowHasAnAllowanceOfItsOwn, TestACopyCannotDoubleAnAllowance,
//     TestWhatIsUnspentOfAnAllowanceGoesBack)
//   - A key goes to the exact lane and back with hysteresis, and what exposure alone refuses is
//     never exhausted. (TestAKeyReturnsToLeasesWithHysteresis,
//     TestWhatExposureAloneRefusesIsNeverExhausted)
//   - A repeated ask is the same ask, byte for byte. (TestD1LostReply)
//   - A lease that the ledger no longer knows as live is dropped, and its use reported.
//     (TestC4ServerAhead)
//   - What was used is reported under the id it was taken from, through denials, outages and
//     a graceful stop. (TestD6Sigterm, TestD7ADenialDropsNoPendingUse)
//   - Use without a lease is charged to the window it happened in. (TestO7LongerThanTheWindow)
//   - An outage is never answered as a denial. (TestO4OutageIsNot429)
//   - A remembered denial goes with the first news that the account grew.
//     (TestW3ADenialGoesWhenTheAccountGrows)
//   - A copy of an agent becomes a new incarnation, and what it spent is reported as use
//     without a lease; of the original's leases it says nothing any more.
//     (TestD2AClonesUseIsUnleased, TestWhatACopyPutsBackIsNotReportedOnTheOriginalsLease)
//   - A new policy, a raise and a credit are felt within a ttl, whatever news is lost.
//     (TestAnAgentThatOnlySpendsLearnsOfANewPolicyWithinATTL, TestARaiseIsFeltByEveryKind,
//     TestACreditIsFeltWithinATTLThoughHeartbeatsFallAnywhere)
//   - In the end the ledger has settled what callers were allowed, and nothing else, whatever
//     messages were lost and however callers left; and if agents died, it knows of no less than
//     was used. (TestNothingIsLostInBadWeather, TestDyingAgentsTakeNothingWithThem)
//   - What nobody uses goes back, units and memory; what is kept is bounded; who comes back to
//     a key that was dropped starts from the ledger. (TestAnIdleKeyGivesBackItsLeaseAndItsMemory,
//     TestR1_13StateIsBounded, TestM2EvictionReopensNoQuota)
//   - A core that is told which keys were hot asks for their leases before anyone calls, knows which
//     have no answer yet, is done with that soon whatever happens, and lets go what nobody comes for.
//     (TestHotKeysAreAskedForBeforeAnyoneCalls, TestWarmingEndsWhateverTheLedgerSays,
//     TestWarmingEndsInAnOutage, TestWhatNobodyComesForIsLetGo, TestTheHottestKeysComeFirst)
//   - A limit that a request brings along is its dimension's in all but the limit, while policy
//     accepts it; descriptors that cannot be read leave the policy as it is.
//     (TestADerivedDimensionIsItsOwnersWithAnotherLimit,
//     TestDescriptorsThatCannotBeReadLeaveThePolicyAsItIs)
//   - What a core prints is all that its behaviour depends on. (TestPrintLeavesNothingOut)
package core
