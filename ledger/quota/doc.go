// Package quota holds the words of quotalease as small values: amounts, keys, classes,
// kinds, reasons and calendar windows. It has no dependencies of its own, reads no clock
// and starts nothing, so the ledger, the control plane and the agents can share it.
//
// Promises, and the tests that guard them:
//
//   - Sums never wrap: an amount that would overflow is reported, not rounded.
//     (TestUnitsSumsAreChecked)
//   - Two keys are equal only if tenant and dimension both are; a name that could be
//     confused with another is refused. (TestKeysAreDistinctOrRefused)
//   - Windows are half-open and calendar-true in their zone, with a written rule for hours
//     that a change of the clock skips or repeats. (TestC7RealMonths, TestC8DST)
package quota
