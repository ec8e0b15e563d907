// Package rpc serves a control plane over gRPC and HTTP. It translates and decides nothing:
// codes are chosen in one place, from errors, never from their text. It opens no listener.
//
// Promises, and the tests that guard them:
//
//   - Leases, spends and notices cross the wire as they are.
//     (TestALeaseGoesOverTheWireAndBack, TestANoticeReachesAWatcher)
//   - Bad input is INVALID_ARGUMENT and names its fields. (TestBadInputNamesItsFields)
//   - An outage is UNAVAILABLE. (TestO4OutageIsUnavailable, TestCodesFollowFromErrors)
//   - A replica that should not be asked says why. (TestReadyzSaysWhy)
//   - Other paths and methods are told which there are. (TestOtherPathsAreToldWhichThereAre)
//   - A panic is logged, counted and answered, not swallowed.
//     (TestAPanicIsLoggedCountedAndAnswered)
package rpc
