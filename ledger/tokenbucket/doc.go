// Package tokenbucket is the token bucket of rate keys: a rate, a burst, and exact integer
// arithmetic. It is pure: it reads no clock, starts nothing and holds no lock. A Bucket is a
// plain value; whoever shares one between goroutines guards it.
//
// The bucket is the token bucket of RFC 2215, section 3.6, without its peak rate: over any
// interval t it admits at most burst + rate*t. It is kept in the continuous-state leaky bucket
// form of the Generic Cell Rate Algorithm (ITU-T Recommendation I.371): what is stored is how
// much was spent and has not yet been refilled, so a change of burst moves the level and
// never the debt.
//
// Time is a time.Duration since an epoch of the caller's choice, the same for every call on
// one bucket: a monotonic reading in an agent, the ledger's own time in the ledger.
//
// A worked example, burst 20 and 10 a second: of three takes of 7 at one instant two pass
// and leave 6; the third is told to come back in 100 ms, when 7 are there.
//
// Promises, and the tests that guard them:
//
//   - Refill and deduction are one step at one reading of the clock; a refusal changes
//     nothing but the time. (TestR1_1RefillAndDeductAreOneStep)
//   - Over any interval t at most burst + rate*t is admitted, and no less than an ideal
//     bucket admits. (TestR1_2AnyIntervalAdmitsAtMostBurstPlusRate, TestMatchesAnIdealBucket)
//   - A cost above burst is refused as too large, at once, with the largest cost that can
//     pass. (TestR1_3CostAboveCapacityIsTooLarge, TestA6CostEqualToAndAboveCapacity)
//   - Time never goes back for a bucket, whichever call sees the older reading.
//     (TestR1_4AClockThatGoesBackAddsNothing, TestC1StaleNow, TestC5NegativeDurations)
//   - A lone caller who waits RetryIn, or the whole seconds of RetryAfterSeconds, succeeds.
//     (TestR1_5RetryAfterIsWhenTheCostFits, TestMatchesAnIdealBucket)
//   - A new rate or burst carries over what was spent and refills nothing, however often it
//     is changed and changed back. (TestR1_14ReconfigureDoesNotRefill,
//     TestReconfigureToAndFroGainsNothing, TestW5SamePolicyAgain)
//   - Nothing rounds to zero, divides by zero or overflows. (TestA8VeryHighRates,
//     TestA4ZeroDeniesEverything, TestC6LongIdle, TestRefusedConfigs)
//   - Refunds never lift a bucket above its burst. (TestA3RefundsAreClamped)
//   - A bucket that was stored and restored goes on as if it had not been, and one that was
//     charged more than it had refills from below zero. (TestRestoredBucketsGoOnAlike,
//     TestChargeGoesBelowZero)
//   - A take allocates nothing. (TestTakeDoesNotAllocate)
package tokenbucket
