// Package deploy has configurations of proxies that ask an agent. Its tests start the real
// programs with the files as they are, but for addresses.
//
// Promises, and the tests that guard them, for nginx and Caddy alike:
//
//   - A client sees what the agent said: the application's answer with RateLimit and
//     RateLimit-Policy, or 429 with Retry-After beside them. (TestR4_3ClientsSeeTheAgentsAnswer)
//   - While no agent can be reached, or none answers, what is closed is 503 and what is open
//     passes, marked; never does a client hang. (TestAnAgentThatIsAway)
//   - No header that a client makes up chooses a bucket or a cost. (TestR4_4ForgedHeadersThroughProxies)
//   - Where the control plane is away, the lease is spent and the dimension is closed, nothing
//     passes, even through a proxy that lets pass what it cannot ask. (TestO4NothingPassesInAnOutage)
//   - The same through Envoy, by its own rate limit service and the claim of a token that it has
//     verified. (TestR4_2EnvoyPassesTheAnswerOn, TestAnAgentThatIsAwayFromEnvoy,
//     TestR4_4ForgedHeadersThroughEnvoy, TestO4NothingPassesEnvoyInAnOutage)
//   - A tenant whom nginx has verified by a certificate is charged. (TestNginxNamesWhomItVerified)
package deploy
