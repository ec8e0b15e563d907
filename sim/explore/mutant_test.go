package explore

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// mutant is a mistake that somebody could make, and the small worlds that find it, separated by commas.
// What no crash, lost or repeated message and no cut brings to light is left out of the world of all of these.
type mutant struct {
	name, worlds string
	edits        []edit
}

// edit replaces a text that occurs once in a file of the module.
type edit struct{ file, from, to string }

const ratchet = "if a.Clock.After(b.loaded.Now) || (b.loaded.ClockSuspect && !a.Clock.IsZero()) {"

var mutants = []mutant{
	{"grace 0", "slow clock", []edit{{"ledger/ask.go", "g.ClosesAt = g.ExpiresAt.Add(terms.Grace)", "g.ClosesAt = g.ExpiresAt"}}},
	{"deadlines from the reply's time", "calm,all at once", []edit{{"agent/core/reply.go", "l.until.Store(int64(a.firstSent + micros(d.GetTtlUs())))", "l.until.Store(int64(now + micros(d.GetTtlUs())))"}}},
	{"hard given back at the close", "crash,all at once", []edit{{"ledger/grant.go", "if g.Class == quota.BestEffort {", "if g.Class != quota.Bounded {"}}},
	{"returns added, not merged", "repeat,all at once", []edit{{"ledger/report.go", "after.Back = max(after.Back, r.Returned)", "after.Back += r.Returned"}}},
	{"use added, not merged", "repeat,all at once", []edit{{"ledger/report.go", "after.Taken = max(after.Taken, r.Taken)", "after.Taken += r.Taken"}}},
	{"final before the seal", "renewal,all at once", []edit{{"agent/core/lease.go", "r.returned, r.final = l.back, l.isSealed\n",
		"r.returned, r.final = l.back+l.left(), l.isSealed || l.renewed\n"}}},
	{"ids of asks used again", "renewal,all at once", []edit{{"agent/core/tend.go", "k.some().ask = &ask{id: c.newID(now), need: need,", "k.some().ask = &ask{id: c.incarnation, need: need,"}}},
	{"ids of spends used again", "exact", []edit{{"agent/core/spend.go", "s := &spend{id: c.newID(now),", "s := &spend{id: c.incarnation,"}}},
	{"policy version not read again", "stale replica,all at once", []edit{
		{"controlplane/decide.go", "if b.PolicyVersion() != p.snapshot.Version {", "if b.PolicyVersion() < 0 {"},
		{"ledger/book.go", "if t.PolicyVersion != b.loaded.PolicyVersion || t.PolicyVersion < a.PolicyVersion {", "if t.PolicyVersion < a.PolicyVersion {"}}},
	{"window not checked at the grant", "setback", []edit{
		{"controlplane/decide.go", "wrong = wrong || !at.account.Window.Contains(now)", "_ = now"},
		{"ledger/ask.go", "if !within(account.Window, now, lead) {", "if now.IsZero() {"}}},
	{"a lease outlives its window", "calm,all at once", []edit{{"ledger/ask.go", "!end.IsZero() && g.ExpiresAt.After(end) {", "end.IsZero() && g.ExpiresAt.After(end) {"}}},
	{"a lease begins before its window", "well ahead", []edit{{"agent/core/lease.go", "now >= l.more().start && now < l.deadline()", "now < l.deadline()"}}},
	{"a start is not told", "well ahead", []edit{{"ledger/next.go", "	if now.Before(w.Start) {\n		return w.Start\n	}", "	if w.Endless() {\n		return w.Start\n	}"}}},
	{"starts count from the ask", "well ahead", []edit{{"agent/core/reply.go", "l.rest.start, l.begun = now+wait+wait/maxDrift, false", "l.rest.start, l.begun = a.firstSent+wait, false"}}},
	{"the next window at any time", "well ahead", []edit{
		{"ledger/next.go", "now.Before(w.Start) && !now.Before(w.Start.Add(-lead))", "now.Before(w.Start)"},
		{"agent/core/window.go", "most := min(k.dim().TTL/2, length)", "most := length"}}},
	{"no ratchet", "setback", []edit{{"ledger/book.go", ratchet, "if b.loaded.ClockSuspect && !a.Clock.IsZero() {"}}},
	{"an unknown outcome is asked anew under another id", "unknown commit,all at once", []edit{{"agent/core/sync.go", "		c.failed(now, s.sent)\n		c.tellOutage(now, s)\n",
		"		c.failed(now, s.sent)\n		for _, k := range s.asks {\n			k.ask = nil\n		}\n		c.tellOutage(now, s)\n"}}},
	{"a spend of unknown outcome is not taken back", "exact", []edit{{"agent/core/spend.go",
		"	c.takeBack(s.id, s.key)\n}\n", "}\n"}}},
	{"a cancel of an unknown id is forgotten", "late after a crash", []edit{{"ledger/close.go", "return b.change(a, record)", "_ = record\n\t\treturn nil"}}},
	{"exposure without a cap", "bounded", []edit{
		{"ledger/ask.go", "plain := min(free, room)", "plain := free"},
		{"controlplane/sizing.go", "amount := min(r.Want, r.Headroom, r.Exposure)", "amount := min(r.Want, r.Headroom)"},
		{"controlplane/sizing.go", "amount = min(amount, l.Units-r.Holds)", "amount = min(amount, l.Units)"}}},
}

