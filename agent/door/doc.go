// Package door is what the agent's doors share: what a caller may ask for, checked once, and
// how the agent is asked for it. HTTP and gRPC read and write it, each in its way, and so can
// differ in nothing else. See DOORS.md for what callers see.
//
// Promises, and the tests that guard them:
//
//   - Both doors give the same answer to the same question: allowed, denied, repeated, or a
//     request that makes no sense, whose field is named and which reaches no key. (TestDoorsAgree,
//     TestDoorsAgreeAboutLocalLimits)
//   - Of many requests in one call each has the answer that it would have by itself, and those that
//     wait do so together; too many are refused, and nothing is charged.
//     (TestManyTakesAreAnsweredEachByItself, TestManyTakesWaitTogether, TestManyTakesAreAnsweredInTime,
//     TestTooManyTakesAreRefused)
//   - In an outage every question that needs the ledger is answered with an outage; work that
//     runs is renewed and ends all the same. (TestO4EveryQuestionInAnOutage)
//   - A quota that is spent denies only what draws on it; of several keys one that denies is
//     named, and the others are as they were. (TestR2_14ASpentQuotaDeniesOnlyWhatDrawsOnIt,
//     TestR1_10AChainNamesTheLinkThatDenied, TestF5ADeniedUserChargesTheOrganisationNothing,
//     TestD4TwoRulesOneRequest, TestR1_9OneRequestCostsEachDimensionItsOwn)
//   - A denial has one reason at every door, those inside of a Go program included, and so has an
//     outage. (TestADenialHasOneReasonAtEveryDoor)
//   - What stands before a program's own handlers lets nobody pass of whom it is not known whose
//     the request is, and charges nobody for it. (TestNobodyReachesNeitherHandlerNorAgent,
//     TestR1_6KeysAreIndependent, TestWhatCostsNothingPasses)
package door
