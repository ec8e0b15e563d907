// Package core plans for an agent and spends its leases. The plan is pure: time and messages
// are arguments, requests are return values. Spending is lock-free and belongs to every
// goroutine.
package core
