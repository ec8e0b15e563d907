// Package demo plays a trace through three regional agents while things go wrong, and holds
// what the callers counted against the ledger, the limits and the bounds.
package demo
