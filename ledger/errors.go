package ledger

import (
	"errors"
	"fmt"
)

// Errors that a caller acts on. A denial is never one of them: it is an answer.
var (
	// ErrStalePolicy: the policy moved on since the snapshot was read; reload and try again.
	ErrStalePolicy = errors.New("policy snapshot is not the current version")
	// ErrWindow: by the ledger's clock the account's window is not the current one, nor, for an
	// ask, one that is about to begin; compute the window anew and try again.
	ErrWindow = errors.New("window is not the current one by the ledger's clock")
	// ErrClock: the database's clock and the replica's differ too much to decide anything
	// that depends on time.
	ErrClock = errors.New("clocks of database and replica differ by more than 5s")
	// ErrNotOpened: nothing was ever decided in this account, so no terms are known: Open first.
	ErrNotOpened = errors.New("account was never opened")
	// ErrNotLocked: a rule was applied to an account outside the transaction's scope.
	ErrNotLocked = errors.New("account is not in the scope of this transaction")
)

// ProtocolError is a message that breaks the lease protocol. It changed nothing.
type ProtocolError struct {
	Code    Code
	Grant   ID
	Field   string
	Allowed string
}

// Code classifies a protocol error.
type Code string

// Codes of protocol errors.
const (
	CodeInvalid       Code = "invalid"        // a field is out of its range
	CodeTerms         Code = "terms_mismatch" // the id is taken by other terms; the record stands
	CodeTooOld        Code = "too_old"        // the id is older than the ledger's memory
	CodeContradiction Code = "contradiction"  // counters that cannot all be true
	CodeStep          Code = "report_step"    // use raised by more than the window could hold
	CodeForeign       Code = "foreign_grant"  // another agent's grant, or another account's
	CodeOverflow      Code = "overflow"       // a sum would leave the int64 range
	CodeLineFull      Code = "line_full"      // as many wait as policy lets
)

func (e *ProtocolError) Error() string {
	return fmt.Sprintf("%s: grant %s: %s: %s", e.Code, e.Grant, e.Field, e.Allowed)
}

func refuse(code Code, id ID, field, format string, args ...any) error {
	return &ProtocolError{Code: code, Grant: id, Field: field, Allowed: fmt.Sprintf(format, args...)}
}
