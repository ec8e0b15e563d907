package mutant

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// mutated returns the files of a mutant as they would be, by path.
func mutated(t *testing.T, m Mutant) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, e := range m.Edits {
		at := filepath.Join(root(t), filepath.FromSlash(e.File))
		text, ok := files[at]
		if !ok {
			raw, err := os.ReadFile(at)
			if err != nil {
				t.Fatal(err)
			}
			text = string(raw)
		}
		if n := strings.Count(text, e.From); n != 1 {
			t.Fatalf("%s: %q occurs %d times, want once", e.File, e.From, n)
		}
		files[at] = strings.Replace(text, e.From, e.To, 1)
	}
	return files
}

func TestEveryEditApplies(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, m := range List() {
		t.Run(m.Name, func(t *testing.T) {
			if names[m.Name] || len(m.Edits) == 0 {
				t.Errorf("%q has no edits, or is there twice", m.Name)
			}
			names[m.Name] = true
			mutated(t, m)
		})
	}
}

// TestEveryMutantIsFound builds the simulator with each mistake and wants a seed that finds it.
// QUOTALEASE_MUTANTS says how many seeds each gets, or is the name of a single mutant.
func TestEveryMutantIsFound(t *testing.T) {
	asked := os.Getenv("QUOTALEASE_MUTANTS")
	if asked == "" {
		t.Skip("builds a program for each mutant; set QUOTALEASE_MUTANTS=1 to run it")
	}
	seeds := 300
	if n, err := strconv.Atoi(asked); err == nil && n > 1 {
		seeds = n
	}
	for _, m := range List() {
		t.Run(m.Name, func(t *testing.T) {
			if _, err := strconv.Atoi(asked); err != nil && !strings.Contains(m.Name, asked) {
				t.Skip("not asked for")
			}
			began := time.Now()
			out, code := simulate(t, build(t, m), seeds)
			if code != 1 || len(out.Broken) == 0 {
				t.Fatalf("%d seeds found nothing (exit code %d)", seeds, code)
			}
			b := out.Broken[0]
			t.Logf("seed %d, %d ms, %d lines: %s: %s (%s)", b.Seed, b.AtMS, len(b.History), b.Promise, b.What, time.Since(began).Round(time.Second))
		})
	}
}

// build compiles the module with a mutant laid over its files.
func build(t *testing.T, m Mutant) string {
	t.Helper()
	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for at, text := range mutated(t, m) {
		changed := filepath.Join(dir, strconv.Itoa(len(overlay.Replace))+".go")
		if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[at] = changed
	}
	list, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(at, list, 0o600); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "quotalease")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-overlay", at, "-o", binary, "./cmd/quotalease")
	cmd.Dir = root(t)
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, said)
	}
	return binary
}

type found struct {
	Broken []struct {
		Seed    uint64   `json:"seed"`
		Promise string   `json:"promise"`
		What    string   `json:"what"`
		AtMS    int64    `json:"at_ms"`
		History []string `json:"history"`
	} `json:"broken"`
}

func simulate(t *testing.T, binary string, seeds int) (out found, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, "sim", "--seeds", strconv.Itoa(seeds), "-o", "json")
	raw, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatalf("read %q: %v", raw, err)
	}
	return out, cmd.ProcessState.ExitCode()
}
