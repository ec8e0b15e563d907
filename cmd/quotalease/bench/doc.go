// Package bench measures the whole on a real Postgres, beside what anybody could do with the same
// server and driver in the same rounds: a transaction a grant, batches of the same rows and of
// narrow ones written plainly, one row inserted, an UPDATE a decision. An agent's doors are measured beside a stub that says yes.
// Beside itself it measures what grows: decisions, agents, keys, tenants, and what ends or starts at
// one instant.
//
// Promises, and the tests that guard them:
//
//   - Everything is in a schema of its own, which goes with the run, after an interrupt too.
//     (TestEverythingIsMeasuredAndNothingLeft, TestAnInterruptLeavesNothing,
//     TestAConnectionStringLeadsToTheSchema)
//   - A database whose quotas are in use, and one in which another benchmark runs, are refused and
//     left alone. (TestALedgerInUseIsRefusedAndLeftAlone, TestTwoAtATimeAreRefused)
//   - A door is measured from outside, in a process of its own, beside a stub that says yes; at a pace
//     a call lasts from the moment at which it was to begin, however long others hold it up.
//     (TestDoorsAreMeasuredBesideAStub, TestALateCallLastsFromWhenItWasDue, TestTheStubSaysYes)
//   - What is compared was measured in the same rounds, in turns, and medians count.
//     (TestRoundsAreInterleaved, TestMediansAreOfEachNumberByItself, TestASampleIsOfWhatWasDone)
//   - Nothing that failed is counted: it ends the run. (TestACallThatFailsEndsTheSceneAndClosesAll)
//   - A figure of which a side was not measured is left out; the others are held to what they are
//     meant to be. (TestFiguresAreHeldToTheirReach, TestWhatWasNotMeasuredIsNoFigure)
//   - A steady demand is what its rate says, however many agents share it, and a take that waits
//     makes others late, not fewer. (TestDemandIsConstant,
//     TestATakeThatWaitsMakesThoseAfterItLateNotFewer)
//   - What grows is held beside itself at its smallest size, and what this machine could not reach
//     is told as what it reached. (TestWhatGrowsIsHeldBesideItsSmallest)
//   - The end of a window is told by the time before leases for the next are fetched, by the time
//     in which they are, and by what comes after. (TestTheEdgeIsToldByItsParts)
//   - Processor time is that of a private server and of all its processes.
//     (TestAPrivateServerIsMeasuredToo, TestProcessorTimeIsThatOfTheServer,
//     TestAProcessIsReadWhateverItsName)
//   - The page asks for nothing from anywhere, and names in it are text. (TestThePageStandsAlone,
//     TestTheChartIsWellFormed, TestTheChartIsAFileOfItsOwn)
package bench
