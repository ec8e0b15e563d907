// Package local is what protects one agent's own backend: limits that the agent counts by itself,
// beside what is leased. Set is the shell: tables of keys, each in a shard under a lock of its own,
// and the queues of callers who wait for slots. The algorithms are pure: time is an argument, one
// reading for each decision, and amounts are whole numbers. See DOORS.md for what users see.
//
// A key that is in no table counts as one that nobody used since its limit began, and then
// everything counted as used (unless policy says start: full). So a restart is within the limit,
// and nothing is gained by a key that is dropped: it is, only when nothing it used counts any
// more. With as many keys as are allowed, none of them at rest, a newcomer is denied; see keyed for
// why that is the safe one of four choices.
//
// A leaky bucket tells a caller when its turn is, at once and for good, so nothing has to be woken.
// The price is that a place given up in the middle of the queue passes unused.
//
// Promises, and the tests that guard them:
//
//   - The algorithms are the ones that their names say, in numbers.
//     (TestR1_8TheFiveAlgorithmsInNumbers, TestR1_8TheSlidingCounterRoundsDown,
//     TestR1_8ALeakyBucketLetsOneLeaveEvery100Ms)
//   - Each decides as exact fractions and whole histories do, however its clock jumps about, and
//     tells who is denied the first moment at which the same passes. (TestEachAlgorithmDecidesAsItsModel)
//   - No more passes in any span of time than DOORS.md says, across restarts, too.
//     (TestR1_2NoAlgorithmLetsMoreThroughThanItsBurst, TestTheDocumentSaysWhatEachAlgorithmLetsThrough,
//     TestR1_13LocalLimitsStartEmpty)
//   - How often the sliding counter errs is measured.
//     (TestR1_8TheSlidingCountersErrorOnMadeTraffic, TestR1_8TheSlidingCountersErrorOnTraces)
//   - A cost above the limit is too large, at once; a clock that goes back adds nothing; a limit
//     of 0 denies everything. (TestR1_3CostAboveCapacityIsTooLarge,
//     TestR1_4AClockThatGoesBackAddsNothing, TestALimitOfZeroDeniesEverything)
//   - A change of a limit refills nothing. (TestR1_14ChangingALimitDoesNotRefill,
//     TestR1_14ANewLimitCarriesOverWhatEveryKeyUsed)
//   - A request counts once at a limit, or with each of its tenants, and costs add up.
//     (TestWhatARequestCostsALimit, TestARequestForSeveralTenants)
//   - A limit may count somebody else than who makes the request, and each apart; a look takes
//     nothing and makes no key. (TestALimitCountsWhomItIsTold, TestALookTakesNothing)
//   - Several limits are taken all or none, and what is given back can be taken again.
//     (TestSeveralLimitsAreTakenAllOrNone, TestWhatIsGivenBackCanBeTakenAgain,
//     TestAPlaceInTheMiddleOfTheQueuePassesUnused, TestR1_10WhatOneCountGaveTwiceGoesBack)
//   - Who cannot wait for its turn is told so at once, and takes no place.
//     (TestAShapedCallerWhoseTimeIsTooShortTakesNoPlace)
//   - Slots are neither lost nor given twice; their queue is first come first served and bounded by
//     number, bytes and age, and nobody is served whose time is over.
//     (TestSlotsAreNeitherLostNorGivenTwice, TestNobodyIsServedBeforeWhoCameEarlier,
//     TestR1_11TheQueueIsBoundedByCountBytesAndAge, TestR1_11AStormAtTheGate, TestSlotsFollowTheirLimit)
//   - Keys are independent, no two lists of values make one, and who lacks a value shares no key.
//     (TestR1_6KeysAreIndependent, TestM3ValuesThatLookAlikeWhenJoinedAreTwoKeys,
//     FuzzKeysAreDistinct, TestM4AMissingAttributeIsRefusedByName, TestBadCallersNameTheField)
//   - Addresses and API keys are neither kept nor printed. (TestAddressesAndKeysAreNeitherKeptNorPrinted)
//   - State is bounded, and to drop a key refills nobody.
//     (TestR1_13KeysAreBoundedAndDroppingOneRefillsNobody, TestAKeyAtRestMakesWay)
//   - However many take at once, no more passes. (TestManyTakersOfManyKeys)
//   - A take allocates nothing. (TestTakingAllocatesNothing, BenchmarkTake)
//   - A catalogue with a limit that this agent does not understand is refused whole.
//     (TestACatalogueThatIsNotUnderstoodIsRefusedWhole)
//   - Every decision is counted, by its limit and outcome, and no metric names a key.
//     (TestEveryDecisionIsCounted)
package local
