// Package embed runs an agent inside of a Go program, which then decides from units in its own
// memory:
//
//	q, err := embed.Start(ctx, embed.Config{ControlPlanes: []string{"127.0.0.1:7600"}, Region: "eu"})
//	// handle err
//	defer q.Close()
//
// q is an agent as packages httpquota and grpcquota want one, and has all of its methods: Take,
// Wait, Reserve, Acquire, and Handle for a key that is taken from again and again. A program that
// runs in many copies has as many agents, and each has its part of the units; a copy that only now
// and then takes is better served by an agent beside it.
//
// Promises, and the tests that guard them:
//
//   - Close reports what was taken and returns the rest, and waits until it has. (Example,
//     TestCloseReturnsWhatWasNotTaken)
//   - A program starts without its control plane, and closes without it.
//     (TestAProgramStartsAndClosesInAnOutage)
//   - A config that makes no sense starts nothing. (TestAStartThatFailsLeavesNothingBehind)
package embed
