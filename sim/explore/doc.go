// Package explore visits every state that a small world can reach: two or three real agent cores,
// the real control plane over the real ledger in memory, and whatever is on its way between
// them. From each state all that can happen is tried: a caller comes, a message is sent, arrives, is
// lost, late or repeated, a notice is heard or lost, an agent crashes, the limit is cut, a commit has an unknown outcome, a
// clock stands still or goes back, time passes. Budgets bound how often; states that cannot behave
// differently are one. What is explored is the code that runs, not a model of it.
//
// Time is a grid of ticks, and a round trip takes one: between ticks nothing happens, so that a
// world has finitely many moments. What a finer clock would show is for the simulator's seeds.
//
// Promises, and the tests that guard them:
//
//   - Every promise of the ledger and of the agents is looked at in every state, and from every
//     state a world comes to rest with complete books, and a caller who insists is served if units
//     are free. (TestWorldsKeepEveryPromise)
//   - A mistake in the rules is found, and told in numbered steps by the way to it that takes the
//     fewest choices.
//     (TestEveryMistakeIsFoundInASmallWorld, TestAMistakeIsTold)
//   - States that go on differently are never taken for one. (TestStatesThatCountAsOneGoOnAlike)
//   - Agents hear notices, and are granted leases for the next window before it begins.
//     (TestWorldsSeeWhatTheyAreFor)
//   - A copy of a state lives a life of its own. (TestACopyLivesItsOwnLife)
package explore
