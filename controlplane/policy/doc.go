// Package policy turns policy files into one checked, versioned document, and answers
// which terms hold for a tenant and a dimension. The rules are pure: the time of day is an
// argument, and only LoadFiles and Watcher touch the file system.
//
// A document is YAML. Every fault of every file is reported at once, with its file, line
// and field and with what is allowed there; a document with one fault is no document. Each
// change is a new version in a Log, kept with who made it and why.
//
// Promises, and the tests that guard them:
//
//   - Bad input is refused with file, line, field and what is allowed, all faults at once,
//     in one order. (TestBadInputIsRefused, TestAllFaultsAtOnce)
//   - Rates, slots, regional shares, schedules, outage modes and operations are refused by the
//     same rule. (TestBadInputIsRefused)
//   - Descriptors of a rate limit service are mapped by rules that are checked like everything
//     else, shown in a difference, and explained. A limit that a request brings along holds
//     only where a rule accepts it, and changes nothing else. (TestBadInputIsRefused,
//     TestDescriptorsSayWhereRequestsAreCounted, TestAChangeOfDescriptorsIsShown,
//     TestALimitThatARequestBringsAlong)
//   - A rule may name a local limit, and gives it all that it counts by and nothing else; no address
//     is shown. (TestBadInputIsRefused, TestDescriptorsSayWhichLocalLimitDecides,
//     TestAChangeOfALocalRuleIsShown)
//   - A rate is what people write, a rate of 0 denies everything, and what nobody wrote is
//     usable. (TestRatesAsPeopleWriteThem, TestA4RateOfZeroDeniesWhateverTheBurst)
//   - Local limits are refused by the same rule, read with their defaults, compared and explained.
//     (TestBadLocalLimitsAreRefused, TestLocalLimitsAreReadWithTheirDefaults,
//     TestDiffAndExplainOfLocalLimits, TestALongStartIsWarnedOf)
//   - Lease sizes follow the plan and the time of day of the period's zone.
//     (TestR2_11LeaseSizeByPlanAndTimeOfDay)
//   - No small plan inherits a budget, for overshoot or for emergencies, above its contract.
//     (TestRateOfPlansAndOverrides, TestEmergencyBudgetIsWithinEveryContract)
//   - A budget that leases cannot live on is warned of. (TestBudgetThatCannotSustainLeases)
//   - What an int64 or a duration cannot hold is refused, never wrapped.
//     (TestA2OverflowInConfig)
//   - Percentages are exact; an overshoot budget is rounded down. (TestPercentIsExact)
//   - A name nobody defined is answered by a written default, and the answer can be
//     explained. (TestW7Typo, TestW7ExplainSaysWhichRuleAndWhy)
//   - A key without a tenant has no terms. (TestM4NoIdentityHasNoTerms)
//   - Resolving costs no allocation, whatever the number of tenants.
//     (TestResolveDoesNotAllocate)
//   - Where denied callers may wait, it says for how long and how many.
//     (TestR4_5OperationsSayWhetherDeniedCallersMayWait)
//   - An exception has an owner, a reason and an end, whichever way it is made.
//     (TestR2_11ExceptionsHaveAnOwnerAndAnEnd)
//   - An override by command is a version of its own with the same files, is stronger than one
//     of a file, and outlives new files. (TestOverrideByCommandIsAVersion,
//     TestOverrideByCommandIsStrongerThanAFile, TestFilesKeepOverridesByCommand)
//   - What has expired is dropped from new versions, never from old ones; what two operators
//     grant at once both stays. (TestExpiredOverridesStayInHistoryOnly,
//     TestOverridesOfTwoOperatorsBothStay)
//   - A limit that comes where there was none holds at once. (TestW6UnlimitedToLimited)
//   - An override counts for the windows that begin before it expires, and then lapses by
//     itself. (TestOverrideLapsesAtTheNextWindow)
//   - A bad or half-written directory leaves the last good policy; a file seen twice counts
//     once; a deletion is applied. (TestW8BadFile, TestW8SameFileTwice, TestW8DeletedFile)
//   - A swapped Kubernetes volume is seen as one change. (TestW8KubernetesSwap)
//   - The stored text says what the files said. (TestTextRoundTrip, FuzzParse)
//   - A new field of the language leaves the sums of stored versions as they are.
//     (TestSumsOfStoredVersionsStay)
//   - The same meaning applied again makes no version, and a replica that starts anew does
//     not undo a rollback. (TestApplySameMeaning, TestRestartKeepsRollback)
//   - A rollback is a new version with the old text; nobody is overtaken unawares; every
//     change has an author and a reason. (TestRollbackAppendsTheOldText,
//     TestOvertakenOperatorIsTold, TestEveryChangeHasAnAuthorAndAReason)
//   - POLICY.md tells of every field of the language, and its examples can be read.
//     (TestTheReferenceHasEveryField, TestTheReferencesExamplesAreValid)
package policy
