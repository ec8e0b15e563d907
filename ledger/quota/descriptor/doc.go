// Package descriptor finds out what a request of a rate limit service is counted on: a
// request names a domain and a descriptor, a path of (key, value) entries, and rules say which
// paths are counted on which tenant's dimension, or by which local limit. It is pure, so that the
// agent, which decides by it, and the control plane, which explains it, can say nothing different.
//
// Promises, and the tests that guard them:
//
//   - At each entry an exact value comes before the longest prefix, and that before any value;
//     what was passed by is not gone back to; a path that ends on no rule has none.
//     (TestLookup, TestLookupIsWhatTheRulesSay)
//   - Two paths that differ in a value that names the tenant are never one tenant, and a value
//     that can name none is not made to. (TestM3TenantsAreNotConfused, TestATenantThatCanBeNone)
//   - What a local limit counts by is a value of the request's own, an address or a network where
//     that is meant, or nothing. (TestWhatALocalLimitCountsBy, FuzzAddressOf)
//   - Two rules for one path are refused. (TestTwoRulesForOnePathAreRefused)
//   - No request makes it panic, and none is matched by a rule that is not its own. (FuzzFind)
package descriptor
