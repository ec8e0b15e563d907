// Package world runs the real ledger rules, the real control plane and the real agent core under
// virtual clocks and a hostile network, from one seed.
//
// Promises, and the tests that guard them:
//
//   - The same seed makes the same history, byte for byte. (TestTheSameSeedIsTheSameHistory)
package world
