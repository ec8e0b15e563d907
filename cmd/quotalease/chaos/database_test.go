//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/quotalease/quotalease/ledger/postgres/pgserver"
)

// database is a Postgres on a named folder, and so a durable one (fsync is on), that can be
// killed and started again.
type database struct {
	dir  string
	user string

	mu     sync.Mutex
	server *pgserver.Server // nil while it is down
}

// startDatabase skips the test where there is no Postgres, or fails it where CI=true.
func startDatabase(t testing.TB, dir string) *database {
	t.Helper()
	d := &database{dir: dir}
	err := d.start(t.Context())
	var missing pgserver.ErrNoBinaries
	if errors.As(err, &missing) && os.Getenv("CI") != "true" {
		t.Skip("needs PostgreSQL: ", missing)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if server := d.take(); server != nil {
			if err := server.Stop(ctx); err != nil {
				t.Error(err)
			}
		}
	})
	cfg, err := pgconn.ParseConfig(d.dsn())
	if err != nil {
		t.Fatal(err)
	}
	d.user = cfg.User
	return d
}

func (d *database) start(ctx context.Context) error {
	server, err := pgserver.Start(ctx, pgserver.Config{Dir: d.dir})
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.server = server
	return nil
}

// take leaves the database without a server, and the server to the caller.
func (d *database) take() *pgserver.Server {
	d.mu.Lock()
	defer d.mu.Unlock()
	server := d.server
	d.server = nil
	return server
}

// dsn leads to the database past all wires.
func (d *database) dsn() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.server == nil {
		return ""
	}
	return d.server.DSN()
}

// freeze keeps all of the server's processes from running for a while.
func (d *database) freeze(lasts time.Duration) {
	d.mu.Lock()
	server := d.server
	d.mu.Unlock()
	if server != nil {
		freeze(server.Pid(), lasts)
	}
}

// socket is where the server listens now.
func (d *database) socket() (network, address string) {
	cfg, err := pgconn.ParseConfig(d.dsn())
	if err != nil || d.dsn() == "" {
		return "unix", ""
	}
	return pgconn.NetworkAddress(cfg.Host, cfg.Port)
}

// crash ends the server with a signal, leaves it down for a while and starts it again on the
// same folder. Its orphans may hold the folder for a moment.
func (d *database) crash(ctx context.Context, signal syscall.Signal, down time.Duration) error {
	server := d.take()
	if server == nil {
		return errors.New("crash Postgres: it is down already")
	}
	_ = syscall.Kill(server.Pid(), signal)
	<-server.Done()
	if err := server.Stop(ctx); err != nil {
		return fmt.Errorf("clean up after Postgres: %w", err)
	}
	rest(ctx, down)
	var err error
	for range 50 {
		if err = d.start(ctx); err == nil || ctx.Err() != nil {
			return err
		}
		rest(ctx, 200*time.Millisecond)
	}
	return fmt.Errorf("start Postgres again: %w", err)
}

// rest lets time pass, as long as the round goes on.
func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// newDir is a folder that the user of Postgres may enter. It is kept if the test fails.
func newDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "quotalease-chaos-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		gone := dir
		if t.Failed() {
			gone = filepath.Join(dir, "db") // large, and of little use
			t.Log("logs are kept in ", dir)
		}
		if err := os.RemoveAll(gone); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}
