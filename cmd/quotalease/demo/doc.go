// Package demo plays a trace through three regional agents while things go wrong, and holds
// what the callers counted against the ledger, the limits and the bounds.
//
// Promises, and the tests that guard them:
//
//   - What does not add up is named and fails the demo: a bound that was passed, use that the
//     ledger does not account for, use that nobody made. A rate is held to what it gives in the
//     time, slots to what runs at once. (TestCompareNamesWhatDoesNotAddUp)
//   - Units that a killed agent left unconfirmed, and answers that never came, are no
//     contradiction. (TestCompareAllowsWhatTheClassesAllow)
//   - The control plane accepts the policy that is derived from a trace, and the one with a
//     limit cut. (TestDerivedAndCutPoliciesAreValid)
package demo
