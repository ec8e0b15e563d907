//go:build linux

package chaos

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	seedFlag = flag.Uint64("chaos.seed", 0, "seed of the plan of faults; 0 draws one")
	forFlag  = flag.Duration("chaos.for", 20*time.Second, "how long faults happen")
)

// built is the program under test, which all rounds of a test process share.
var built struct {
	once sync.Once
	dir  string
	path string
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		if err := os.RemoveAll(built.dir); err != nil {
			fmt.Fprintln(os.Stderr, "remove the program under test:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// lookAtSources reads the module's folders. A cached test result is served only while what the
// test has looked at is unchanged, and the test binary is made of only a part of the product.
func lookAtSources() error {
	root := filepath.Join("..", "..", "..")
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), ".") {
			return filepath.SkipDir
		}
		return err
	})
}

// program is the path of the product, built as users build it.
func program(t testing.TB) string {
	t.Helper()
	built.once.Do(func() {
		if built.err = lookAtSources(); built.err != nil {
			return
		}
		if built.dir, built.err = os.MkdirTemp("", "quotalease-chaos-bin-"); built.err != nil {
			return
		}
		built.path = filepath.Join(built.dir, "quotalease")
		said, err := exec.Command("go", "build", "-o", built.path, "github.com/quotalease/quotalease/cmd/quotalease").CombinedOutput()
		if err != nil {
			built.err = fmt.Errorf("build quotalease: %w\n%s", err, said)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
}

// Every promise holds while processes are killed and stopped, and connections break.
func TestRealFaults(t *testing.T) { play(t, false) }

// All of it works through pgbouncer in transaction mode: nothing depends on a session.
func TestO9TransactionPooling(t *testing.T) { play(t, true) }

func skipUnderRace(t *testing.T) {
	t.Helper()
	if raceDetector {
		t.Skip("the race detector would watch this process, and all that is tested runs in others")
	}
}

// aftermath bounds what comes after the faults of a round.
const aftermath = 100 * time.Second

func play(t *testing.T, pooled bool) {
	t.Parallel()
	skipUnderRace(t)
	seed := *seedFlag
	for seed == 0 {
		seed = uint64(rand.Uint32())
	}
	again := fmt.Sprintf("go test ./cmd/quotalease/chaos -run '^%s$' -count=1 -chaos.seed=%d -chaos.for=%s", t.Name(), seed, *forFlag)
	t.Logf("seed %d; again: %s", seed, again)
	r := newRound(t)
	r.build(pooled)
	ctx, cancel := context.WithTimeout(t.Context(), *forFlag+aftermath)
	defer cancel()
	r.history.say("seed %d", seed)
	faults := faultsOf(pooled)
	plan := draw(seed, *forFlag, faults)
	r.trouble(ctx, seed, plan)
	r.settle(ctx)
	r.report()
	if len(plan) >= len(faults) {
		r.vacuous(faults)
	}
	if len(r.broken) > 0 {
		path := filepath.Join(r.dir, "history.txt")
		if err := os.WriteFile(path, []byte(r.history.last(-1)), 0o644); err != nil {
			t.Error(err)
		}
		t.Errorf("seed %d broke:\n%s\n\nthe end of the history (all of it is in %s):\n%s\nagain: %s",
			seed, strings.Join(r.broken, "\n"), path, r.history.last(50), again)
	}
}

// report shows what the round was made of.
func (r *round) report() {
	outcomes := map[outcome]int{}
	for _, t := range r.history.all() {
		outcomes[t.outcome]++
	}
	r.Logf("takes: %v", outcomes)
	for _, name := range slices.Sorted(maps.Keys(r.fired)) {
		r.Logf("%3d times %s", r.fired[name], name)
	}
}

// vacuous fails a round that proves little: a kind of fault that did not happen, a COMMIT that
// nobody cut, a key that nobody was ever allowed to use.
func (r *round) vacuous(faults []*fault) {
	for _, f := range faults {
		if r.fired[f.name] == 0 {
			r.violated("no %s happened", f.name)
		}
	}
	for _, c := range []cut{before, torn, after} {
		if r.commits.happened(c) == 0 {
			r.violated("no connection was cut %s", c)
		}
	}
	if r.pooler != nil && r.behindPooler.happened(after) == 0 {
		r.violated("no connection was cut behind pgbouncer")
	}
	used := map[string]bool{}
	for _, t := range r.history.all() {
		used[t.key.String()] = used[t.key.String()] || t.outcome == allowed
	}
	for _, key := range keys() {
		if !used[key.String()] {
			r.violated("no take of %s was ever allowed", key)
		}
	}
}
