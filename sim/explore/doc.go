// Package explore visits every state that a small world can reach: two or three real agent cores,
// the real control plane over the real ledger in memory, and whatever is on its way between
// them. From each state all that can happen is tried: a caller comes, a message is sent, arrives, is
// lost, late or repeated, a notice is heard or lost, an agent crashes, the limit is cut, a commit has an unknown outcome, a
// clock stands still or goes back, time passes. Budgets bound how often; states that cannot behave
// differently are one. What is explored is the code that runs, not a model of it.
//
// A world's states would be several times as many if every order of what happens were tried. These
// are not, since they lead to the same states:
//
//   - Agents that are made alike may change places: of all ways to number them one counts.
//   - A state that was reached with no less left in any budget is not explored again with less: a
//     budget only bounds what may happen, and that is known to go well with more.
//   - An agent with something due does it before others go on (see first): what the others do
//     touches nothing of its own.
//   - Whether a request is lost or late is settled as it is sent, and whether a reply is lost as it is
//     heard: what happens in between goes by neither.
//   - A cut of the limit comes right before a step of the control plane: nothing else goes by policy.
//   - Ids, tokens and moments count by their order, and what nobody can name any more counts in no
//     way (see print).
//
// The oracle of the simulator's seeds judges histories: it keeps every answer, grant and report to
// hold later ones against them, which would make each way to a state another state. So states are
// judged here by what is in them, and by two sums for each window: what callers used, and the
// largest bound.
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
//   - The orders that are left out end as others do. (TestTheShorterWaysEndAlike)
//   - Agents hear of others' need, of growth and of the last unit, and hold leases for the next window
//     before it begins.
//     (TestWorldsSeeWhatTheyAreFor)
//   - A copy of a state lives a life of its own. (TestACopyLivesItsOwnLife)
package explore
