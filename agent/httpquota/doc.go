// Package httpquota guards the net/http handlers of a Go program by quotas: a request reaches
// the handler if its tenant's quota has room for it, and is charged first. The agent may be in
// the same program: see package embed.
//
// Promises, and the tests that guard them:
//
//   - A denial is 429 and an outage 503, with the body and headers of the agent's own door, and
//     the same reason as at every other one. (TestADenialHasOneReasonAtEveryDoor,
//     TestR1_5RetryAfterInAProgram, TestR1_7AnAPIsDefaults, TestH1H2H3InAProgram)
//   - Tenants are independent, and a request that is nobody's is 401 and charges nobody.
//     (TestR1_6KeysAreIndependent, TestNobodyReachesNeitherHandlerNorAgent)
//   - A program that does not verify identities itself can believe those that the agent's own
//     door believes, and who is nobody is told the same. (TestWhoIsNobodyIsToldTheSameInAProgram,
//     ExampleVerified)
//   - What costs nothing passes; what takes nothing is not even asked whose it is.
//     (TestWhatCostsNothingPasses)
//   - What passes is told what is left. (TestWhatPassesIsToldWhatIsLeft)
//   - No number in any header is negative, whatever the decision. (TestH4NothingIsNegative)
//   - A program that asks for what cannot be taken lets nothing pass, and its log says why.
//     (TestAFaultOfTheProgramIsLogged)
package httpquota
