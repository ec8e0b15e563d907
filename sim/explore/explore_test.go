package explore

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// worldsEnv names the worlds that TestWorldsKeepEveryPromise explores, separated by commas, or "all".
const worldsEnv = "QUOTALEASE_WORLDS"

// TestWorldsKeepEveryPromise explores worlds until no new state appears: unless told otherwise
// those that take no more than seconds.
func TestWorldsKeepEveryPromise(t *testing.T) {
	names := strings.Split(os.Getenv(worldsEnv), ",")
	if names[0] == "" {
		names = []string{"next window", "drained", "renewal", "slow clock", "setback", "crash", "repeat", "unknown commit"}
	}
	for _, w := range Worlds() {
		if names[0] != "all" && !slices.Contains(names, w.Name) {
			continue
		}
		t.Run(w.Name, func(t *testing.T) {
			t.Parallel()
			f, err := Explore(t.Context(), w, 5_000_000, func(Found) {})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %d states, %d steps, depth %d, %d rests, %d probes", w.Budget, f.States, f.Steps, f.Depth, f.Rests, f.Probes)
			if f.Fault != "" || !f.Closed {
				t.Errorf("%s\n%s", f.Fault, strings.Join(f.Path, "\n"))
			}
		})
	}
}
