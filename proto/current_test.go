package proto

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestGeneratedCodeIsCurrent generates the code anew and compares. The generator takes
// minutes to build on a machine that never did, so outside CI it runs only when asked to.
func TestGeneratedCodeIsCurrent(t *testing.T) {
	if os.Getenv("CI") != "true" && os.Getenv("QUOTALEASE_TEST_GENERATE") == "" {
		t.Skip("set QUOTALEASE_TEST_GENERATE=1 to check that the generated code is current; CI does")
	}
	out := t.TempDir()
	for _, args := range [][]string{
		{"tool", "-modfile=tools/go.mod", "buf", "format", "--diff", "--exit-code"},
		{"tool", "-modfile=tools/go.mod", "buf", "lint"},
		{"tool", "-modfile=tools/go.mod", "buf", "generate", "-o", out},
	} {
		if text, err := exec.Command("go", args...).CombinedOutput(); err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, text)
		}
	}
	generated, err := filepath.Glob(filepath.Join(out, "quotalease", "v1", "*.go"))
	if err != nil || len(generated) == 0 {
		t.Fatalf("nothing was generated: %v", err)
	}
	for _, path := range generated {
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		committed := filepath.Join("quotalease", "v1", filepath.Base(path))
		got, err := os.ReadFile(committed)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what the .proto files say: run go generate ./proto", committed)
		}
	}
}
