package ledger_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain fixes what random histories begin with, unless the command line says otherwise:
// a test that passed for one passes for all. Soak runs give -rapid.seed and -rapid.checks.
func TestMain(m *testing.M) {
	given := map[string]bool{}
	flag.Parse()
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, value := range map[string]string{"rapid.seed": "20261129", "rapid.steps": "200", "rapid.checks": "150", "rapid.nofailfile": "true"} {
		if !given[name] {
			if err := flag.Set(name, value); err != nil {
				panic(err)
			}
		}
	}
	os.Exit(m.Run())
}
