// Package door is what the agent's doors share: what a caller may ask for, checked once, and
// how the agent is asked for it. HTTP and gRPC read and write it, each in its way, and so can
// differ in nothing else. See DOORS.md for what callers see.
//
// Promises, and the tests that guard them:
//
//   - Both doors give the same answer to the same question, whatever it is.
//     (TestDoorsAgree)
//   - What makes no sense names its field, and the agent is not asked.
//     (TestBadRequestsNameTheField)
package door
