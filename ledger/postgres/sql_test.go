package postgres_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// statements are the SQL constants of a folder's Go files, by name.
func statements(t *testing.T, folder string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 || !strings.HasSuffix(spec.Names[0].Name, "SQL") {
				return true
			}
			literal, ok := spec.Values[0].(*ast.BasicLit)
			if !ok {
				t.Errorf("%s is not one literal: people paste statements into psql", spec.Names[0].Name)
				return true
			}
			text, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			found[spec.Names[0].Name] = text
			return true
		})
	}
	return found
}

// Every statement is valid against the schema as migrated, and carries its own name.
func TestStatementsPrepare(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	conn, err := pgx.Connect(f.Context(), f.dsn)
	f.must(err)
	defer conn.Close(f.Context())
	names := map[string]string{}
	for _, folder := range []string{".", "../../migrations", "../../controlplane/policy/pglog"} {
		for constant, text := range statements(t, folder) {
			first, _, _ := strings.Cut(text, "\n")
			name, ok := strings.CutPrefix(first, "-- name: ")
			if !ok {
				t.Errorf("%s does not begin with its name", constant)
			}
			if other := names[name]; other != "" {
				t.Errorf("%s and %s are both named %s", constant, other, name)
			}
			names[name] = constant
			if _, err := conn.Prepare(f.Context(), name, text); err != nil {
				t.Errorf("prepare %s: %v", constant, err)
			}
		}
	}
	if len(names) < 25 {
		t.Errorf("found %d statements only: is the folder right?", len(names))
	}
}

// arguments is how many a statement takes.
func arguments(statement string) int {
	n := 0
	for strings.Contains(statement, "$"+strconv.Itoa(n+1)) {
		n++
	}
	return n
}

// The plan for loading grants looks each account up, even if it was made while the tables were
// empty: it would be kept while they grow.
func TestPlansOfEmptyTables(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	conn, err := pgx.Connect(f.Context(), f.dsn)
	f.must(err)
	defer conn.Close(f.Context())
	all := statements(t, ".")
	_, err = conn.Exec(f.Context(), "BEGIN")
	f.must(err)
	_, err = conn.Exec(f.Context(), all["settingsSQL"], "1s", "1s", "1s")
	f.must(err)
	for _, constant := range []string{
		"makeAccountsSQL", "lockAccountsSQL", "lockIncarnationsSQL", "loadGrantsSQL",
		"loadParticipantsSQL", "updateAccountsSQL", "updateGrantsSQL", "updateIncarnationsSQL",
		"makeLineSQL", "lockLineSQL", "loadTicketsSQL", "deleteTicketsSQL", "upsertTicketsSQL", "updateLineSQL",
	} {
		_, err := conn.Exec(f.Context(), "PREPARE "+constant+" AS "+all[constant])
		f.must(err)
		args := strings.TrimSuffix(strings.Repeat("NULL, ", arguments(all[constant])), ", ")
		rows, err := conn.Query(f.Context(), fmt.Sprintf("EXPLAIN EXECUTE %s (%s)", constant, args))
		f.must(err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		f.must(err)
		plan := strings.Join(lines, "\n")
		for _, bad := range []string{"Seq Scan", "lease_grant_due", "account_window_end", "account_endless", "account_unstated", "account_unfinal", "Hash Join", "Merge Join"} {
			if strings.Contains(plan, bad) {
				t.Errorf("%s uses %s:\n%s", constant, bad, plan)
			}
		}
		if n, m := strings.Count(plan, "Index Scan"), strings.Count(plan, "Index Cond"); n > m {
			t.Errorf("%s reads a whole index:\n%s", constant, plan)
		}
	}
}
