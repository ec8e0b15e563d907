// Package envoy reads the rule files of Envoy's rate limit service and writes the policy that
// means the same: a dimension for each limit, or a local limit of what is counted by a client's
// address, and the descriptors that are counted on it. It is pure: the texts of files in, the text
// of a policy and notes out.
//
// Promises, and the tests that guard them:
//
//   - The configurations that the service's README and Envoy's own actions show are imported,
//     with the file and line that each rule comes from. (TestR4_2PublishedExamplesImport,
//     TestR4_2WorkedNumbers)
//   - What is printed is a policy: it loads as it is. (TestExamplesLoad, FuzzImport)
//   - Each request has the limit that it has in the original, and two requests share a counter
//     exactly if they share one there, whatever the nesting, wildcards and unlimited values.
//     (TestEveryRequestIsCountedAsInTheOriginal)
//   - Windows up to a week begin when the original's do. (TestWeeksBeginWhereTheOriginalCountsFrom)
//   - Nothing more is refused than the original refuses but YAML tags and directives, control
//     characters, and what is beyond the bounds. (TestWhatTheOriginalOverlooksIsAccepted,
//     TestWhatIsReadIsBounded)
//   - What the original refuses is refused, with file, line, column and what is allowed, all
//     faults at once. (TestWhatTheOriginalRefusesIsRefused,
//     TestAllFaultsAtOnceInTheOrderOfTheFile)
//   - What the original overlooks is noted if it looks meant. (TestR4_2PublishedExamplesImport)
//   - Nothing is lost in silence: a note names each line that is not carried over, or
//     otherwise. (TestR4_2PublishedExamplesImport)
//   - No quota is counted by a client's address: a limit that ends on one is each agent's own.
//     (TestR1_13NoQuotaIsCountedByAddress, TestEveryRequestIsCountedAsInTheOriginal)
//   - A rule's dimension keeps its name whatever other rules come, go or move, and no two
//     rules share one. (TestNamesDependOnTheRuleAlone)
//   - Files, nesting, the number of rules and what aliases repeat are bounded.
//     (TestWhatIsReadIsBounded)
package envoy
