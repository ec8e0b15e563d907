// Package ledger is the account and grant state machine of quotalease: pure rules over a
// locked Book, with time passed in. It reads no clock, opens no socket and starts no
// goroutine. Stores (ledger/postgres, ledger/memory) lock, load and save; the arithmetic
// exists here and nowhere else.
//
// An account's counters are the sum of its grants' tallies: a rule changes a grant, and
// Book.replace moves the account by the difference. So a unit is in one place at a time by
// construction, and Audit can recompute every counter.
//
// Promises, and the tests that guard them:
//
//   - Safety: use never exceeds what the account accounts for, nor the largest limit with what
//     was given back, in any history of asks, losses, repeats, crashes and cuts: exact and hard
//     0 over, bounded at most its budget. (TestHistories)
//   - Every unit ever granted is in exactly one place. (TestR2_6ColumnsSayWhereEveryUnitIs,
//     TestVerifyFindsWhatDoesNotAddUp)
//   - No grant is above the headroom or the exposure that the budget leaves.
//     (TestR2_4ExposureIsComputedBeforeItIsAccepted)
//   - The class says where the unconfirmed rest of a dead lease goes, and bounded gives back
//     only when it is needed. (TestR2_5ClassSaysWhereTheRemainderGoes,
//     TestR2_7BoundedGivesBackOnlyWhenNeeded, TestR2_7HardNeverGivesBack)
//   - The share of agents that died is the others' once their leases have closed.
//     (TestM5TwoOfFiveAgentsDieAndOneIdles, TestM5DeadAgentsSlotsAndShare)
//   - A repeated request gets its first answer and nothing twice.
//     (TestR2_2TheSameIdGetsTheSameAnswer, TestD1LostReply,
//     TestASpendIsOneItemHoweverOftenItIsSent, TestA3Refunds)
//   - Reports count the same in whatever order they come, also late.
//     (TestD3ReportsInAnyOrderMergeAlike, TestALateReportTakesFromHFirstThenU)
//   - A message that breaks the protocol changes nothing. (TestA1HostileReports,
//     TestSumsBeyondInt64AreRefused)
//   - A copy of an agent is found by its second Sync. (TestD2IncarnationsACloneIsFoundByItsSecondSync)
//   - Windows are half-open, and time never goes back for an account. (TestD9AtTheBoundary,
//     TestAClockThatGoesBackAddsNothing)
//   - While the clocks disagree nothing that depends on time happens.
//     (TestSuspectClockDecidesNothing)
//   - A change of terms refills nothing and loses nothing.
//     (TestR1_14ChangingALimitCarriesTheSpentStateOver, TestW4LoweredLimit)
//   - Exhausted, leased out and too large are different answers, and exposure alone is none of
//     them. (TestLeasedOutAndExhaustedAreDifferentAnswers)
//   - What retention removes stays in the sums. (TestFoldKeepsTheSums,
//     TestClosedLeasesOfARateAreFolded)
//   - An account whose window never ends goes when a new one would know as much.
//     (TestEndlessAccountsAreForgottenOnceTheyKnowNothing)
//   - A window's statement bills confirmed use and nothing else; later changes add revisions,
//     what was final stays so, and the latest says what the ledger says.
//     (TestR2_16OnlyConfirmedUseIsBilled, TestR2_16AStatementIsFinalWhenNothingIsOpen,
//     TestA3RefundAfterTheWindowAmendsItsStatement, TestStatementsSayWhatTheLedgerSays)
//   - A credit raises its window's limit and nothing else; a sum beyond int64 is refused.
//     (TestR2_15ACreditRaisesTheLimitOfItsWindow, TestA2CreditsBeyondInt64AreRefused)
//   - Nothing but an operator frees what a hard key holds, and hard is over by that at most.
//     (TestReleasedUnitsMayBeGrantedAgain, TestR2_6HardIsOverByWhatAnOperatorReleasedAtMost)
//   - Of a rate key at most burst + rate*t + B is used in any interval t, in any history of asks,
//     trickles, returns, losses and closes; use without a lease and what is heard of a spend
//     later than it was granted aside. (TestRateHistories)
//   - Every agent draws on one bucket, which fills exactly at any rate and never because terms
//     changed or a clock went back. (TestR1_1ARateIsTakenFromOneBucketByAll,
//     TestA8RefillIsExactAtEveryRate, TestR1_14ChangingARateRefillsNothing, TestC1StaleNow)
//   - Who is denied by a rate is told when the same would fit. (TestRateHistories,
//     TestARepeatTellsTheWaitThatIsLeft)
//   - A lease for the next window is granted half a ttl ahead at most, lives for one ttl with
//     its lead, and nothing crosses from one window into another.
//     (TestAnAskForTheNextWindowLeadsByHalfATTLAtMost, TestD9NothingCrossesIntoTheNextWindow)
//   - The spends of a group are made all or none, and those that fail are named.
//     (TestR1_10AFailureLeavesEveryOtherLinkAsItWas, TestHistories)
//   - That nothing is left is told once a generation; holders are asked for what lies idle where
//     that helps, ten times a second at most. (TestDrainedIsToldOnceAGeneration,
//     TestIdleUnitsAreWantedWhereTheyHelp, TestHoldersAreAskedAtMostEvery100Milliseconds)
//   - Work that runs is within the slots of its key, whatever is lost, repeated or crashes, as
//     long as no run takes longer than it may; a longer one is charged when a report tells of
//     it. (TestSlotHistories, TestR2_12TwentyConcurrentJobs, TestALongerRunIsOvershoot)
//   - Slots in use are renewed for ever, and never cut; of a crashed agent they count until the
//     longest run is over. (TestRunningWorkIsRenewedForEver,
//     TestR2_12ACrashedAgentsJobsCountUntilTheLongestRunIsOver)
//   - A cut recalls idle slots, and they are free when their agent says so, not before.
//     (TestACutRecallsIdleSlotsAndLeavesWorkRunning,
//     TestIdleSlotsOfAClosedLeaseAreFreeOnlyWhenReturned)
//   - What callers use in an outage from allowances is at most the pot of its window, however
//     many agents there are, however they crash and however often outages come.
//     (TestThePotHoldsWhateverHappens, TestARestartedAgentHasNoAllowance)
//   - Callers who wait go in their order, those at once for whom there is room; who vanished or is
//     too old blocks nobody, and the first look every minute, in case a limit is raised. (TestR4_5TicketsGoWhenThereIsRoomForAllBeforeThem,
//     TestR4_5WhoVanishedOrIsTooOldBlocksNobody, TestALineIsAListWithTimes)
package ledger
