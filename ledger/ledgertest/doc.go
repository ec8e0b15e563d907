// Package ledgertest holds what tests of the ledger share: the conformance suite that every
// store passes, and test databases. Only tests import it.
//
// Promises, and the tests that guard them:
//
//   - The suite runs on both stores, so that the one in memory may stand in for the other.
//     (TestStore, TestConformance)
package ledgertest
