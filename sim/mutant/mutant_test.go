package mutant

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quotalease/quotalease/sim/world"
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

// TestEveryMutantIsFound builds this package's tests with each mistake and wants a seed that finds
// it; -v prints the table. QUOTALEASE_MUTANTS says how many seeds each gets, or is a part of the
// names of those to try.
func TestEveryMutantIsFound(t *testing.T) {
	asked := os.Getenv("QUOTALEASE_MUTANTS")
	if asked == "" {
		t.Skip("builds a program for each mutant; set QUOTALEASE_MUTANTS=1 to run it")
	}
	seeds := 1500
	if n, err := strconv.Atoi(asked); err == nil {
		seeds, asked = max(n, seeds), ""
	}
	for _, m := range List() {
		if !strings.Contains(m.Name, asked) {
			continue
		}
		began := time.Now()
		out := simulate(t, build(t, m), seeds)
		if out == "" {
			t.Errorf("%-50s %d seeds found nothing", m.Name, seeds)
			continue
		}
		t.Logf("%-50s %s (%s)", m.Name, out, time.Since(began).Round(time.Second))
	}
}

// TestSeeds is what a mutant runs: seed after seed until a promise is broken.
func TestSeeds(t *testing.T) {
	seeds, err := strconv.Atoi(os.Getenv(seedsOfMutant))
	if err != nil {
		t.Skip("only mutants run it")
	}
	report := world.RunSeeds(t.Context(), world.Plan{First: 1, Seeds: seeds, Events: world.DefaultEvents, Workers: runtime.GOMAXPROCS(0)}, &world.Progress{})
	for _, r := range report.Failures {
		fmt.Printf("%sseed %d: %s: %s\n", foundBy, r.Script.Seed, r.Fault.Promise, r.Fault.What)
	}
}

const (
	seedsOfMutant = "QUOTALEASE_SEEDS_OF_MUTANT"
	foundBy       = "found by "
)

// build compiles this package's tests with a mutant laid over the module's files.
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
	binary := filepath.Join(dir, "mutant.test")
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", at, "-o", binary, "./sim/mutant")
	cmd.Dir = root(t)
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", m.Name, err, said)
	}
	return binary
}

// simulate runs a mutant and returns the first seed that found it, and how. A mutant may also fall
// over its own mistake.
func simulate(t *testing.T, binary string, seeds int) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, "-test.run", "^TestSeeds$", "-test.timeout", "15m")
	cmd.Env = append(os.Environ(), seedsOfMutant+"="+strconv.Itoa(seeds))
	said, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(said)) {
		if found, ok := strings.CutPrefix(strings.TrimSpace(line), foundBy); ok {
			return found[:min(len(found), 140)]
		}
		if err != nil && strings.HasPrefix(line, "panic: ") && !strings.HasPrefix(line, "panic: test timed out") {
			return strings.TrimSpace(line)
		}
	}
	if err != nil {
		t.Fatalf("run: %v\n%s", err, said)
	}
	return ""
}
