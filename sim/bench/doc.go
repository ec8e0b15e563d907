// Command bench runs the agent's decision beside other limiters that decide in their process, and
// beside what the hardware lets nobody undercut, all in one run, and prints ratios. It is a module
// of its own, so that no peer's dependency is one of the product's.
//
// Promises, and the tests that guard them:
//
//   - Every benchmark runs, and no subject denies anything in it. (TestEverySubjectPasses)
//   - A subject that denies, or does nothing, spoils the run instead of looking fast.
//     (TestADenialSpoilsTheRun, TestEverySubjectPasses)
//   - What is said to allocate nothing does so. (TestTakesAllocateNothing)
//   - Every figure compares two subjects that exist, in the same scene of the same run.
//     (TestEveryFigureIsComputed)
//   - What is printed is the median of the rounds, and the ratio is of medians.
//     (TestRatiosAreOfMedians)
//   - The page asks for nothing from anywhere, and names in it are text. (TestThePageStandsAlone)
//   - The agent counts a million keys as a map does: with their names.
//     (TestMemoryIsOfKeysInUse)
package main
