// Package pglog keeps the policy's versions in Postgres, beside the ledger that reads the
// version in force in every grant transaction.
//
//   - Versions are numbered without gaps, and of two writers who saw the same head one is
//     refused and changes nothing. (TestAppendIsOneAtATime)
//   - What was stored is read back as it was. (TestRecordsAreReadBack)
package pglog
