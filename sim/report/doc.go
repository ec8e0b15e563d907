// Package report writes what became of a scenario as one HTML page: tables, and charts as SVG
// that is part of the page, so that it can be mailed and kept.
//
// Promises, and the tests that guard them:
//
//   - The page asks for nothing from anywhere: no script, no style, font or image from outside.
//     (TestThePageStandsAlone)
//   - Names and notes from a scenario file are text, whatever they hold.
//     (TestNamesFromAFileAreText)
//   - Every chart is well-formed, also of runs in which nothing happened.
//     (TestChartsAreWellFormed)
//   - A chart's scale ends at a round number above all that it shows.
//     (TestScalesEndAtRoundNumbers)
//   - The name of a point covers no other point and no other name. (TestNamesOfPointsCoverNothing)
package report
