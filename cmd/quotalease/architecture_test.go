package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/quotalease/quotalease"

// sourceFile is one Go file of the module, by its folder below the root.
type sourceFile struct {
	dir, name string
	ast       *ast.File
	fset      *token.FileSet
}

func (f sourceFile) test() bool      { return strings.HasSuffix(f.name, "_test.go") }
func (f sourceFile) generated() bool { return strings.HasSuffix(f.name, ".pb.go") }

// sources parses every Go file of the module, in process: `go list` would be served from the
// test cache and miss changes.
func sources(t *testing.T) []sourceFile {
	t.Helper()
	root := filepath.Join("..", "..")
	var files []sourceFile
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == "tools" || strings.HasPrefix(d.Name(), ".") && p != root) {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(p, ".go") {
			return nil
		}
		fset := token.NewFileSet()
		tree, err := parser.ParseFile(fset, p, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		files = append(files, sourceFile{filepath.ToSlash(filepath.Dir(rel)), d.Name(), tree, fset})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 50 {
		t.Fatalf("found only %d files: is this the module?", len(files))
	}
	return files
}

// arrows says which of our folders each folder may import. The first prefix that fits counts.
var arrows = []struct {
	from string
	may  []string
}{
	{"cmd", []string{"agent", "cmd", "controlplane", "ledger", "migrations", "proto", "sim"}},
	{"sim", []string{"agent", "controlplane", "ledger", "proto", "sim"}},
	{"controlplane", []string{"controlplane", "ledger", "proto"}},
	{"agent/agenttest", []string{"controlplane", "ledger", "proto"}},
	{"agent", []string{"agent", "ledger/quota", "ledger/tokenbucket", "proto"}},
	{"ledger/ledgertest", []string{"ledger", "migrations"}},
	{"ledger/quota/descriptor", []string{"ledger/quota"}},
	{"ledger/quota", nil},
	{"ledger/tokenbucket", []string{"ledger/quota"}},
	{"ledger/postgres", []string{"ledger"}},
	{"ledger/memory", []string{"ledger"}},
	{"ledger", []string{"ledger/quota", "ledger/tokenbucket"}},
	{"migrations", nil},
	{"proto", nil},
}

// foreign says where a heavy dependency may be imported at all.
var foreign = []struct {
	prefix string
	only   []string
}{
	{"github.com/jackc/pgx", []string{"ledger/postgres", "ledger/ledgertest", "migrations", "controlplane/policy/pglog", "cmd"}},
	{"github.com/pressly/goose", []string{"migrations"}},
	{"github.com/envoyproxy/go-control-plane", []string{"agent/rls", "cmd/quotalease/bench"}},
	{"google.golang.org/grpc", []string{"agent/rpc", "agent/rls", "agent/grpcquota", "agent/agenttest", "controlplane/rpc", "proto", "cmd"}},
	{"github.com/go-jose/go-jose", []string{"agent/identity"}},
	{"github.com/spf13/cobra", []string{"cmd"}},
}

func below(dir, prefix string) bool { return dir == prefix || strings.HasPrefix(dir, prefix+"/") }

func TestImportsPointOneWay(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		if f.test() {
			continue // tests may look from outside
		}
		for _, spec := range f.ast.Imports {
			imported := strings.Trim(spec.Path.Value, `"`)
			if ours, ok := strings.CutPrefix(imported, module+"/"); ok {
				i := slices.IndexFunc(arrows, func(a struct {
					from string
					may  []string
				}) bool {
					return below(f.dir, a.from)
				})
				if i < 0 || !slices.ContainsFunc(arrows[i].may, func(m string) bool { return below(ours, m) }) {
					t.Errorf("%s/%s imports %s: not one of its arrows", f.dir, f.name, ours)
				}
				continue
			}
			for _, h := range foreign {
				if below(imported, h.prefix) && !slices.ContainsFunc(h.only, func(o string) bool { return below(f.dir, o) }) {
					t.Errorf("%s/%s imports %s, which belongs to %v", f.dir, f.name, imported, h.only)
				}
			}
		}
	}
}

// clockRooms are where time.Now may be called: edges, and constructors of shells.
var clockRooms = []string{"cmd", "agent/agent.go", "agent/protect.go", "agent/wait.go", "agent/run.go", "agent/metrics.go",
	"agent/agenttest", "agent/boottime", "agent/httpquota/httpquota.go", "agent/rls", "agent/rpc", "agent/web", "controlplane/rpc", "controlplane/controlplane.go", "ledger/postgres", "ledger/ledgertest", "migrations", "sim/bench"}

func TestRulesReadNoClock(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		if f.test() || slices.ContainsFunc(clockRooms, func(r string) bool { return below(f.dir+"/"+f.name, r) || below(f.dir, r) }) {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "time" && (sel.Sel.Name == "Now" || sel.Sel.Name == "Since" || sel.Sel.Name == "Until") {
				t.Errorf("%s: time.%s in a room that is told the time", f.fset.Position(n.Pos()), sel.Sel.Name)
			}
			return true
		})
	}
}

var promised = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z0-9][A-Za-z0-9_]*`)

// TestEveryPromiseNamesATest holds each package to a doc comment, and each test that such a
// comment names to existing in that package's folder or below.
func TestEveryPromiseNamesATest(t *testing.T) {
	t.Parallel()
	files := sources(t)
	tests := map[string][]string{} // name to folders
	docs := map[string]string{}
	packages := map[string]bool{}
	for _, f := range files {
		for _, decl := range f.ast.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && f.test() && fn.Recv == nil {
				tests[fn.Name.Name] = append(tests[fn.Name.Name], f.dir)
			}
		}
		if !f.test() && !f.generated() {
			packages[f.dir] = true
			if f.ast.Doc != nil {
				docs[f.dir] += f.ast.Doc.Text()
			}
		}
	}
	for dir := range packages {
		doc := docs[dir]
		names := promised.FindAllString(doc, -1)
		if doc == "" || len(names) == 0 {
			t.Errorf("package %s: its comment names no test that guards a promise", dir)
		}
		for _, name := range names {
			if !slices.ContainsFunc(tests[name], func(d string) bool { return below(d, dir) || below(dir, d) || below(d, path.Dir(dir)) }) {
				t.Errorf("package %s promises by %s, which does not exist there", dir, name)
			}
		}
	}
}

// TestTheDrawingMatchesTheFolders holds README's drawing to the folders that exist.
func TestTheDrawingMatchesTheFolders(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(readme), "<!-- architecture -->")
	if !ok {
		t.Fatal("README.md has no architecture drawing")
	}
	drawing, _, _ := strings.Cut(rest, "<!-- /architecture -->")
	inDrawing := map[string]bool{}
	for _, m := range regexp.MustCompile(`\b((?:agent|cmd|controlplane|deploy|ledger|migrations|proto|sim)(?:/[a-z0-9]+)*)\b`).FindAllString(drawing, -1) {
		inDrawing[m] = true
		if info, err := os.Stat(filepath.Join("..", "..", m)); err != nil || !info.IsDir() {
			t.Errorf("the drawing shows %s, which is no folder", m)
		}
	}
	for _, f := range sources(t) {
		if f.test() || f.dir == "proto/quotalease/v1" {
			continue
		}
		if !inDrawing[f.dir] {
			t.Errorf("the drawing does not show %s", f.dir)
			inDrawing[f.dir] = true // say it once
		}
	}
}
