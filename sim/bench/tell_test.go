package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// toldGrants is a run of the ledger's with one number in each figure that the README shows.
const toldGrants = `{"when": "2026-11-30T12:00:00Z", "rounds": 3, "time": "2s",
"machine": {"postgres": "15.2 (Debian)", "postgres_settings": "fsync=on", "load_average": "0.1"},
"words": [
  {"figure": "grants on one hot key, 256 askers", "ours": "70,000/s", "its": "2,000/s", "yardstick": "a transaction a grant", "ratio": "35.0x", "reach": ">= 30x", "reached": "yes"},
  {"figure": "grants over 10,000 keys, 256 askers", "ours": "50,000/s", "its": "10,000/s", "yardstick": "a transaction a grant", "ratio": "5.00x"},
  {"figure": "Postgres CPU a grant, one hot key", "ours": "8.00 us", "its": "400 us", "yardstick": "a transaction a grant", "ratio": "0.02x"},
  {"figure": "p50 of a lone grant", "ours": "0.60 ms", "its": "0.30 ms", "yardstick": "an INSERT of one row", "ratio": "2.00x"},
  {"figure": "exact lane, 64 callers on one key", "ours": "40,000/s", "its": "4,000/s", "yardstick": "an UPDATE a decision", "ratio": "10.0x"},
  {"figure": "rate limit service, server CPU a decision", "ours": "26.0 us", "its": "26.0 us", "yardstick": "a stub that says yes", "ratio": "1.00x"},
  {"figure": "takes by gRPC, 64 a call, server CPU a decision", "ours": "3.00 us", "its": "24.0 us", "yardstick": "quotalease agent", "ratio": "0.13x"},
  {"figure": "transactions at 60,000 decisions/s, all that there were", "ours": "50.00/s", "its": "45.00/s", "yardstick": "at 1,000 decisions/s", "ratio": "1.11x", "grows": true}],
"growth": [{"of": "keys", "points": [{"at": 100000, "commits_per_second": 12.34}]}],
"edge": {"keys": 1000, "decisions_per_second": 2000, "lead_s": 5, "after": {"grants_per_second": 470, "take_p99_ms": 12.5}},
"restarts": [{"accounts": 1000, "leases_due": 50, "swept_ms": 1234}]}`

func TestDocumentsAreFilledBetweenTheirMarks(t *testing.T) {
	t.Parallel()
	r := made()
	r.When = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	r.Weights = []weight{{Store: "s", Keys: 10}}
	var err error
	if r.Figures, err = judge(figures(), r.Results); err != nil {
		t.Fatal(err)
	}
	var g grants
	if err := json.Unmarshal([]byte(toldGrants), &g); err != nil {
		t.Fatal(err)
	}
	blocks, err := r.blocks(&g, "abc1234")
	if err != nil {
		t.Fatal(err)
	}
	got, err := fill("# Speed\n<!-- speed -->\nold\n<!-- /speed -->\nmiddle\n<!-- growth -->\n<!-- /growth -->\nend\n", blocks)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"# Speed\n<!-- speed -->\n\n|  | ours | beside | its | ratio |\n|---|---|---|---|---|\n| a decision by a handle | 11.0 ns/op | x/time/rate AllowN | ",
		"| durable grants on one hot key | 70,000/s | a transaction a grant | 2,000/s | 35.0x |\n",
		"| transactions at 60,000 decisions/s, all that there were | 50.00/s | at 1,000 decisions/s | 45.00/s | 1.11x |\n",
		"with Postgres 15 on the same machine, at abc1234", "medians of 3 rounds in turns, and of the last row one measurement each.\n\n<!-- /speed -->\nmiddle\n<!-- growth -->\n",
		"| 1,000 keys, 2,000 decisions/s | leases/s |", "| the second after it | 470 | 0 | 12.50 | 0 |",
		"| 100,000 keys | 0 | 0.0 | 12.3 |", "| 1,000 | 50 | 0.0 | 0.0 | 0.0 | 1234 |\n\n<!-- /growth -->\nend\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "old") {
		t.Error("what was there is left")
	}
	again, err := fill(got, blocks)
	if err != nil || again != got {
		t.Errorf("filled twice: %v\n%s", err, again)
	}
	if _, err := fill("<!-- speed -->\n", blocks); err == nil {
		t.Error("a block without an end was filled")
	}
	g.Words = g.Words[1:]
	if _, err := r.blocks(&g, ""); err == nil || !strings.Contains(err.Error(), "grants on one hot key") {
		t.Errorf("%v, want the figure named that was not measured", err)
	}
}

// TestTheDocumentsHaveTheirMarks holds every block to a place in a document.
func TestTheDocumentsHaveTheirMarks(t *testing.T) {
	t.Parallel()
	all := ""
	for _, name := range toldIn {
		text, err := os.ReadFile(filepath.FromSlash(name))
		if err != nil {
			t.Fatal(err)
		}
		all += string(text)
	}
	for _, name := range []string{"speed", "takes", "figures", "one key", "many keys", "memory", "ledger", "growth"} {
		if strings.Count(all, "<!-- "+name+" -->\n") != 1 || strings.Count(all, "<!-- /"+name+" -->\n") != 1 {
			t.Errorf("no document has the block %q, or more than one do", name)
		}
	}
}

func TestScenesStandSideBySide(t *testing.T) {
	t.Parallel()
	got := markdown(made().pivot("1 key"))
	head := "| ns/op (CPU ns/op) | 1 goroutine | 2 goroutines | 64 goroutines | allocs/op |\n|---|---|---|---|---|\n| quotalease Take | 10 (0) | 10 (0) | 10 (0) | 0 |\n"
	if !strings.HasPrefix(got, head) {
		t.Errorf("got\n%s\nwant it to begin\n%s", got, head)
	}
}
