// Package core plans for an agent and spends its leases. The plan is pure: time and messages
// are arguments, requests are return values, and one goroutine at a time owns it. Spending is
// lock-free and belongs to every goroutine.
//
// Promises, and the tests that guard them:
//
//   - Units in hand are spent without a round trip; at the watermark the next lease is asked
//     for, once. (TestR2_3LocalSpendNeedsNoRoundTrip, TestF7WatermarkStorm)
//   - A lease ends a ttl after its ask was first sent, however late the answer came, so this
//     agent stops before the ledger closes it. (TestC3LateReply, TestC2SuspendEndsLeases)
//   - A repeated ask is the same ask, byte for byte. (TestD1LostReply)
//   - A lease that the ledger no longer knows as live is dropped, and its use reported.
//     (TestC4ServerAhead)
//   - What was used is reported under the id it was taken from, through denials, outages and
//     a graceful stop. (TestD6Sigterm, TestD7ADenialDropsNoPendingUse)
//   - Use without a lease is charged to the window it happened in. (TestO7LongerThanTheWindow)
//   - An outage is never answered as a denial. (TestO4OutageIsNot429)
//   - A remembered denial goes with the first news that the account grew.
//     (TestW3ADenialGoesWhenTheAccountGrows)
//   - A copy of an agent becomes a new incarnation, and what it spent is reported as use
//     without a lease. (TestD2AClonesUseIsUnleased)
//   - What nobody uses goes back, units and memory. (TestAnIdleKeyGivesBackItsLeaseAndItsMemory)
//   - What a core prints is all that its behaviour depends on. (TestPrintLeavesNothingOut)
package core
