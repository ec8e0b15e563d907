// Package answer writes a decision as HTTP has it: status, headers and a body, the same before
// a program's own handlers as at the agent's own door. See DOORS.md for what callers see.
//
// Promises, and the tests that guard them:
//
//   - A denial is 429 and a problem whose type says so; an outage is 503 and another; whatever is
//     wrong with a request is neither. (TestAnswersByReason, TestO4OutageIsNot429)
//   - Retry-After is rounded up, and missing where no moment is known or would help.
//     (TestH1RetryAfterRoundsUp, TestR1_3TooLargeSaysTheLargest)
//   - An allowance that is written without reflection is the same text. (TestDecisionsAreWrittenAlike)
//   - Headers describe the limit that decided, and no number in them is negative.
//     (TestH3HeadersDescribeTheDenier, TestH4NothingIsNegative, TestR4_1HeadersOnRequest)
package answer
