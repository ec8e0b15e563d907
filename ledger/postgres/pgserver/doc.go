// Package pgserver runs a private PostgreSQL server as a child of this process, for the dev
// and demo commands and for tests, from the server binaries that are installed. Nothing needs
// to be set up: no service, no password, no port.
//
// A server has a temporary folder for its socket; a server without a named folder keeps its
// data there too. A lock in each folder tells who uses it, and ends with that process. A
// shell beside the server, the watchdog, waits for the end of a pipe from this process, shuts
// the server down and removes the temporary folder. On Linux the kernel, too, tells the server
// when this process dies. As root the server runs as the user postgres, else as nobody.
//
// Promises, and the tests that guard them:
//
//   - Start returns a server that answers; it listens on a Unix socket that no other user can
//     reach, and on no network. (TestAnswersOnTheSocketOnly, TestPidIsTheServer,
//     TestScratchGoesWhereASocketFits)
//   - A named folder is durable and keeps its data, over kill -9 as well.
//     (TestDurableIsWhatTheConfigSays, TestNamedFolderKeepsItsDataOverRestarts,
//     TestNamedFolderOutlivesAKilledOwner, TestAnUnfinishedDatabaseIsMadeAnew)
//   - A named folder has one user, is refused if it has other content, cannot be entered or is
//     of another major version; the refusal names the folder and changes nothing in it.
//     (TestASecondHolderIsRefused, TestAFolderWithOtherContentIsRefusedAndLeftAlone,
//     TestAFolderBehindAClosedDoorIsNamed, TestDataOfAnotherMajorVersionIsRefused)
//   - Stop leaves no process and no temporary folder, whatever clients or the server do.
//     (TestStopLeavesNothing, TestStopDoesNotWaitForClients, TestAHungServerIsStoppedByForce)
//   - A start that does not succeed leaves nothing running, and shows the server's own last
//     words. (TestAStartThatFailsShowsTheLogAndLeavesNothing, TestACancelledStartLeavesNothing)
//   - Kill -9 of this process leaves nothing either; if the watchdog is killed as well, the
//     next Start removes what is left, and never what is in use. (TestKilledOwnerLeavesNothing,
//     TestOwnerKilledInInitdbLeavesNothing, TestNextStartSweepsWhatEvenTheWatchdogLeft,
//     TestSweepLeavesAFreeFolderWhoseServerAnswers, TestSweepTakesOnlyWhatNobodyHolds)
//   - An end that nobody asked for is reported with its reason. (TestAnEndByItselfIsReported)
//   - Binaries that were named are used or refused; else the PATH comes before packages, and
//     the newest package first. Without any, the error says what to do.
//     (TestBinariesAreFoundInOrder, TestNewestMajorComesFirst, TestNoBinariesSaysWhatToDo,
//     TestMajorVersionIsRead)
//   - Fetched binaries are kept; a fetch that fails keeps nothing.
//     (TestDownloadIsKeptForTheNextStart, TestDownloadThatFailsLeavesNothing,
//     TestDownloadEndsWithItsContext)
//   - A database made from a template is a copy of it, under any name, and its connection
//     string leads to the same server. (TestDatabasesAreCopiedAndDropped,
//     TestConnectionStringsKeepEveryName, TestImpossibleNamesAreRefusedWithoutTheSecret)
package pgserver
