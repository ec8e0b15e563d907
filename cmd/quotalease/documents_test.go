package main

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// promising are the documents whose statements name the tests that guard them.
var promising = []string{"ledger/BOUNDS.md", "proto/PROTOCOL.md"}

func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestDocumentsNameTestsThatExist(t *testing.T) {
	t.Parallel()
	tests := map[string]bool{}
	for _, f := range sources(t) {
		for _, decl := range f.ast.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && f.test() && fn.Recv == nil {
				tests[fn.Name.Name] = true
			}
		}
	}
	for _, name := range promising {
		named := promised.FindAllString(document(t, name), -1)
		if len(named) < 10 {
			t.Errorf("%s names only %d tests", name, len(named))
		}
		for _, test := range named {
			if !tests[test] {
				t.Errorf("%s promises by %s, which does not exist", name, test)
			}
		}
	}
}

// argument begins a step of BOUNDS.md.
var argument = regexp.MustCompile(`(?m)^\*\*(\d+)\. `)

// TestEveryBoundIsGuarded holds each step of the argument to a test of its own, and to a promise
// of the simulator's oracle that exists.
func TestEveryBoundIsGuarded(t *testing.T) {
	t.Parallel()
	text := document(t, "ledger/BOUNDS.md")
	why, rest, _ := strings.Cut(text, "## What is taken for granted")
	_, why, _ = strings.Cut(why, "## Why it holds")
	steps := argument.FindAllStringSubmatchIndex(why, -1)
	if len(steps) != 8 {
		t.Fatalf("%d steps, want 8", len(steps))
	}
	_, watched, _ := strings.Cut(rest, "## Who watches")
	watched, _, _ = strings.Cut(watched, "\n## ")
	for i, at := range steps {
		end := len(why)
		if i+1 < len(steps) {
			end = steps[i+1][0]
		}
		step := why[at[2]:at[3]]
		if promised.FindString(why[at[0]:end]) == "" {
			t.Errorf("step %s names no test", step)
		}
		if !regexp.MustCompile(`(?m)^\| [^|]*\b` + step + `\b`).MatchString(watched) {
			t.Errorf("step %s is not among those that are watched", step)
		}
	}
	promises := oraclePromises(t)
	quoted := regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(watched, -1)
	if len(quoted) < 10 {
		t.Errorf("only %d promises of the oracle are named", len(quoted))
	}
	for _, q := range quoted {
		if !promises[q[1]] {
			t.Errorf("the oracle has no promise %q", q[1])
		}
	}
}

// oraclePromises are the words of sim/oracle's constants of type Promise.
func oraclePromises(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, f := range sources(t) {
		if f.dir != "sim/oracle" || f.test() {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if kind, ok := spec.Type.(*ast.Ident); !ok || kind.Name != "Promise" {
				return true
			}
			for _, v := range spec.Values {
				if lit, ok := v.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if word, err := strconv.Unquote(lit.Value); err == nil {
						found[word] = true
					}
				}
			}
			return true
		})
	}
	return found
}
