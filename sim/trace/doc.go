// Package trace reads recorded traffic and plays it again: access logs and CSV files become
// events, the events become limits to replay them under, and a replay keeps their pace.
//
// A replay takes one window of a policy for the whole trace, however long that was.
//
// Promises, and the tests that guard them:
//
//   - Access logs (common and combined format, and the prefix that both share) and CSV
//     files under a header are read without options where their columns have the usual
//     names. (TestTracesLoadWithoutOptions, TestFormatIsToldByNameThenContents)
//   - No line ends a read. One that is no event is counted, and the first few are kept with
//     their number and what is wrong. (TestMalformedLinesAreCountedAndNeverEndTheRead,
//     FuzzAccessLog, FuzzCSV)
//   - A Reader takes constant memory, whatever the length of the file and of its lines.
//     (TestReadingTakesConstantMemory, TestLongLinesAreMalformed)
//   - Every event passes the checks of keys and amounts; a dimension is a name that a
//     policy may define. (FuzzAccessLog, FuzzCSV, FuzzDimensionName)
//   - A column that cannot be found is named with its flag and the columns that there are.
//     (TestCSVFaultsNameTheFlagAndTheColumns)
//   - Load returns events in order of time, those of one instant as recorded.
//     (TestLoadSortsByTimeAndKeepsTies)
//   - Fold and Derive lose and invent nothing, and a sum that overflows is reported.
//     (TestFoldAndDeriveKeepTheTotals, TestDeriveRefusesSumsThatOverflow)
//   - The limit of a dimension is half of what its busiest tenant used, and the same trace
//     gives the same limits. (TestLimitIsHalfTheUseOfTheBusiestTenant)
//   - Pace reads no clock of its own, never emits early, and a late event delays no other.
//     (TestPaceEmitsWhenDue, TestPaceWithoutPausesNeedsNoClock)
package trace
