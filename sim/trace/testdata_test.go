package trace

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the synthetic traces under testdata anew")

// madeUp are the synthetic traces. They are committed so that commands can be tried on
// them, and generated so that everybody can see that they are made up.
var madeUp = map[string]func() []byte{
	"access.log": madeUpAccessLog,
	"usage.csv":  madeUpUsage,
}

func TestSyntheticTracesAreWhatTheGeneratorWrites(t *testing.T) {
	t.Parallel()
	for name, generate := range madeUp {
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, generate(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, generate()) {
			t.Errorf("%s is not what the generator writes; run go test -update", path)
		}
	}
}

// pick draws from raw 64-bit values, which are the same in every version of Go, and
// prefers small indices: the first is drawn about four times as often as the middle one.
func pick(p *rand.PCG, n int) int {
	draw := func() int { return int(p.Uint64() % uint64(n)) }
	return min(draw(), draw(), draw())
}

// madeUpAccessLog is three hours of a web site with a dozen clients at most. Every 50th line is
// written late, as a log is when a request takes long.
func madeUpAccessLog() []byte {
	p := rand.NewPCG(2026, 1)
	paths := []string{"/api/v1/items?page=2", "/reports/2026/q1", "/images/logo.png", "/", "/search?q=lease", "/login"}
	junk := map[int]string{
		57:  `192.0.2.3 - - [02/Mar/2026:08:25:00 +0000] "-" 408 0`,
		133: `192.0.2.9 - - [02/Mar/2026:08:59:00 +0000] "\x16\x03\x01" 400 226`,
		201: `restarting`,
		288: `192.0.2.5 - - [31/Feb/2026:10:10:00 +0000] "GET /api HTTP/1.1" 200 12`,
		360: `192.0.2.2 - - [02/Mar/2026:10:43:00 +0000] "GET /api`,
	}
	at := time.Date(2026, time.March, 2, 8, 0, 0, 0, time.UTC)
	var out bytes.Buffer
	for line := 1; line <= 400; line++ {
		at = at.Add(time.Duration(p.Uint64()%54) * time.Second)
		if bad, ok := junk[line]; ok {
			fmt.Fprintln(&out, bad)
			continue
		}
		written := at
		if line%50 == 0 {
			written = at.Add(-40 * time.Second)
		}
		fmt.Fprintf(&out, "192.0.2.%d - - [%s] \"GET %s HTTP/1.1\" 200 %d \"-\" \"made-up/1.0\"\n",
			pick(p, 12)+1, written.Format(accessLayout), paths[pick(p, len(paths))], 200+p.Uint64()%9000)
	}
	return out.Bytes()
}

// madeUpUsage is one hour of three tenants with costs of different sizes.
func madeUpUsage() []byte {
	p := rand.NewPCG(2026, 2)
	tenants := []string{"acme", "globex", "initech"}
	dimensions := []struct {
		name string
		cost uint64
	}{{"llm_tokens", 4000}, {"api_calls", 1}, {"report_export", 20}}
	at := time.Date(2026, time.March, 2, 9, 0, 0, 0, time.UTC)
	var out bytes.Buffer
	fmt.Fprintln(&out, "timestamp,tenant,dimension,cost")
	for range 300 {
		at = at.Add(time.Duration(p.Uint64()%24_000) * time.Millisecond)
		d := dimensions[pick(p, len(dimensions))]
		fmt.Fprintf(&out, "%s,%s,%s,%d\n",
			at.Format("2006-01-02T15:04:05.000Z07:00"), tenants[pick(p, len(tenants))], d.name, 1+p.Uint64()%d.cost)
	}
	return out.Bytes()
}
