// Package mutant lists mistakes that somebody could make in the rules, so that the simulator can
// show that it would find each.
//
// Promises, and the tests that guard them:
//
//   - Each mistake can still be made: its text occurs once in its file. (TestEveryEditApplies)
//   - The simulator finds each, from a seed that it names. The test builds one program for each
//     mutant, about ten seconds each, so it runs only when QUOTALEASE_MUTANTS is set, and prints the
//     table with -v. (TestEveryMutantIsFound)
package mutant
