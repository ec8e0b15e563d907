// Package grpcquota guards the gRPC services of a Go program by quotas, and paces its calls to
// the services of others. The agent may be in the same program: see package embed.
//
// Promises, and the tests that guard them:
//
//   - A denial is RESOURCE_EXHAUSTED with QuotaFailure, ErrorInfo and, where a moment is known,
//     RetryInfo; an outage is UNAVAILABLE; the reasons are those of every other door.
//     (TestCallsAreAnsweredByTheQuota, TestADenialHasOneReasonAtEveryDoor)
//   - A call that is nobody's is UNAUTHENTICATED, and reaches neither handler nor agent.
//     (TestNobodyReachesNeitherHandlerNorAgent)
//   - A program that does not verify identities itself can believe those that the agent's own
//     door believes, and who is nobody is told the same. (TestWhoIsNobodyIsToldTheSameInAGRPCProgram,
//     ExampleVerified)
//   - A stream takes once, before its handler begins. (TestAStreamTakesOnce)
//   - What costs nothing passes; what takes nothing is not even asked whose it is.
//     (TestCallsAreAnsweredByTheQuota)
//   - A paced call is sent when its limit allows it, and not at all if that is too late.
//     (TestAPacedCallIsSentWhenItMayBe)
//   - A program that asks for what cannot be taken lets nothing pass, and its log says why.
//     (TestAFaultOfTheProgramIsLogged)
package grpcquota
