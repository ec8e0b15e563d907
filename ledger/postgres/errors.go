package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/jackc/pgx/v5/pgconn"
)

// ErrUnavailable says that the store could not answer: it is down, read only, overloaded, or
// a lock was not free in time. It is an outage, never a denial.
var ErrUnavailable = errors.New("ledger store is unavailable")

// ErrUnknownOutcome says that a commit was sent and its outcome could not be learnt. The
// same batch submitted again, now or later, settles it. It comes with ErrUnavailable.
var ErrUnknownOutcome = errors.New("outcome of the commit is unknown")

// errAgain marks attempts that found rows changed under them.
var errAgain = errors.New("transaction met another one and runs again")

// errMissing marks attempts that found accounts missing: they are not made yet, or were removed
// while they were being locked.
var errMissing = fmt.Errorf("accounts are not all there: %w", errAgain)

// errUnsettled marks attempts whose COMMIT was sent and not answered.
var errUnsettled = errors.New("connection broke after COMMIT was sent")

// ruleError carries an error of the caller's function out of an attempt as it is.
type ruleError struct{ err error }

func (e ruleError) Error() string { return e.err.Error() }

// SQLSTATE codes that the store acts on.
const (
	codeSerialization = "40001"
	codeDeadlock      = "40P01"
	codeUnique        = "23505"
	codeReadOnly      = "25006"
	codeStandby       = "0A000" // of BEGIN ... READ WRITE while the server is in recovery
	codeLockTimeout   = "55P03"
	codeCancelled     = "57014"
	codeIdleInTx      = "25P03"
)

// Unique constraints whose violation means that another transaction recorded the same id
// first, under other locks.
const (
	grantKey       = "lease_grant_pkey"
	incarnationKey = "incarnation_pkey"
)

// verdict says what becomes of a failed attempt.
type verdict int

const (
	giveUp   verdict = iota // the error is the caller's to see
	tryAgain                // nothing was written, and another attempt may succeed
	settle                  // it may have been written: the same batch decides
)

// judge sorts the failure of one attempt.
func judge(err error) verdict {
	var refused *pgconn.PgError
	switch {
	case errors.Is(err, errUnsettled):
		return settle
	case errors.Is(err, errAgain):
		return tryAgain
	case errors.As(err, &refused):
		if isConflict(refused) || isFatal(refused) {
			return tryAgain
		}
		return giveUp
	case isTimeout(err):
		return giveUp // it had its time
	case isBroken(err):
		return tryAgain
	default:
		return giveUp
	}
}

func isConflict(e *pgconn.PgError) bool {
	switch e.Code {
	case codeSerialization, codeDeadlock:
		return true
	case codeUnique:
		return e.ConstraintName == grantKey || e.ConstraintName == incarnationKey
	default:
		return false
	}
}

// isFatal reports an error after which the server closed the connection.
func isFatal(e *pgconn.PgError) bool {
	return e.SeverityUnlocalized == "FATAL" || e.SeverityUnlocalized == "PANIC"
}

func isTimeout(err error) bool {
	var slow net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		errors.As(err, &slow) && slow.Timeout()
}

// isBroken reports that there was no answer from the server: no connection, or it broke.
func isBroken(err error) bool {
	var (
		refused *pgconn.PgError
		connect *pgconn.ConnectError
		network net.Error
	)
	if errors.As(err, &connect) || errors.As(err, &network) || isEOF(err) {
		return true
	}
	return !errors.As(err, &refused) && pgconn.SafeToRetry(err)
}

// outage wraps what the caller should see as an outage, and leaves everything else alone. A
// caller that cancelled gets its own context's error.
func outage(ctx context.Context, what string, err error) error {
	if err == nil {
		return nil
	}
	if cause := ctx.Err(); cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w (%w)", err, cause)
	}
	if isOutage(err) && !errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("%s: %w: %w", what, ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

func isOutage(err error) bool {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		return isTimeout(err) || isBroken(err) || errors.Is(err, errAgain) || errors.Is(err, errUnsettled)
	}
	switch refused.Code {
	case codeReadOnly, codeStandby, codeLockTimeout, codeCancelled, codeIdleInTx:
		return true
	}
	if isConflict(refused) || isFatal(refused) {
		return true
	}
	// A pooler's refusal may have no code at all.
	switch refused.Code[:min(2, len(refused.Code))] {
	case "08", "53", "57", "58": // connection, resources, intervention, system
		return true
	default:
		return false
	}
}
