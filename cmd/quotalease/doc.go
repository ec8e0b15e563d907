// Command quotalease is the one binary of the system: it runs control planes and agents, and
// is what operators read and change them with. The package holds flags, wiring and output
// only; what a command does is done in the room that it calls.
//
// shell is what a command has of the outside world; commands in root.go lists every command,
// and run turns a command line into output and an exit code.
//
// Promises, and the tests that guard them:
//
//   - Every command has a purpose and an example in its help. (TestEveryCommandTeachesItself)
//   - Exit codes are those of the help: 0 done, 1 found, 2 refused, 3 outage, 130 interrupted.
//     (TestHelpNamesTheExitCodes, TestDiffExitsLikeDiff, TestWrongUsageSaysWhatIsAllowed,
//     TestAnUnreachableControlPlaneIsAnOutage, TestPostgresThatDoesNotAnswerIsAnOutage,
//     TestAnInterruptHasItsOwnCode)
//   - Wrong usage names the flag or argument and what is allowed, and asks for nothing.
//     (TestWrongUsageSaysWhatIsAllowed, TestWrongUsageOfBillingSaysWhatIsAllowed)
//   - Output is a table for people or JSON for scripts, and neither changes unawares.
//     (TestOutputForPeopleAndScripts, TestNumbersInJSONAreNumbers, TestEmptyResultsSaySo)
//   - Names that agents or tenants choose cannot move a terminal's cursor.
//     (TestCellsCannotMoveTheCursor)
//   - A bound reads as a contract would say it, and a contract can quote it.
//     (TestR2_4BoundPrintsTheWorkedNumbers, TestR2_17WhatAContractCanQuote)
//   - The documents on bounds and on the protocol name tests that exist.
//     (TestDocumentsNameTestsThatExist, TestEveryBoundIsGuarded)
//   - A bound can be had of files that are applied nowhere. (TestBoundOfFilesNeedsNoServer)
//   - A policy is checked without a server, every fault with its place.
//     (TestValidatePrintsEveryFaultWithItsPlace, TestValidateNeedsNoServer,
//     TestApplyTellsFaultsOfFilesAndFlagsAtOnce)
//   - The rules of Envoy's rate limit service are printed as a policy, and each line that is not
//     carried over is named. (TestR4_2ImportPrintsThePolicy,
//     TestImportNamesEveryFaultAndEachWrongFlag)
//   - Changes are shown without what holds by itself. (TestChangesAreShownWithoutDefaults)
//   - The overrides that count are listed with their owners and ends, and files do not take
//     away what was granted by command. (TestOverrideListShowsWhatCounts,
//     TestDiffKeepsOverridesByCommand)
//   - An export is read back as it was, page by page, on the clock of each dimension's zone.
//     (TestAnExportIsReadBackAsItWas, TestAnExportGoesOnToTheLastPage,
//     TestC9AnExportShowsTheTenantsClock)
//   - An adjustment that may have been made can be repeated without making it twice.
//     (TestAnAdjustmentThatMayBeDoneTellsItsID, TestARepeatedAdjustmentSaysSo)
//   - Changes carry a name, from the system if from nowhere else. (TestChangesNeedAName)
//   - What is off in the ledger is printed. (TestLedgerVerifyFindsWhatIsOff)
//   - What takes longer than two seconds says so. (TestWhatTakesLongIsSeenToGoOn)
//   - Connection strings and their passwords are shown to nobody.
//     (TestSecretsOfConnectionStringsAreHidden, TestHelpShowsNoSecret)
//   - Shells complete words, and files only where a file is meant.
//     (TestCompletionOffersFilesOnlyForFiles)
//   - A replay that nobody answers is an outage. (TestReplayToNobodyIsAnOutage)
//   - A demo's result fits a terminal and says what it shows. (TestDemoTableFitsATerminal)
//   - Listeners stay on loopback. (TestListenersStayOnLoopback, TestOtherAddressesAreRefused)
//     Only an agent's may leave it, with TLS and callers who are verified.
//     (TestWhatAnOpenListenerNeeds, TestAnOpenAgentAsksWhoIsThere, TestIdentityFlagsThatAreRefused)
package main
