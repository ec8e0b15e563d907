// Package stage starts what `dev` and `demo` play on: a Postgres, a control plane and agents,
// the last two as processes of this same binary. It stops what it started, in order, and
// leaves nothing behind.
package stage
