package policy_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quotalease/quotalease/controlplane/policy"
)

func reference(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("POLICY.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestTheReferenceHasEveryField finds in the sources which fields policy files may have.
func TestTheReferenceHasEveryField(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	text, fields := reference(t), map[string]bool{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if sel, ok := call.Fun.(*ast.SelectorExpr); !ok || sel.Sel.Name != "object" && sel.Sel.Name != "word" {
				return true
			}
			for _, arg := range call.Args {
				if lit, ok := arg.(*ast.BasicLit); ok {
					word, err := strconv.Unquote(lit.Value)
					if err != nil {
						t.Fatal(err)
					}
					fields[word] = true
				}
			}
			return true
		})
	}
	if len(fields) < 60 {
		t.Fatalf("found only %d fields: are these the sources?", len(fields))
	}
	for word := range fields {
		if !regexp.MustCompile("[`.{, ]" + regexp.QuoteMeta(word) + "[`:.,} ]").MatchString(text) {
			t.Errorf("POLICY.md does not tell of %s", word)
		}
	}
}

// TestTheReferencesExamplesAreValid reads each example as a policy of its own.
func TestTheReferencesExamplesAreValid(t *testing.T) {
	t.Parallel()
	examples := regexp.MustCompile(`(?m)(?:^    .*\n)+`).FindAllString(reference(t), -1)
	if len(examples) != 4 {
		t.Fatalf("%d examples, want 4", len(examples))
	}
	for _, example := range examples {
		text := strings.ReplaceAll(strings.TrimPrefix(example, "    "), "\n    ", "\n")
		if !strings.Contains(text, "dimensions:") { // a policy has one
			text += "dimensions:\n- {name: calls, kind: rate, limit: 1/s, class: hard}\n"
		}
		at := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
		if _, err := policy.Parse([]policy.File{{Name: "example.yaml", Text: []byte(text)}}, at); err != nil {
			t.Errorf("%v\n%s", err, text)
		}
	}
}
