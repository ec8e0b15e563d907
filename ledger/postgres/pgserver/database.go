package pgserver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"
)

// CreateDatabase makes a database as a copy of the template ("" is PostgreSQL's own) and
// returns its connection string, made from dsn. Nobody may be connected to the template.
func CreateDatabase(ctx context.Context, dsn, name, template string) (string, error) {
	made, err := withDatabase(dsn, name)
	if err != nil {
		return "", fmt.Errorf("create database %s: %w", name, err)
	}
	statement := "CREATE DATABASE " + pgx.Identifier{name}.Sanitize()
	if template != "" {
		statement += " TEMPLATE " + pgx.Identifier{template}.Sanitize()
	}
	if err := execute(ctx, dsn, statement); err != nil {
		return "", fmt.Errorf("create database %s: %w", name, err)
	}
	return made, nil
}

// DropDatabase removes a database, closing the connections to it. One that does not exist is
// fine. The dsn must name another database.
func DropDatabase(ctx context.Context, dsn, name string) error {
	statement := "DROP DATABASE IF EXISTS " + pgx.Identifier{name}.Sanitize() + " WITH (FORCE)"
	if err := execute(ctx, dsn, statement); err != nil {
		return fmt.Errorf("drop database %s: %w", name, err)
	}
	return nil
}

func execute(ctx context.Context, dsn, statement string) (err error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	_, err = conn.Exec(ctx, statement)
	return err
}

// withDatabase changes the database that a connection string names, in either of its forms.
func withDatabase(dsn, name string) (string, error) {
	if name == "" || strings.ContainsRune(name, 0) {
		return "", errors.New("the name must not be empty or hold a zero byte")
	}
	if !strings.HasPrefix(dsn, "postgres://") && !strings.HasPrefix(dsn, "postgresql://") {
		return dsn + " dbname=" + quoteDSN(name), nil // the last mention counts
	}
	parsed, err := url.Parse(dsn)
	if err != nil {
		// url's own error repeats the whole string, password included.
		return "", errors.New("the connection string is not a valid URL")
	}
	query := parsed.Query()
	query.Del("dbname")
	query.Del("database")
	parsed.RawQuery = query.Encode()
	parsed.Path, parsed.RawPath = "/"+name, ""
	return parsed.String(), nil
}

// quoteDSN quotes one value of a keyword connection string.
func quoteDSN(value string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(value) + "'"
}
