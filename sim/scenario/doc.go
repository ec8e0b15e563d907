// Package scenario runs described courses of demand and trouble with the real agent cores, the
// real control plane and the real rules over a ledger in memory, in virtual time, and counts what
// callers were allowed and what that cost. The same demand is met by simpler ways to enforce a
// limit, for comparison.
//
// A scenario is a file: policy, regions, demand, a timeline, and the figures that it has to reach.
// Those that come with the program are in builtin, each with a comment that says what it shows.
//
// Promises, and the tests that guard them:
//
//   - A file with an unknown field or an impossible schedule is refused with file, line and field,
//     and never half read. (TestBadScenariosAreRefusedWithTheirLine, FuzzParse)
//   - Everything that comes with the program can be read. (TestEveryBuiltinScenarioIsSound)
//   - A seed decides everything: the same scenario gives the same figures.
//     (TestASeedDecidesEverything)
//   - Every method meets the same demand. (TestEveryMethodMeetsTheSameDemand)
//   - What is said to be over a limit is counted from callers' answers, not from the ledger.
//     (TestStaticSplitWastesUnitsAndScalesPastTheLimit, TestCarriedOverCreditPassesTheLimit)
//   - Fleets of any size use the limit and no more; what cut agents cannot use others do.
//     (TestFleetsUseTheLimitAndNoMore, TestPartitionOfAQuarter)
//   - A raise, a credit and freed units are felt within a second, and within a ttl without notices.
//     (TestR2_15MoreUnitsAreFeltWithinASecond, TestR2_15MoreUnitsAreFeltWithinATTLWithoutWatch)
//   - What an operator gives or frees counts in its window. (TestACreditIsOfItsWindow,
//     TestHeldUnitsAreFreedByAnOperator)
//   - Work holds its slots until it has ended, through an outage too.
//     (TestSlotsAreNeverOverbooked, TestR2_9AnOutageThreeWays)
//   - Every call is decided by the core of the agent that it reached, a thousand agents or more.
//     (TestAThousandAgentsDecideForThemselves)
//   - A hundred times the decisions on a key cost the ledger no more round trips, where no budget
//     binds. (TestTheLedgerDoesNotNoticeMoreDecisions)
//   - The trade of lease sizes is shown at fixed safety. (TestALeaseSizeIsATrade)
//   - Renewals and returns of many agents are spread. (TestF6RenewalHerd,
//     TestO6ReturnOfTheControlPlane)
//   - Waits are told within 3 %. (TestQuantilesAreWithinThreePercent)
package scenario
