package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	connectTimeout = 5 * time.Second
	idleTime       = 5 * time.Minute
)

// Config reads a connection string into the settings of a pool for the ledger. Nothing in
// them depends on the state of a session, so that a pooler in transaction mode may stand
// between: limits are set by SET LOCAL, and all of default_query_exec_mode's extended modes
// work. Of several hosts the one that accepts writes is taken, unless the string says
// otherwise with target_session_attrs (any, its default, says nothing).
func Config(dsn string, maxConns int) (*pgxpool.Config, error) {
	if maxConns < 1 {
		return nil, fmt.Errorf("open the ledger's pool: connections: 1 or more, not %d", maxConns)
	}
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("read the connection string: %w", err)
	}
	cfg.MaxConns = int32(min(maxConns, 1<<15))
	cfg.MaxConnIdleTime = idleTime
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = connectTimeout
	}
	if cfg.ConnConfig.RuntimeParams["application_name"] == "" {
		cfg.ConnConfig.RuntimeParams["application_name"] = "quotalease"
	}
	if cfg.ConnConfig.ValidateConnect == nil {
		cfg.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	cfg.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		newLine(c)
		return nil
	}
	return cfg, nil
}

// Open returns a pool for the ledger. It connects when it is first used.
func Open(ctx context.Context, dsn string, maxConns int) (*pgxpool.Pool, error) {
	cfg, err := Config(dsn, maxConns)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open the ledger's pool: %w", err)
	}
	return pool, nil
}

// line keeps the promise that COMMIT is never cancelled. When a connection breaks or times
// out, pgx dials the server again to cancel what still runs there. If that is a COMMIT which
// waits for its standby, the server stops waiting and commits on the primary alone: a result
// that a failover would undo. So while the connection commits, that second dial is refused.
type line struct {
	committing atomic.Bool
}

var errCommitting = errors.New("a COMMIT is not cancelled")

const customLine = "quotalease.line"

func newLine(c *pgx.ConnConfig) {
	l := &line{}
	dial, after := c.DialFunc, c.AfterConnect
	c.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if l.committing.Load() {
			return nil, errCommitting
		}
		return dial(ctx, network, address)
	}
	c.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		conn.CustomData()[customLine] = l
		if after != nil {
			return after(ctx, conn)
		}
		return nil
	}
}

// uncancelled brackets the sending of a COMMIT. A connection that breaks in between stays
// marked, because pgx cancels after the error has been returned.
func uncancelled(conn *pgconn.PgConn, commit func() error) error {
	l, ok := conn.CustomData()[customLine].(*line)
	if !ok {
		return commit()
	}
	l.committing.Store(true)
	err := commit()
	if !conn.IsClosed() {
		l.committing.Store(false)
	}
	return err
}

func isEOF(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}
