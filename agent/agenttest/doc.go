// Package agenttest is a control plane for tests of programs that embed an agent. Its ledger is
// in memory, and the rest is what runs in production.
//
// Promises, and the tests that guard them:
//
//   - A policy that makes no sense is refused with its line, and nothing is left behind.
//     (TestABadPolicyIsRefusedWithItsLine)
//   - An agent finds it at its address, and no more after Close.
//     (TestCloseReturnsWhatWasNotTaken, TestAProgramStartsAndClosesInAnOutage)
package agenttest
