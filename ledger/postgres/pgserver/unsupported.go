//go:build !unix

package pgserver

import (
	"context"
	"errors"
)

// Server exists on Unix only.
type Server struct{}

// Start refuses: the private server speaks through a Unix socket only.
func Start(context.Context, Config) (*Server, error) {
	return nil, errors.New("start a private PostgreSQL: it needs a Unix system; pass --database-url")
}

// DSN is empty: there is no server.
func (*Server) DSN() string { return "" }

// Pid is 0: there is no server.
func (*Server) Pid() int { return 0 }

// Done is never closed: there is no server.
func (*Server) Done() <-chan struct{} { return nil }

// Err is nil: there is no server.
func (*Server) Err() error { return nil }

// Stop has nothing to do: there is no server.
func (*Server) Stop(context.Context) error { return nil }
