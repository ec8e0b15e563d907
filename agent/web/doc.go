// Package web is the agent's HTTP door: decisions, reservations and slots as JSON, forward
// auth for proxies, health and metrics. See DOORS.md for what callers see.
//
// Promises, and the tests that guard them:
//
//   - Every answer has the same names, and a denial's status is 429, however it came about.
//     (TestAnswersByReason)
//   - An outage is 503 with Retry-After, never 429. (TestO4OutageIsNot429)
//   - Waits are rounded up, so that who waits as told does not come too early, and are what
//     is left, not the window's length. (TestH1RetryAfterRoundsUp, TestH2WhatIsLeft,
//     TestR1_5RetryAfterOfTheTrace)
//   - The headers describe the limit that decided, no number in them is negative, and all are
//     well-formed. (TestH3HeadersDescribeTheDenier, TestH4NothingIsNegative,
//     TestR4_1HeadersOnRequest)
//   - A cost above the whole limit is told the largest that can pass, and no time.
//     (TestR1_3TooLargeSaysTheLargest)
//   - Who waits as told for a rate succeeds; for slots, and for what can never pass, no time is
//     named. (TestH1WaitingAsToldForARate, TestH4NoMomentIsNamedWhereNoneIsKnown)
//   - A caller who waits in line for slots outlasts the times of the server around it, and is
//     served when work ends. (TestAWaitOutlastsTheServersTimes,
//     TestAWaitingAcquireIsServedWhenWorkEnds)
//   - Reservations and permits have one answer each, with the id that ends them.
//     (TestAnswersOfReservationsAndSlots)
//   - Of many takes in one request each is answered as by itself. (TestManyTakesAreAnsweredEachByItself,
//     TestDoorsAgree, TestVerifiedCallersTakeManyForThemselves)
//   - A peek gets an answer, not a denial. (TestA5PeekIsAnsweredNotDenied)
//   - Bad input names the field and what is allowed, and the agent is never asked. What JSON
//     readers could read in two ways is bad input. (TestBadBodiesNameTheField,
//     TestBadBodiesOfEveryPathNameTheField, FuzzTakeBody, FuzzEveryBody)
//   - The quick way to read a take reads nothing otherwise than the thorough one, which reads what
//     is out of the ordinary, and allocates little. (FuzzPlainBodies, TestOrdinaryBodiesAreReadPlainly,
//     TestAnOrdinaryTakeAllocatesLittle)
//   - What is no success is a problem of RFC 9457, with the members of the answer beside it.
//     (TestAnswersByReason, TestO4OutageIsNot429)
//   - Who waits no more leaves its place, at any agent; a repeat, and what was served, change nothing.
//     (TestAnswersOfReservationsAndSlots, TestDoorsAgree, TestR4_5WhoLeavesMakesRoomForThoseBehind)
//   - Forward auth charges the tenant that is verified, and no other. (TestM4NoIdentityIs401,
//     TestProxyNamesTheTenant, TestR4_4OnlyProxiesNameDimensionAndCost)
//   - Where callers are verified they take, settle and release for themselves alone, and who is
//     nobody is answered before the body is read. (TestVerifiedCallersTakeForThemselves,
//     TestOthersReservationsDoNotExist, TestCallersWithoutIdentityAre401)
//   - nginx, which passes on only 401 and 403, can still answer 429, and never takes a refusal
//     for an agent that is away. (TestNginxStyle)
//   - A page in a browser cannot spend a quota. (TestOtherOriginsAreRefused)
//   - The door describes itself: the OpenAPI document is valid, names every path, and holds for
//     real answers. (TestTheDescriptionIsValid, TestTheDescriptionIsCurrent, TestEveryPathIsDescribed,
//     TestRealAnswersAreAsDescribed, TestReasonsAreThoseOfTheDocument,
//     TestDimensionsAreDescribedAsTheyAreChecked)
//   - A shell, Python and Node use it without packages. (TestEveryLanguage)
package web
