// Package oracle counts what really happened beside a ledger and says when a promise of the
// ledger or of an agent was broken. It is pure: what happened comes in, with its time, and the
// first broken promise stays. It shares no arithmetic with the ledger: callers' answers are
// counted as they were given, and the places of units are added up from what the grants say.
// Each event costs time in what the event touched, not in what there is.
//
// Promises, and the tests that guard them:
//
//   - Use beyond what the ledger accounts for, or beyond the largest limit, is seen at the event
//     that causes it. (TestUseBeyondTheBooks, TestUseBeyondTheLargestLimit)
//   - A unit that is in no place, or in two, is seen. (TestEveryUnitIsInOnePlace)
//   - A grant above headroom or exposure is seen, and one under a policy that is not in force.
//     (TestGrantsWithinTheirRoom)
//   - An answer that changes, or a denied id that is granted, is seen. (TestAnswersStay)
//   - A lease spent after its end, or after its final report, is seen. (TestALeaseHasAnEnd)
//   - A report that falls, or that says something else than what was taken, is seen.
//     (TestReportsSayWhatWasTaken)
//   - An account's time that goes back, and a decision while clocks disagree, are seen.
//     (TestTimeAndTrust)
//   - Held units that are given back beyond the budget, and use of a hard key without a lease, are
//     seen. (TestWhatIsGivenBackIsWithinTheBudget, TestHardNeverGoesOnWithoutALease)
//   - What a copy of an agent can spend twice is allowed, and no more.
//     (TestACopySpendsWhatTheLeaseHadLeft, TestASharedSpendMayBeTakenBack)
//   - Use beyond burst, rate and budget in any interval is seen, and a grant ahead of its bucket
//     that may be used at once. (TestUseInAnyIntervalIsWithinTheRate, TestATrickleHasItsDelay)
//   - Work on slots that the ledger takes for ended is seen, and a renewal of a lease that is
//     closed. (TestWorkOnSlotsIsInTheBooks, TestSlotsAreProlongedWhileTheyLive)
//   - Allowances for outages beyond their pot are seen, and two for one agent.
//     (TestAllowancesAreWithinTheirPot)
//   - A statement that says something else than the books is seen, one that is missing, and one
//     that is not final in time. (TestStatementsSayWhatTheLedgerKnows)
//   - Credits and releases count as operators made them. (TestOperatorsAddAndRelease)
//   - At rest nothing is outstanding, and what was settled is what was used.
//     (TestRestIsComplete)
//   - What keeps every promise is not complained of. (TestAnHonestLife)
package oracle
