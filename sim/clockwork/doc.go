// Package clockwork is what simulations have in place of time and chance: a queue of what will
// happen, and streams of randomness that a seed decides.
//
// Promises, and the tests that guard them:
//
//   - Events come in the order of their times, those of one moment in the order in which they
//     were planned. (TestQueueKeepsTheOrderOfTimes)
//   - Moving the first event on is the same as taking it out and planning it anew.
//     (TestMovingTheFirstIsTakingItOutAndPlanningItAnew)
//   - The same numbers make the same stream. (TestStreamsAreDecidedByTheirNumbers)
package clockwork
