// Package world runs the real ledger rules (ledger over ledger/memory), the real control plane
// (controlplane, several replicas over one store) and the real agent core (agent/core) under
// virtual clocks and a hostile network, all from one seed. What callers were allowed is told to
// sim/oracle, which holds it against every promise after each event.
//
// A generator that looks at nothing but its seed makes up a script of actions: callers, and
// trouble. A World carries them out in virtual time. So a script that breaks a promise can be
// run again, and shrunk to the actions that matter. An action names its object by place (the
// second agent, the first replica), so that it means the same when others are left out.
//
// To add a kind of limit: its dimensions go into policies.go, its callers' actions into
// generate.go and callers.go (several.go of several keys and of slots, reserve.go of estimates),
// and its judge into sim/oracle. To add trouble: a Kind with its words in action.go, a weight in
// generate.go, and what it does in faults.go or operator.go.
//
// What the leases of a key lack has to be what its callers were told of, and what callers of
// several keys hold while they wait: so an agent that loses or makes up units is seen at once.
// Work on slots runs to its end whatever becomes of its agent.
//
// Two agents of one incarnation, a process and its copy, cannot be made of one running core:
// where the script will copy an agent, a second core is fed the same from its start, and let
// loose when the time comes.
//
// Promises, and the tests that guard them:
//
//   - The same seed makes the same history, byte for byte, whether or not it is written down.
//     (TestTheSameSeedIsTheSameHistory)
//   - The script of a run replays it. (TestAScriptReplaysItsRun)
//   - No promise is broken by the seeds that every change is tested with, and each kind of
//     trouble is among them. (TestSeedsKeepEveryPromise, TestTheWorstLuckIsNoWorse)
//   - A run of many seeds says which kinds of trouble it never saw. (TestWhatNeverFiredIsMissing)
//   - A failing history shrinks to the actions that it needs, in a bounded number of tries.
//     (TestAFailureShrinksToWhatItNeeds, TestAShrinkEnds)
//   - Every action can be read. (TestEveryKindHasItsWords)
//   - Events happen in the order of their times, and of their plans where those are equal.
//     (TestEventsComeInTheOrderOfTheirTime)
//
// That a mistake in the rules would be found is shown by sim/mutant.
package world