func moduleRoot(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// changed returns the files that a mutant changes, as they then are.
func (m mutant) changed(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, e := range m.edits {
		at := filepath.Join(moduleRoot(t), filepath.FromSlash(e.file))
		if _, ok := files[at]; !ok {
			raw, err := os.ReadFile(at)
			if err != nil {
				t.Fatal(err)
			}
			files[at] = string(raw)
		}
		if n := strings.Count(files[at], e.from); n != 1 {
			t.Fatalf("%s: %q occurs %d times, want once", e.file, e.from, n)
		}
		files[at] = strings.Replace(files[at], e.from, e.to, 1)
	}
	return files
}

func TestEveryMistakeCanBeMade(t *testing.T) {
	t.Parallel()
	for _, m := range mutants {
		m.changed(t)
	}
}

// TestEveryMistakeIsFoundInASmallWorld builds this test anew with each mistake and wants each of its worlds
// to break a promise.
func TestEveryMistakeIsFoundInASmallWorld(t *testing.T) {
	asked := os.Getenv("QUOTALEASE_MUTANTS")
	if asked == "" {
		t.Skip("builds a program for each mutant; set QUOTALEASE_MUTANTS=1, or to a part of a name, to run it")
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			if asked != "1" && !strings.Contains(m.name, asked) {
				t.Skip("not asked for")
			}
			program := m.build(t)
			for world := range strings.SplitSeq(m.worlds, ",") {
				run := exec.CommandContext(t.Context(), program, "-test.v", "-test.run", "TestWorldsKeepEveryPromise")
				run.Env = append(os.Environ(), worldsEnv+"="+world)
				said, err := run.CombinedOutput()
				told := regexp.MustCompile(`(?s)(\d+ states.*?)--- FAIL`).FindStringSubmatch(string(said))
				if err == nil || told == nil {
					t.Fatalf("world %s found nothing:\n%s", world, said)
				}
				t.Logf("world %s: %s", world, told[1])
			}
		})
	}
}

// build compiles this package's tests with the mutant laid over the module's files.
func (m mutant) build(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for at, text := range m.changed(t) {
		changed := filepath.Join(dir, strings.ReplaceAll(strings.TrimPrefix(at, moduleRoot(t)), string(filepath.Separator), "_"))
		if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[at] = changed
	}
	list, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	at, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "explore.test")
	if err := os.WriteFile(at, list, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", at, "-o", binary, "./sim/explore")
	cmd.Dir = moduleRoot(t)
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, said)
	}
	return binary
}
