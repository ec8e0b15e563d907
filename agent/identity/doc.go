// Package identity tells whose a request is. A tenant is named by a client's certificate, by a
// signed token, by an API key or by a proxy that is trusted to say so, each only where the agent is
// told to believe it. Rules are pure: they are told the time, and what files say; Run follows files
// that change.
//
// Promises, and the tests that guard them:
//
//   - Nobody is believed by default, and what a client merely claims, in any header, names
//     nobody. (TestM4NobodyIsBelievedByDefault, TestR4_4ForgedHeadersNameNobody)
//   - A certificate names a tenant where the rule says and nowhere else, by one name and while it
//     is valid. (TestCertificatesNameTheirTenant, TestCertificateRulesThatAreRefused,
//     FuzzCertificateRule)
//   - A token is believed if a key that is known has signed it with an allowed, asymmetric
//     algorithm, for this audience and time. (TestTokensNameTheirTenant, TestTokensThatAreRefused,
//     FuzzToken)
//   - API keys are held as hashes alone, and no error or log line repeats one.
//     (TestKeysNameTheirTenant, TestKeyFilesThatAreRefused, TestNoSecretIsRepeated, FuzzKeysFile)
//   - A proxy is believed by its address, and beyond this machine by its certificate too.
//     (TestProxiesByAddress, FuzzParseProxy)
//   - Refusals are counted by source and reason, and nothing that a caller sends becomes a label.
//     (TestRefusalsAreCountedByTheirReason, TestM1RefusalsMakeNoSeriesOfTheirOwn)
//   - Sources that name different tenants name nobody, and neither does a good one beside a bad
//     one. (TestSourcesMustAgree)
//   - A file that changes is in force within seconds; one that makes no sense changes nothing.
//     (TestFilesAreFollowed, TestABadFileChangesNothing, FuzzJWKS)
//   - A listener's certificate can be renewed, and whom its CA did not sign does not get in.
//     (TestTLSAsksForCertificates)
package identity
