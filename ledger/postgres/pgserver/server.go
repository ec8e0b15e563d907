//go:build unix

package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// pollEvery is how often a condition outside this process is looked at.
	pollEvery = 20 * time.Millisecond
	// abandonWait bounds the clean-up of a start that did not succeed.
	abandonWait = 10 * time.Second
)

// Server is a running private PostgreSQL.
type Server struct {
	cfg     Config
	durable bool
	binDir  string
	who     *account
	scratch *scratch
	keep    string   // where data and log live: the named folder, or the scratch folder
	lock    *os.File // of the named folder; nil for a temporary server
	guard   *watchdog
	child   *process // postgres; nil until it has been started

	stopping atomic.Bool
	died     error // set before the child's done closes, if nobody had asked for its end
	stop     sync.Once
	stopErr  error // outcome of stop
}

// Start makes the database if need be, starts the server and returns when it answers. The
// context bounds the start, not the server's life.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	who, err := serverAccount()
	if err != nil {
		return nil, err
	}
	binDir, err := locate(ctx, cfg)
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, durable: cfg.Durable || cfg.Dir != "", binDir: binDir, who: who}
	if err := s.start(ctx); err != nil {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonWait)
		defer cancel()
		return nil, errors.Join(err, s.Stop(bounded))
	}
	return s, nil
}

func (s *Server) start(ctx context.Context) (err error) {
	if s.scratch, err = newScratch([]string{os.TempDir(), "/tmp"}, s.who); err != nil {
		return err
	}
	s.keep = s.scratch.dir
	if s.cfg.Dir != "" {
		if s.keep, s.lock, err = openNamed(ctx, s.cfg.Dir, s.who); err != nil {
			return err
		}
	}
	if s.guard, err = startWatchdog(s.scratch.dir, filepath.Join(s.data(), "postmaster.pid")); err != nil {
		return err
	}
	logFile, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the log of PostgreSQL: %w", err)
	}
	defer logFile.Close() // the children have their own copy
	if err := s.ensureCluster(ctx, logFile); err != nil {
		return err
	}
	s.child, err = spawn(program{
		path: filepath.Join(s.binDir, "postgres"), args: serverArgs(s.data(), s.scratch.socketDir(), s.durable),
		env: childEnv(s.binDir), dir: s.scratch.dir, out: logFile, who: s.who, exited: s.ended,
	}, s.guard)
	if err != nil {
		return err
	}
	if err := s.awaitReady(ctx); err != nil {
		return fmt.Errorf("start PostgreSQL: %w%s", err, logTail(s.logPath()))
	}
	s.cfg.log("PostgreSQL is up: " + s.DSN())
	return nil
}

func (s *Server) data() string    { return filepath.Join(s.keep, "data") }
func (s *Server) logPath() string { return filepath.Join(s.keep, "server.log") }

// awaitReady returns when a connection is ready for a query.
func (s *Server) awaitReady(ctx context.Context) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, s.DSN())
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-s.child.done:
			return fmt.Errorf("postgres ended: %w", outcome(s.child.err))
		case <-ctx.Done():
			return fmt.Errorf("wait for the first connection: %w (%w)", ctx.Err(), err)
		case <-tick.C:
		}
	}
}

// ended notes an end that nobody asked for, with the log while there is one.
func (s *Server) ended(err error) {
	if !s.stopping.Load() {
		s.died = fmt.Errorf("postgres ended by itself: %w%s", outcome(err), logTail(s.logPath()))
	}
}

func outcome(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// DSN is the connection string of the database postgres, through the socket.
func (s *Server) DSN() string { return socketDSN(s.scratch.socketDir()) }

// Pid is the process id of the server.
func (s *Server) Pid() int { return s.child.pid() }

// Done is closed when the server has ended, asked or not.
func (s *Server) Done() <-chan struct{} { return s.child.done }

// Err says why the server ended by itself; nil while it runs and after an ordinary Stop.
func (s *Server) Err() error {
	if s.child.running() {
		return nil
	}
	return s.died
}

// Stop shuts the server down, closing its connections, and removes what is temporary. It
// shuts down hard when the context ends, and says so. Later calls return the first outcome.
func (s *Server) Stop(ctx context.Context) error {
	s.stop.Do(func() { s.stopErr = s.shutDown(ctx) })
	return s.stopErr
}

// shutDown also undoes a start that got only part of the way.
func (s *Server) shutDown(ctx context.Context) error {
	s.stopping.Store(true)
	var faults []error
	if s.child != nil {
		faults = append(faults, s.child.stop(ctx))
	}
	if s.guard != nil {
		s.guard.dismiss()
	}
	if s.scratch != nil {
		faults = append(faults, s.scratch.remove())
	}
	if s.lock != nil {
		faults = append(faults, s.lock.Close())
	}
	return errors.Join(faults...)
}
