package main

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/quotalease/quotalease/ledger/postgres"
)

// passwordWord finds the password of a connection string of key=value words, quoted or not.
var passwordWord = regexp.MustCompile(`(?i)password\s*=\s*('(?:[^'\\]|\\.)*'|[^\s&]+)`)

// escaped is a character after a backslash, as such words write a quote.
var escaped = regexp.MustCompile(`\\(.)`)

// hidden is an error whose text is safe to show.
type hidden struct {
	text string
	err  error
}

func (e *hidden) Error() string { return e.text }
func (e *hidden) Unwrap() error { return e.err }

// hide takes a connection string and the password in it out of an error's words. Drivers try
// to, and a string that they cannot read defeats them.
func hide(err error, dsn string) error {
	if err == nil || dsn == "" {
		return err
	}
	shown := err.Error()
	for _, secret := range secretsOf(dsn) {
		shown = strings.ReplaceAll(shown, secret, "xxxxx")
	}
	return &hidden{shown, err}
}

// secretsOf lists a connection string and every way to write its password, longest first, so
// that none is cut in two by another. It reads what no parser accepts: a string with a typing
// error holds a real password.
func secretsOf(dsn string) []string {
	var written []string
	if _, rest, ok := strings.Cut(dsn, "://"); ok {
		if at := strings.LastIndex(rest, "@"); at >= 0 {
			if _, password, ok := strings.Cut(rest[:at], ":"); ok {
				written = append(written, password)
			}
		}
	}
	for _, m := range passwordWord.FindAllStringSubmatch(dsn, -1) {
		bare := strings.TrimSuffix(strings.TrimPrefix(m[1], "'"), "'")
		written = append(written, m[1], bare, escaped.ReplaceAllString(bare, "$1"))
	}
	secrets := []string{dsn}
	for _, w := range written {
		secrets = append(secrets, w)
		for _, decode := range []func(string) (string, error){url.PathUnescape, url.QueryUnescape} {
			if plain, err := decode(w); err == nil {
				secrets = append(secrets, plain)
			}
		}
	}
	secrets = slices.DeleteFunc(secrets, func(s string) bool { return s == "" })
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return secrets
}

const databaseAdvice = "Postgres gives no answer: see that it runs and accepts connections, and that --database-url or " +
	databaseEnv + " names it."

// databaseError sorts what went wrong with Postgres: no answer is an outage.
func databaseError(ctx context.Context, err error, dsn string) error {
	if err == nil {
		return nil
	}
	safe := hide(err, dsn)
	var connect *pgconn.ConnectError
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil:
		return outage(safe, "The work was not done within --timeout; try again with a longer one, or without.")
	case ctx.Err() != nil:
		return safe
	case errors.Is(err, postgres.ErrUnavailable), errors.As(err, &connect):
		return outage(safe, databaseAdvice)
	}
	return safe
}
