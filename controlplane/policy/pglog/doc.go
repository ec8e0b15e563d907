// Package pglog keeps the log of policy versions in Postgres, beside the ledger whose
// transactions read the head version from it.
//
// Promises, and the tests that guard them:
//
//   - Versions are consecutive from 1, and of two writers one gets policy.ErrConflict.
//     (TestAppendIsOrdered, TestConcurrentAppend)
//   - What was stored comes back, in every mode of a pooled connection.
//     (TestRecordComesBack)
//   - Overrides by command are kept with each version, and none is lost when several are made
//     at once. (TestOverridesAreVersioned, TestConcurrentOverridesAllStay)
package pglog
