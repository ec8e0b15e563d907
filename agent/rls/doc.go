// Package rls is Envoy's rate limit service (envoy.service.ratelimit.v3) as a door of the
// agent. Policy says which tenant's dimension a descriptor is counted on; see DOORS.md.
//
// A proxy takes an error of the service, or no answer in time, for a reason to let pass. So
// whatever can be answered is answered: a denial, an outage, a key without a lease and a value
// that can name no tenant are all OVER_LIMIT, each with its reason. A descriptor that says its
// hits are negative is neither charged nor given anything back: a unit does not say when it was
// taken, and what never was must not be added.
//
// Promises, and the tests that guard them:
//
//   - A client made of Envoy's published protocol gets the decisions it expects, for nested
//     descriptors, prefixes, limits in shadow, none, and of its own, and hits of its own.
//     (TestProxiesGetTheDecisionsTheyExpect, TestAnUnmodifiedClientOverLoopback,
//     TestR4_2FiveMessagesADayAndFiveLoginsAMinute)
//   - The descriptors of a request are taken all or none, and the one that denied is named; what
//     is in shadow is taken by itself, and never if the request does not pass.
//     (TestR1_10DescriptorsOfOneRequestAreTakenTogether, TestY1ShadowRuleCountsAndAllows,
//     TestY2AnExhaustedShadowRuleBesideAnEnforcedOne)
//   - A rule's local limit decides with the quotas of the request, by what the rule says its
//     descriptor holds, and no answer shows an address. (TestR1_10ALocalLimitAndAQuotaAreTakenTogether,
//     TestR1_13ALocalLimitByAddressDecidesAtTheRateLimitService,
//     TestALocalLimitCountsWhatItsRuleTakesFromTheDescriptor,
//     TestY1ALocalLimitInShadowCountsAndAllows)
//   - There is one status for each descriptor, in their order, and headers, body and times are
//     those of the other doors. (FuzzShouldRateLimit, TestH1H2H3H4AtTheRateLimitService)
//   - An outage is OVER_LIMIT and says so, unless the dimension's mode lets pass; so is an agent
//     without a policy. (TestO4OutageAtTheRateLimitServiceIsOverLimit,
//     TestWithoutAPolicyNothingPasses)
//   - A slow control plane is no error, and lets nothing pass uncounted.
//     (TestAThousandNewTenantsFarFromTheControlPlane, TestTheAnswerComesBeforeTheDeadline,
//     TestPatienceEndsBeforeTheRequestDoes, TestPatienceEndsWithItsRequest,
//     TestPatienceEndsWithTheAnswer)
//   - A request that makes no sense names its part, and the agent is not asked.
//     (TestMalformedRequestsNameTheirPart, FuzzShouldRateLimit)
//   - Messages that are read and written without reflection are the same messages, and whatever is
//     out of the ordinary is left to gRPC's own codec. (FuzzReadRequest, TestOrdinaryRequestsAreReadByHand,
//     TestResponsesAreWrittenAlike, TestTextThatIsNoTextIsNotWritten)
//   - Negative hits charge nothing and give nothing back. (TestNegativeHitsMoveNothing)
package rls
