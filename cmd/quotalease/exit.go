package main

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Exit codes; root's help documents them for users.
const (
	exitDone        = 0
	exitFound       = 1   // what the command looks for is there
	exitRefused     = 2   // not carried out as given
	exitOutage      = 3   // the other side gave no answer
	exitInterrupted = 130 // as shells say it: 128 + SIGINT
)

// exitError is an error that chooses the process's exit code. Without err it says nothing:
// the command has shown all there is.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// misuse is a wrong flag or argument.
func misuse(format string, args ...any) error {
	return &exitError{exitRefused, fmt.Errorf(format, args...)}
}

// found ends a command whose output is the finding.
func found() error { return &exitError{code: exitFound} }

// outage says that there was no answer and, in advice, what to do.
func outage(err error, advice string) error {
	return &exitError{exitOutage, fmt.Errorf("%w\n%s", err, advice)}
}

func isOutage(err error) bool {
	var chosen *exitError
	return errors.As(err, &chosen) && chosen.code == exitOutage
}

// report says what went wrong and returns the exit code. Whatever chose no code was refused.
func report(ctx context.Context, w io.Writer, err error) int {
	if err == nil {
		return exitDone
	}
	var chosen *exitError
	if errors.As(err, &chosen) {
		if chosen.err != nil {
			fmt.Fprintln(w, "quotalease:", err)
		}
		return chosen.code
	}
	if ctx.Err() != nil {
		fmt.Fprintln(w, "quotalease: interrupted:", err)
		return exitInterrupted
	}
	fmt.Fprintln(w, "quotalease:", err)
	return exitRefused
}
