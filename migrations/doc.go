// Package migrations holds the schema of the ledger as forward-only SQL migrations and
// applies them.
//
// Up holds a session lock, so replicas that start together apply each step once. A session
// lock belongs to one connection to the server: give Up and Status a direct
// connection, not one through pgbouncer in transaction mode. Check reads one row and works
// through anything.
//
// Promises, and the tests that guard them:
//
//   - Up may be repeated, and several may run at once. (TestUpTwice, TestUpConcurrently)
//   - Check tells a schema that is behind, missing or current. (TestCheck)
package migrations
