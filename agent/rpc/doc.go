// Package rpc is the agent's gRPC: up to the control plane (Uplink), and down to the callers
// who ask for decisions (Server).
//
// It translates and decides nothing. Codes are chosen in status.go alone, from types, never
// from texts.
//
// Promises, and the tests that guard them:
//
//   - A denial is RESOURCE_EXHAUSTED and carries the whole answer, with RetryInfo only when a
//     moment is known. (TestDenialsCarryTheWholeAnswer)
//   - Whatever it is asked, it answers as the HTTP door does. (TestDoorsAgree)
//   - Many takes in one call are answered each by itself, and wait together.
//     (TestManyTakesAreAnsweredEachByItself, TestManyTakesWaitTogether, TestManyTakesAreAnsweredInTime)
//   - An outage is UNAVAILABLE, never a denial, and says when to come back.
//     (TestO4OutageIsUnavailable)
//   - A request that makes no sense is INVALID_ARGUMENT, names its field, and the agent is
//     not asked. (TestBadRequestsNeverReachTheAgent)
//   - A peek asks a question and gets an answer: OK, whatever the answer is.
//     (TestA5PeekIsAnsweredNotDenied)
//   - A call that finds an endpoint dead goes on to the others within its deadline, and the
//     next one begins where an answer was found. (TestSyncGoesRoundDeadEndpoints,
//     TestSilentEndpointIsLeftForTheOthers)
//   - A refusal by a control plane is returned at once: another replica would say the same.
//     (TestTypedRefusalIsFinal)
//   - Connections that are not encrypted stay on the machine. (TestEndpointsAreLoopback)
//   - Where callers are verified they ask for themselves alone: who is nobody is UNAUTHENTICATED,
//     and another's quota PERMISSION_DENIED. (TestVerifiedCallersTakeForThemselves,
//     TestCallersWithoutIdentityAreUnauthenticated, TestServicesOfProxiesAreForProxies)
//   - A server stops when it is told to, after the takes in flight.
//     (TestStopWaitsForTakesInFlight)
package rpc
