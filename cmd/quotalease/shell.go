package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

const (
	defaultServer  = "127.0.0.1:7600"
	defaultTimeout = 10 * time.Second

	serverEnv   = "QUOTALEASE_SERVER"
	databaseEnv = "QUOTALEASE_DATABASE_URL"
)

// shell is what a command has of the outside world, and the global flags.
type shell struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string
	now      func() time.Time
	login    func() string // the user's name as the system knows it; empty if it does not

	server      string
	databaseURL string // a secret: shown to nobody
	format      string
	timeout     time.Duration
	timeoutSet  bool // by the user; else work on a whole database has none
}

func processShell() *shell {
	return &shell{in: os.Stdin, out: os.Stdout, err: os.Stderr, getenv: os.Getenv, now: time.Now, login: login}
}

func login() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}

func (sh *shell) globalFlags(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.StringVar(&sh.server, "server", defaultServer, "control plane to ask, host:port; also "+serverEnv)
	flags.StringVarP(&sh.format, "output", "o", formatTable, "table for people or json for scripts")
	flags.DurationVar(&sh.timeout, "timeout", defaultTimeout,
		"longest wait for an answer; work on a whole database has no limit unless this is given")
}

// databaseFlag gives a command --database-url. The variable is read later, in settle: a
// default would be printed by --help.
func (sh *shell) databaseFlag(cmd *cobra.Command) {
	cmd.PersistentFlags().StringVar(&sh.databaseURL, "database-url", "",
		"Postgres to talk to, as a URL or key=value words; better in "+databaseEnv+", which no list of processes shows")
}

// settle completes the global flags from the environment and checks them.
func (sh *shell) settle(cmd *cobra.Command) error {
	flags := cmd.Flags()
	if env := sh.getenv(serverEnv); env != "" && !flags.Changed("server") {
		sh.server = env
	}
	if sh.databaseURL == "" {
		sh.databaseURL = sh.getenv(databaseEnv)
	}
	sh.timeoutSet = flags.Changed("timeout")
	formats := []string{formatTable, formatJSON}
	if extra := cmd.Annotations[extraFormat]; extra != "" {
		formats = append(formats, extra)
	}
	if !slices.Contains(formats, sh.format) {
		return misuse("--output: %q; allowed: %s", sh.format, strings.Join(formats, ", "))
	}
	if sh.timeout <= 0 {
		return misuse("--timeout: %s; allowed: more than 0s", sh.timeout)
	}
	if _, _, err := net.SplitHostPort(sh.server); err != nil {
		return misuse("--server: %q; allowed: host:port, e.g. %s", sh.server, defaultServer)
	}
	return nil
}

// needDatabase returns the connection string.
func (sh *shell) needDatabase() (string, error) {
	if sh.databaseURL == "" {
		return "", misuse("--database-url: missing; allowed: a Postgres connection string, here or in %s", databaseEnv)
	}
	return sh.databaseURL, nil
}

// wholeDatabase bounds work whose length grows with the database: only as the user says.
func (sh *shell) wholeDatabase(ctx context.Context) (context.Context, context.CancelFunc) {
	if sh.timeoutSet {
		return context.WithTimeout(ctx, sh.timeout)
	}
	return context.WithCancel(ctx)
}

// note writes a remark for people that is not part of the result.
func (sh *shell) note(format string, args ...any) {
	fmt.Fprintf(sh.err, format+"\n", args...)
}
