package bench

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/quotalease/quotalease/ledger/postgres/pgserver"
	"github.com/quotalease/quotalease/migrations"
)

// schema is where everything of a run is, the ledger too. It is made and dropped.
const schema = "quotalease_bench"

// stopPatience is how long cleaning up may take.
const stopPatience = 30 * time.Second

// database is a schema to work in, in a server of this run's own or in one that was given.
type database struct {
	dsn    string           // leads to the schema
	outer  string           // leads to the database that holds it
	server *pgserver.Server // nil: it was given
	made   bool
}

// openDatabase makes the schema and a ledger in it. What it returns is to be closed, also after
// an error.
func openDatabase(ctx context.Context, o Options) (*database, error) {
	d := &database{outer: o.DatabaseURL}
	if d.outer == "" {
		server, err := pgserver.Start(ctx, pgserver.Config{Dir: o.DataDir, Durable: true, Download: os.Geteuid() != 0, Log: o.Say})
		if err != nil {
			return d, fmt.Errorf("start a private Postgres: %w", err)
		}
		d.server, d.outer = server, server.DSN()
	}
	var err error
	if d.dsn, err = within(d.outer, schema); err != nil {
		return d, err
	}
	if err := d.make(ctx); err != nil {
		return d, err
	}
	if _, err := migrations.Up(ctx, d.dsn); err != nil {
		return d, err
	}
	return d, d.do(ctx, d.dsn, func(c *pgx.Conn) error {
		if _, err := c.Exec(ctx, tablesSQL); err != nil {
			return fmt.Errorf("make the yardsticks' tables: %w", err)
		}
		return nil
	})
}

// within makes a connection string whose tables are those of a schema, in either form of such
// strings.
func within(dsn, schema string) (string, error) {
	if !strings.HasPrefix(dsn, "postgres://") && !strings.HasPrefix(dsn, "postgresql://") {
		return dsn + " search_path=" + schema, nil
	}
	parsed, err := url.Parse(dsn)
	if err != nil { // whose own error repeats the password
		return "", errors.New("read the connection string: it is not a valid URL")
	}
	query := parsed.Query()
	query.Set("search_path", schema)
	parsed.RawQuery = query.Encode()
	return parsed.String(), nil
}

const (
	ledgersSQL = `SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relname = 'lease_grant' AND c.relkind IN ('r', 'p') ORDER BY 1`
	schemaExists = "42P06"
)

// make makes the schema, in a database where nobody's quotas have to wait for a benchmark.
func (d *database) make(ctx context.Context) error {
	return d.do(ctx, d.outer, func(c *pgx.Conn) error {
		if d.server != nil { // nobody else is here: it can only be left from a run that was killed
			if _, err := c.Exec(ctx, "DROP SCHEMA IF EXISTS "+schema+" CASCADE"); err != nil {
				return fmt.Errorf("drop schema %s: %w", schema, err)
			}
		}
		if err := refuseUsed(ctx, c); err != nil {
			return err
		}
		_, err := c.Exec(ctx, "CREATE SCHEMA "+schema)
		var refused *pgconn.PgError
		if errors.As(err, &refused) && refused.Code == schemaExists {
			return errInUse
		}
		if err != nil {
			return fmt.Errorf("make schema %s: %w", schema, err)
		}
		d.made = true
		return nil
	})
}

var errInUse = fmt.Errorf("make schema %s: it is there already, because another benchmark is running or one was killed; "+
	"allowed: a database without it (if none is running: DROP SCHEMA %s CASCADE)", schema, schema)

func refuseUsed(ctx context.Context, c *pgx.Conn) error {
	rows, err := c.Query(ctx, ledgersSQL)
	if err != nil {
		return fmt.Errorf("look for a ledger: %w", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("look for a ledger: %w", err)
	}
	for _, name := range names {
		var used bool
		if name == schema {
			return errInUse
		}
		if err := c.QueryRow(ctx, "SELECT EXISTS (SELECT FROM "+pgx.Identifier{name, "lease_grant"}.Sanitize()+")").Scan(&used); err != nil {
			return fmt.Errorf("look into the ledger in schema %s: %w", name, err)
		}
		if used {
			return fmt.Errorf("measure on this database: schema %s holds a ledger that is in use, whose agents would wait; "+
				"allowed: a database, or a folder for a private Postgres, without one", name)
		}
	}
	return nil
}

func (d *database) do(ctx context.Context, dsn string, work func(*pgx.Conn) error) (err error) {
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return fmt.Errorf("connect to Postgres: %w", err)
	}
	defer func() { err = errors.Join(err, c.Close(context.WithoutCancel(ctx))) }()
	return work(c)
}

// cpu says what the server has used; nil where that cannot be known.
func (d *database) cpu() func() (time.Duration, error) {
	if d.server == nil {
		return nil
	}
	if _, err := serverCPU(d.server.Pid()); err != nil {
		return nil
	}
	return func() (time.Duration, error) { return serverCPU(d.server.Pid()) }
}

// ErrLeft reports that the schema could not be dropped.
var ErrLeft = fmt.Errorf("schema %s is left", schema)

// close drops what was made and stops what was started, even after an interrupt.
func (d *database) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
	defer cancel()
	var err error
	if d.made {
		err = d.do(ctx, d.outer, func(c *pgx.Conn) error {
			_, err := c.Exec(ctx, "DROP SCHEMA "+schema+" CASCADE")
			return err
		})
		if err != nil {
			err = fmt.Errorf("%w: %w", ErrLeft, err)
		}
	}
	if d.server != nil {
		err = errors.Join(err, d.server.Stop(ctx))
	}
	return err
}
