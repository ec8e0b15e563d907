// Package ledger is the account and grant state machine of quotalease: pure rules over a
// locked Book, with time passed in. It reads no clock, opens no socket and starts no
// goroutine. Stores (ledger/postgres, ledger/memory) lock, load and save; the arithmetic
// exists here and nowhere else.
//
// An account's counters are the sum of its grants' tallies: a rule changes a grant, and
// Book.replace moves the account by the difference.
package ledger
